/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_H
#define HAWSER_TOOLS_STRESS_H

/*
 * Common definitions of the parts of rds-stress.
 *
 * Two parents, the active one and the passive one, talk over a TCP connection (stress-control). Each starts
 * tasks, processes that own one RDS socket (stress-task) and exchange requests and acknowledgements with
 * every task of the other side (format: stress-message). The tasks count into memory that
 * they share with their parent, which reports once a second (stress-report).
 */

#include "histogram.h"
#include "rds-address.h"

#include <stdbool.h>
#include <stdint.h>

#define STRESS_DEFAULT_PORT 4000
#define STRESS_MAX_TASKS 1024

/* RDMA modes, as users number them. */
enum stress_rdma_mode {
	STRESS_RDMA_READ_AND_WRITE = 0,
	STRESS_RDMA_READ_ONLY = 1,
	STRESS_RDMA_WRITE_ONLY = 2,
};

/* Every option is a number, flags are 0 or 1; stress-options.c has a table of them. */
struct stress_options {
	/* Of one side alone. */
	uint64_t report_cpu;
	uint64_t realtime;
	uint64_t trace;
	uint64_t summary_only;
	uint64_t show_parameters;
	uint64_t show_perfdata;
	uint64_t show_histogram;
	uint64_t outlier_us;		/* report longer round trips; 0: none */
	uint64_t connect_retries;
	uint64_t json;
	uint64_t warm_up_seconds;
	uint64_t drain_seconds;		/* time limit for the last acknowledgements */
	/* Of both: the active side's are sent to the passive side. */
	uint64_t port;
	uint64_t tasks;
	uint64_t depth;
	uint64_t request_bytes;
	uint64_t ack_bytes;
	uint64_t one_way;
	uint64_t run_seconds;		/* 0: until interrupted */
	uint64_t tos;
	uint64_t verify;
	uint64_t congestion_monitor;
	uint64_t zerocopy;
	uint64_t transport;		/* 0 any, else 1 + RDS_TRANS_* */
	uint64_t rdma_bytes;
	uint64_t rdma_buffers;
	uint64_t rdma_mode;
	uint64_t rdma_use_once;
	uint64_t rdma_use_get_mr;
	uint64_t rdma_use_fence;
	uint64_t rdma_use_notify;	/* notifications are always requested; kept for compatibility */
	uint64_t rdma_cache_mrs;
	uint64_t rdma_alignment;
	uint64_t run_id;		/* random, to recognise messages of an earlier run */
	/* Addresses; not in the table. */
	bool has_local;
	bool active;
	bool foreign;			/* the other side is the rds-stress of rds-tools: stress-foreign.h */
	union rds_address local;
	union rds_address remote;
};

/* A task's counters. Only the task writes; its parent reads at the same time, so a sum may be a message
 * behind. */
struct stress_counts {
	uint64_t requests_sent;
	uint64_t requests_received;
	uint64_t acks_sent;
	uint64_t acks_received;
	uint64_t bytes_sent;
	uint64_t bytes_received;
	uint64_t rdma_bytes_in;
	uint64_t rdma_bytes_out;
	uint64_t send_calls;
	uint64_t send_ns;
	uint64_t rtt_ns;		/* sum over acks_received */
	uint64_t rtt_min_ns;
	uint64_t rtt_max_ns;
	uint64_t congested;		/* sends that the peer's congestion refused */
	uint64_t congestion_late; /* ... that succeeded a second later without a notification of the kernel */
	uint64_t stale;			/* messages of an earlier run, ignored */
	/* Faults. */
	uint64_t lost;
	uint64_t duplicated;
	uint64_t corrupted;
	uint64_t rdma_failed;
};

/* Names, for reports: one entry for each field above, in this order. */
#define STRESS_COUNT_FIELDS (sizeof(struct stress_counts) / sizeof(uint64_t))
extern const char *const stress_count_names[STRESS_COUNT_FIELDS];

/* Adds @other to @counts field by field, except the extremes. */
void stress_counts_add(struct stress_counts *counts, const struct stress_counts *other);

/* True if there was any fault. */
bool stress_counts_bad(const struct stress_counts *counts);

enum stress_command {
	STRESS_WAIT,			/* serve the other side, send no requests */
	STRESS_RUN,
	STRESS_DRAIN,			/* no new requests; wait for the missing acknowledgements */
	STRESS_EXIT,
};

enum stress_task_state {
	STRESS_TASK_STARTING,
	STRESS_TASK_READY,		/* its socket is bound */
	STRESS_TASK_DRAINED,		/* drained: no acknowledgement is missing */
};

/* The memory that parent and tasks share. */
struct stress_task_slot {
	int state;			/* enum stress_task_state; written by the task */
	struct stress_counts counts;
	struct histogram rtt_us;
};

struct stress_shared {
	int command;			/* enum stress_command; written by the parent */
	struct stress_task_slot tasks[];
};

/* The parts. */

/* Reads the command line into @options; exits when it is invalid. */
void stress_read_command_line(struct stress_options *options, int argc, char **argv);

/* Checks combinations of options. Returns NULL or an error message. */
const char *stress_options_problem(const struct stress_options *options);

/* Calls @visit for each option that both sides share, or for all. */
void stress_options_each(const struct stress_options *options, bool shared_only,
			 void (*visit)(const char *name, uint64_t value, void *context), void *context);

/* Sets the shared option @name, as the other side sent it. False when there is none or the value is not
 * allowed. */
bool stress_options_set_shared(struct stress_options *options, const char *name, uint64_t value);

/* Runs task @index; never returns. */
_Noreturn void stress_task(const struct stress_options *options, struct stress_shared *shared,
			   unsigned int index);

/* The port of the task @index, of this side or of the other. */
uint16_t stress_task_port(const struct stress_options *options, bool of_remote, unsigned int index);

#endif
