/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_REPORT_H
#define HAWSER_TOOLS_STRESS_REPORT_H

/*
 * What rds-stress prints: one line a second in the usual columns, a summary, or all of it as
 * JSON.
 */

#include "json.h"
#include "stress.h"

struct stress_cpu {
	uint64_t busy;
	uint64_t total;
};

struct stress_report {
	const struct stress_options *options;
	const struct stress_shared *shared;
	struct stress_counts first;	/* at the start of the measurement */
	struct stress_counts last;	/* at the last line */
	struct histogram first_rtt_us;
	struct stress_cpu first_cpu;
	struct stress_cpu last_cpu;
	uint64_t first_ns;
	uint64_t last_ns;
	struct json json;
};

/* Prints the header. */
void stress_report_open(struct stress_report *report, const struct stress_options *options,
			const struct stress_shared *shared);

/* The measurement begins now. */
void stress_report_begin(struct stress_report *report);

/* Prints the line of the last second. */
void stress_report_interval(struct stress_report *report);

/* The measurement ends now: later messages are not part of the averages. */
void stress_report_end(struct stress_report *report);

/* Prints the summary, with both sides' counts of the whole run. */
void stress_report_close(struct stress_report *report, const struct stress_counts *ours,
			 const struct stress_counts *theirs);

/* The current sum over all tasks. */
void stress_report_sum(const struct stress_report *report, struct stress_counts *sum);

#endif
