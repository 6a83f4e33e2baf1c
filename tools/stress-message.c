// SPDX-License-Identifier: GPL-2.0
#include "stress-message.h"

#include <endian.h>
#include <string.h>

#define MAGIC 0x6873u /* "hs" */

/* The header as it travels: big-endian, without holes. */
struct wire_header {
	uint16_t magic;
	uint8_t kind;
	uint8_t rdma_operation;
	uint32_t checksum;		/* over the header with this field zero */
	uint32_t run_id;
	uint16_t from_task;
	uint16_t to_task;
	uint32_t length;
	uint32_t rdma_bytes;
	uint64_t sequence;
	uint64_t sent_ns;
};

_Static_assert(sizeof(struct wire_header) == STRESS_HEADER_SIZE, "the header has its published size");
_Static_assert(offsetof(struct wire_header, sequence) == 24, "the header has no holes");

/* FNV-1a: short, and good enough to detect damaged bytes. */
static uint32_t checksum(const struct wire_header *wire)
{
	const unsigned char *next = (const unsigned char *)wire;
	uint32_t hash = 2166136261u;
	size_t i;

	for (i = 0; i < sizeof(*wire); i++)
		hash = (hash ^ next[i]) * 16777619u;
	return hash;
}

void stress_header_write(const struct stress_header *header, void *message)
{
	struct wire_header wire = {
		.magic = htobe16(MAGIC),
		.kind = header->kind,
		.rdma_operation = header->rdma_operation,
		.run_id = htobe32(header->run_id),
		.from_task = htobe16(header->from_task),
		.to_task = htobe16(header->to_task),
		.length = htobe32(header->length),
		.rdma_bytes = htobe32(header->rdma_bytes),
		.sequence = htobe64(header->sequence),
		.sent_ns = htobe64(header->sent_ns),
	};

	wire.checksum = htobe32(checksum(&wire));
	memcpy(message, &wire, sizeof(wire));
}

bool stress_header_read(struct stress_header *header, const void *message, size_t bytes)
{
	struct wire_header wire;
	uint32_t expected;

	if (bytes < sizeof(wire))
		return false;
	memcpy(&wire, message, sizeof(wire));
	expected = be32toh(wire.checksum);
	wire.checksum = 0;
	if (be16toh(wire.magic) != MAGIC || checksum(&wire) != expected)
		return false;
	*header = (struct stress_header){
		.run_id = be32toh(wire.run_id),
		.kind = wire.kind,
		.rdma_operation = wire.rdma_operation,
		.from_task = be16toh(wire.from_task),
		.to_task = be16toh(wire.to_task),
		.length = be32toh(wire.length),
		.rdma_bytes = be32toh(wire.rdma_bytes),
		.sequence = be64toh(wire.sequence),
		.sent_ns = be64toh(wire.sent_ns),
	};
	return (header->kind == STRESS_REQUEST || header->kind == STRESS_ACK) && header->length == bytes &&
	       header->rdma_operation <= STRESS_RDMA_WRITE;
}

/* SplitMix64's finisher: every bit of the result depends on every bit of @value. */
static uint64_t scramble(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

uint64_t stress_pattern_seed(const struct stress_header *header)
{
	uint64_t who = (uint64_t)header->run_id << 32 | (uint32_t)header->from_task << 16 | header->to_task;

	return scramble(scramble(who) + header->sequence) + header->kind;
}

static uint64_t pattern_word(uint64_t seed, size_t index)
{
	return htole64(scramble(seed + index * UINT64_C(0x9e3779b97f4a7c15)));
}

void stress_pattern_fill(uint64_t seed, void *data, size_t bytes)
{
	unsigned char *next = data;
	uint64_t word;
	size_t i;

	for (i = 0; i < bytes / sizeof(word); i++) {
		word = pattern_word(seed, i);
		memcpy(next + i * sizeof(word), &word, sizeof(word));
	}
	word = pattern_word(seed, i);
	memcpy(next + i * sizeof(word), &word, bytes % sizeof(word));
}

size_t stress_pattern_check(uint64_t seed, const void *data, size_t bytes)
{
	const unsigned char *next = data;
	size_t i;

	for (i = 0; i < bytes; i += sizeof(uint64_t)) {
		size_t rest = bytes - i < sizeof(uint64_t) ? bytes - i : sizeof(uint64_t);
		uint64_t word = pattern_word(seed, i / sizeof(word));
		size_t byte;

		if (!memcmp(next + i, &word, rest))
			continue;
		for (byte = 0; byte < rest; byte++) {
			if (next[i + byte] != ((unsigned char *)&word)[byte])
				return i + byte;
		}
	}
	return bytes;
}
