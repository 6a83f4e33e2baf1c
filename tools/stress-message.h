/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_MESSAGE_H
#define HAWSER_TOOLS_STRESS_MESSAGE_H

/*
 * What rds-stress sends: a header with sender, receiver and number, under a checksum, then
 * data up to the length, with -v a pattern unique to the message.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRESS_HEADER_SIZE 40

enum stress_kind {
	STRESS_REQUEST = 1,
	STRESS_ACK = 2,
};

/* The receiver's operation on the sender's memory before it acknowledges. */
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
	/* With the rds-stress of rds-tools alone, for an operation; an acknowledgement repeats them. */
	uint64_t rdma_key;		/* 0: the request registers its memory itself */
	uint64_t rdma_address;		/* where the requester has that memory */
	uint64_t rdma_pattern;		/* each eight bytes of the first buffer */
};

/* Writes the header to the first STRESS_HEADER_SIZE bytes of @message. */
void stress_header_write(const struct stress_header *header, void *message);

/* Parses a header. False when @bytes is too small, or the header is foreign or damaged. */
bool stress_header_read(struct stress_header *header, const void *message, size_t bytes);

/* The pattern seed of a message, unique in the run. */
uint64_t stress_pattern_seed(const struct stress_header *header);

/* Fills @bytes at @data with the pattern of @seed, or finds the first byte that differs (@bytes: none). */
void stress_pattern_fill(uint64_t seed, void *data, size_t bytes);
size_t stress_pattern_check(uint64_t seed, const void *data, size_t bytes);

#endif
