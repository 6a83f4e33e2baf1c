/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_MESSAGE_H
#define HAWSER_TOOLS_STRESS_MESSAGE_H

/*
 * What rds-stress sends: a header that says whose message this is and which one, under a checksum, and after
 * it whatever makes up the length, with -v a pattern that belongs to this one message.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRESS_HEADER_SIZE 40

enum stress_kind {
	STRESS_REQUEST = 1,
	STRESS_ACK = 2,
};

/* What the receiver of a request does to the sender's memory before it acknowledges. */
enum stress_rdma_operation {
	STRESS_RDMA_NONE = 0,
	STRESS_RDMA_READ = 1,
	STRESS_RDMA_WRITE = 2,
};

struct stress_header {
	uint32_t run_id;
	uint8_t kind;
	uint8_t rdma_operation;
	uint16_t from_task;
	uint16_t to_task;
	uint32_t length;		/* of the whole message */
	uint32_t rdma_bytes;
	uint64_t sequence;		/* of the request, from 0; an acknowledgement repeats it */
	uint64_t sent_ns;		/* by the requester's clock; an acknowledgement repeats it */
};

/* Writes the header to the first STRESS_HEADER_SIZE bytes of @message. */
void stress_header_write(const struct stress_header *header, void *message);

/* Reads it back. False when these @bytes are too few, not ours, or damaged. */
bool stress_header_read(struct stress_header *header, const void *message, size_t bytes);

/* A number for stress_pattern_* that no other message of the run has. */
uint64_t stress_pattern_seed(const struct stress_header *header);

/* Fills @bytes at @data with the pattern of @seed, or finds the first byte that differs (@bytes: none). */
void stress_pattern_fill(uint64_t seed, void *data, size_t bytes);
size_t stress_pattern_check(uint64_t seed, const void *data, size_t bytes);

#endif
