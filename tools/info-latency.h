/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_LATENCY_H
#define HAWSER_TOOLS_INFO_LATENCY_H

/*
 * How long messages of a path waited for their acknowledgement, as HAWSER_RDS_PATH_LATENCY has it.
 */

#include "json.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../include/uapi/hawser_netlink.h"

struct latency {
	uint64_t messages[HAWSER_RDS_LATENCY_BUCKETS];
};

/* From an array of 64-bit numbers; @bytes 0: there is none. */
void latency_read(const void *array, size_t bytes, struct latency *latency);

/* A line: for each range of microseconds how many; nothing if no message was timed. */
void latency_print(FILE *out, const struct latency *latency);
void latency_write(struct json *json, const char *key, const struct latency *latency);

#endif
