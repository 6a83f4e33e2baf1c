// SPDX-License-Identifier: GPL-2.0
#include "info-latency.h"

#include <inttypes.h>
#include <string.h>

#define LAST (HAWSER_RDS_LATENCY_BUCKETS - 1)

void latency_read(const void *array, size_t bytes, struct latency *latency)
{
	*latency = (struct latency){ 0 };
	if (bytes > sizeof(latency->messages))
		bytes = sizeof(latency->messages);
	if (bytes)
		memcpy(latency->messages, array, bytes - bytes % sizeof(latency->messages[0]));
}

static uint64_t first_us(unsigned int bucket)
{
	return bucket ? UINT64_C(1) << (bucket - 1) : 0;
}

void latency_print(FILE *out, const struct latency *latency)
{
	const char *between = "    acknowledged after us: ";
	unsigned int i;

	for (i = 0; i <= LAST; i++) {
		if (!latency->messages[i])
			continue;
		if (i == LAST)
			fprintf(out, "%s[%" PRIu64 ",...) %" PRIu64, between, first_us(i), latency->messages[i]);
		else
			fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ") %" PRIu64, between, first_us(i), first_us(i + 1),
				latency->messages[i]);
		between = ", ";
	}
	if (*between == ',')
		fputc('\n', out);
}

void latency_write(struct json *json, const char *key, const struct latency *latency)
{
	unsigned int i;

	json_open_array(json, key);
	for (i = 0; i <= LAST; i++) {
		if (!latency->messages[i])
			continue;
		json_open_object(json, NULL);
		json_unsigned(json, "from_us", first_us(i));
		if (i == LAST)
			json_null(json, "below_us");
		else
			json_unsigned(json, "below_us", first_us(i + 1));
		json_unsigned(json, "messages", latency->messages[i]);
		json_close(json);
	}
	json_close(json);
}
