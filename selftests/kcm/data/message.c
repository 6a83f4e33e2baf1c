// SPDX-License-Identifier: GPL-2.0
#include "data.h"

#define LABEL (FRAME_HEADER + 8) /* the frame's header, stream, number */
#define CONSTANT 120

static uint64_t seed_of(uint32_t stream, uint32_t number)
{
	return data_seed * 0x100000001b3ULL + ((uint64_t)stream << 32 | number);
}

/* Small ones mostly, and now and then one of many segments. */
static size_t length_of(bool mixed, uint32_t stream, uint32_t number)
{
	struct random r = { seed_of(stream, number) };

	if (!mixed)
		return CONSTANT;
	if (random_below(&r, 200) == 0)
		return MESSAGE_MAX - random_below(&r, 10000);
	return LABEL + random_below(&r, 1UL << random_below(&r, 13));
}

size_t message_write(void *buf, bool mixed, uint32_t stream, uint32_t number)
{
	size_t len = length_of(mixed, stream, number);
	uint32_t label[2] = { stream, number };

	frame_fill(buf, len, seed_of(stream, number));
	memcpy((char *)buf + FRAME_HEADER, label, sizeof(label));
	return len;
}

bool message_read(const void *buf, ssize_t len, bool mixed, uint32_t *stream, uint32_t *number)
{
	static __thread char want[MESSAGE_MAX];
	uint32_t label[2];

	if (len < LABEL || len > MESSAGE_MAX)
		return false;
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
