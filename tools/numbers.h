/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_NUMBERS_H
#define HAWSER_TOOLS_NUMBERS_H

/*
 * Parses numbers of a command line strictly: a text that is not entirely a number,
 * or that is outside of the bounds, is refused.
 */

#include <stdbool.h>
#include <stdint.h>

/* A whole number, decimal, 0x or 0 octal, with an optional suffix K, M or G (powers of 1024). */
bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value);

/* A time: seconds (a fraction is fine), or with a suffix s, ms, msec, us or usec. Stored in nanoseconds. */
bool parse_duration(const char *text, uint64_t *nanoseconds);

#endif
