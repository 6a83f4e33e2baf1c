// SPDX-License-Identifier: GPL-2.0
#include "info-delta.h"

#include <stdlib.h>
#include <string.h>

static uint64_t value_before(const struct info_rows *before, const struct counter *counter)
{
	size_t i;

	for (i = 0; i < before->count; i++) {
		const struct counter *old = &before->rows[i].counter;

		if (!strcmp(old->name, counter->name))
			return old->value <= counter->value ? old->value : 0;
	}
	return 0;
}

void info_delta(struct info_rows *counters, struct info_rows *before)
{
	struct info_rows now = { 0 };
	size_t i;

	for (i = 0; i < counters->count; i++) {
		struct counter *counter = &counters->rows[i].counter;

		info_add_row(&now)->counter = *counter;
		counter->value -= value_before(before, counter);
	}
	free(before->rows);
	*before = now;
}

void info_only_changed(struct info_rows *counters)
{
	size_t i, kept = 0;

	for (i = 0; i < counters->count; i++) {
		if (counters->rows[i].counter.value)
			counters->rows[kept++] = counters->rows[i];
	}
	counters->count = kept;
}
