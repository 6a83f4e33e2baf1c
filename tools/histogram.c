// SPDX-License-Identifier: GPL-2.0
#include "histogram.h"

static unsigned int highest_bit(uint64_t value)
{
	return 63u - (unsigned int)__builtin_clzll(value);
}

/* Small values have a bucket each; above, the power of two and the next bits choose one. */
static unsigned int bucket_of(uint64_t value)
{
	unsigned int power, part;

	if (value < HISTOGRAM_SUB_COUNT)
		return (unsigned int)value;
	power = highest_bit(value);
	part = (unsigned int)(value >> (power - HISTOGRAM_SUB_BITS)) & (HISTOGRAM_SUB_COUNT - 1);
	return (power - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_COUNT + part;
}

/* The largest value that falls into @bucket. */
static uint64_t bucket_top(unsigned int bucket)
{
	unsigned int power, part;

	if (bucket < HISTOGRAM_SUB_COUNT)
		return bucket;
	power = bucket / HISTOGRAM_SUB_COUNT + HISTOGRAM_SUB_BITS - 1;
	part = bucket % HISTOGRAM_SUB_COUNT;
	/* In this order nothing overflows, also in the last bucket. */
	return (UINT64_C(1) << power) - 1 + ((uint64_t)(part + 1) << (power - HISTOGRAM_SUB_BITS));
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	unsigned int i;

	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->buckets[i] += other->buckets[i];
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += histogram->buckets[i];
	return count;
}

uint64_t histogram_count_power(const struct histogram *histogram, unsigned int power)
{
	unsigned int first = bucket_of(power ? UINT64_C(1) << power : 0);
	unsigned int last = bucket_of(power < 63 ? (UINT64_C(1) << (power + 1)) - 1 : UINT64_MAX);
	uint64_t count = 0;

	for (; first <= last; first++)
		count += histogram->buckets[first];
	return count;
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned int per_mille)
{
	uint64_t total = histogram_count(histogram);
	/* Rounded up, so that the median of one value is that value; split, so that nothing overflows. */
	uint64_t rank = total / 1000 * per_mille + (total % 1000 * per_mille + 999) / 1000;
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen && seen >= rank)
			return bucket_top(i);
	}
	return 0;
}
