// SPDX-License-Identifier: GPL-2.0
#include "xfer.h"

#include <stddef.h>

#define SHIFTS 512 /* number of different payloads */

static char pattern[MAX_MESSAGE + SHIFTS * 8];

const void *payload_of(uint64_t number, size_t len)
{
	if (!pattern[0] && !pattern[1])
		pattern_fill(pattern, sizeof(pattern), 77);
	NEED(len <= MAX_MESSAGE);
	return pattern + number % SHIFTS * 8;
}

void head_seal(struct head *h)
{
	h->crc = crc32_of(h, offsetof(struct head, crc));
}

bool message_valid(const void *message, size_t n)
{
	const struct head *h = message;

	if (n < sizeof(*h) || h->magic != MAGIC || h->len != n ||
	    h->crc != crc32_of(h, offsetof(struct head, crc)))
		return false;
	return !memcmp(h + 1, payload_of(h->number, n - sizeof(*h)), n - sizeof(*h));
}
