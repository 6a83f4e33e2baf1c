/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_CONTROL_H
#define HAWSER_TOOLS_STRESS_CONTROL_H

/*
 * The TCP connection between the two parents of rds-stress: short lines of text, so that a version mismatch
 * or another program is noticed at once.
 */

#include "stress.h"

#define STRESS_LINE_SIZE 256

struct stress_control {
	int fd;
	size_t used;
	char buffer[STRESS_LINE_SIZE];
};

/*
 * Make the connection, as the passive or as the active side, and fill in @options->local and @options->remote
 * from it. They die with a message when that is impossible.
 */
void stress_control_accept(struct stress_control *control, struct stress_options *options);
void stress_control_connect(struct stress_control *control, struct stress_options *options);

/*
 * Which program is at the other side? As the passive and as the active one: false if it is the rds-stress of rds-tools. The
 * passive one greets, unless the other speaks at once, as that one does.
 */
bool stress_control_greet(struct stress_control *control);
bool stress_control_is_greeted(struct stress_control *control);

/* Sends one line; a '\n' is appended. Dies when the other side is gone. */
void stress_control_send(struct stress_control *control, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Waits at most @timeout_ms for a line and stores it without its '\n', printable. False: none yet. Dies when the peer is
 * gone. */
bool stress_control_receive(struct stress_control *control, char line[STRESS_LINE_SIZE], int timeout_ms);

/* Waits at most @timeout_ms for a line and dies unless it is @expected. */
void stress_control_expect(struct stress_control *control, const char *expected, int timeout_ms);

/* The active side sends its options; the passive side applies them. Both die when they cannot agree. */
void stress_control_tell_options(struct stress_control *control, const struct stress_options *options);
void stress_control_take_options(struct stress_control *control, struct stress_options *options);

/* Exchanges the counts of both sides' tasks: sends ours, receives theirs. */
void stress_control_swap_counts(struct stress_control *control, const struct stress_counts *ours,
				struct stress_counts *theirs);

#endif
