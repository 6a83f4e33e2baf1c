/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_PROGRAM_H
#define HAWSER_TOOLS_PROGRAM_H

/*
 * Common to all programs: exit statuses, error messages, and the clock.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

enum exit_status {
	EXIT_GOOD = 0,			/* success */
	EXIT_FAILED = 1,		/* no answer, lost or damaged data, or the system refused */
	EXIT_USAGE = 2,			/* the command line is wrong */
};

/* The name that error messages begin with; each program defines it. */
extern const char program_name[];

/* Prints an error about the command line and a hint at --help, and exits with EXIT_USAGE. */
noreturn void die_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error and exits with EXIT_FAILED. */
noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As die(), followed by the text and a hint for @error, a positive or negative errno of an RDS call. */
noreturn void die_error(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the program's name and version. */
void print_version(void);

/* Prints a warning. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Replaces what a terminal may obey, or does not show, by '?': each byte that is not printable ASCII. */
void make_printable(char *text, size_t bytes);

/* Flushes stdout; dies if that fails (a full disk, a closed pipe). */
void flush_output(void);

/* Monotonic time in nanoseconds. */
uint64_t now_ns(void);

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

#endif
