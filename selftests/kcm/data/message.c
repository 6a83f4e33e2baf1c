// SPDX-License-Identifier: GPL-2.0
#include "data.h"

#define LABEL (FRAME_HEADER + 8) /* the frame's header, stream, number */
#define CONSTANT 120

bool data_large;

static uint64_t seed_of(uint32_t stream, uint32_t number)
{
	return data_seed * 0x100000001b3ULL + ((uint64_t)stream << 32 | number);
}

/* Small ones mostly, down to a byte behind the header, and sometimes one of many segments. */
static size_t length_of(bool mixed, uint32_t stream, uint32_t number)
{
	struct random r = { seed_of(stream, number) };

	if (!mixed)
		return CONSTANT;
	if (number % 16 == 7)
		return FRAME_HEADER + 1 + random_below(&r, LABEL - FRAME_HEADER - 1);
	if (data_large && random_below(&r, 400) == 0)
		return MESSAGE_LARGEST - random_below(&r, MESSAGE_LARGEST - MESSAGE_MAX);
	if (random_below(&r, 200) == 0)
		return MESSAGE_MAX - random_below(&r, 10000);
	return LABEL + random_below(&r, 1UL << random_below(&r, 13));
}

bool message_unlabelled(bool mixed, uint32_t stream, uint32_t number)
{
	return length_of(mixed, stream, number) < LABEL;
}

size_t message_write(void *buf, bool mixed, uint32_t stream, uint32_t number)
{
	size_t len = length_of(mixed, stream, number);
	uint32_t label[2] = { stream, number };

	if (len < LABEL) {
		frame_fill(buf, len, len);
	} else {
		frame_fill(buf, len, seed_of(stream, number));
		memcpy((char *)buf + FRAME_HEADER, label, sizeof(label));
	}
	return len;
}

bool message_read(const void *buf, ssize_t len, bool mixed, uint32_t *stream, uint32_t *number)
{
	static __thread char want[MESSAGE_LARGEST];
	uint32_t label[2];

	if (len <= FRAME_HEADER || len > MESSAGE_LARGEST)
		return false;
	if (len < LABEL) {
		*number = UNLABELLED;
		frame_fill(want, len, len);
		return mixed && !memcmp(want, buf, len);
	}
	memcpy(label, (const char *)buf + FRAME_HEADER, sizeof(label));
	*stream = label[0];
	*number = label[1];
	return length_of(mixed, *stream, *number) == (size_t)len &&
	       message_write(want, mixed, *stream, *number) == (size_t)len && !memcmp(want, buf, len);
}

int message_parser(bool mixed)
{
	static int constant = -1;

	if (mixed)
		return parser_framed();
	if (constant < 0)
		constant = parser_constant(CONSTANT);
	return constant;
}

const char *message_kind(bool mixed)
{
	return data_tls ? "TLS" : mixed ? "mixed" : "constant";
}
