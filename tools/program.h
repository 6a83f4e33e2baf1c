/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_PROGRAM_H
#define HAWSER_TOOLS_PROGRAM_H

/*
 * What the programs have in common as programs: their exit statuses, how they complain, and the clock.
 */

#include <stdint.h>
#include <stdnoreturn.h>

enum exit_status {
	EXIT_GOOD = 0,			/* it did what was asked */
	EXIT_FAILED = 1,		/* no answer, lost or damaged data, or the system refused */
	EXIT_USAGE = 2,			/* the command line makes no sense */
};

/* The name that error messages begin with; each program defines it. */
extern const char program_name[];

/* Says what is wrong with the command line, points to --help, and exits with EXIT_USAGE. */
noreturn void die_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what went wrong and exits with EXIT_FAILED. */
noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As die(), followed by the text and a hint for @error, a positive or negative errno of an RDS call. */
noreturn void die_error(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a warning and goes on. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checks that everything written to stdout got there (a full disk, a closed pipe); dies if not. */
void flush_output(void);

/* Monotonic time in nanoseconds. */
uint64_t now_ns(void);

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

#endif
