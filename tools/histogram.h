/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_HISTOGRAM_H
#define HAWSER_TOOLS_HISTOGRAM_H

/*
 * Counts values in buckets that grow with the value: each power of two is cut into
 * 2^HISTOGRAM_SUB_BITS equal parts, so a percentile read from it is at most 1/16 too high.
 */

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 4
#define HISTOGRAM_SUB_COUNT (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_COUNT)

struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* Adds what @other counted. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* The number of values. */
uint64_t histogram_count(const struct histogram *histogram);

/* The number of values in [2^power, 2^(power+1)); power 0 includes the value 0. */
uint64_t histogram_count_power(const struct histogram *histogram, unsigned int power);

/* The largest value that may be among the lowest @per_mille of them; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, unsigned int per_mille);

#endif
