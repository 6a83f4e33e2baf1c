// SPDX-License-Identifier: GPL-2.0
/*
 * A frame's head is the length for the parser program, the sender, and a number; content follows, in which
 * each word is its position.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#define NUMBERS (1u << 23)

/* Shared with child processes, which receive, too. */
static struct {
	uint32_t next;
	uint32_t seen[NUMBERS / 32];
} *numbers;

static const uint32_t senders[] = { [BY_PEER] = 0xf00dbeef, [BY_KCM] = 0xfeedface };

void frames_open(void)
{
	numbers = mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(numbers != MAP_FAILED);
}

void frame_make(struct caller *c, struct frame *f, enum sender sender, size_t limit)
{
	size_t size = any_size(c, limit - FRAME_LEAST);
	const char *data = content(c, &size);

	f->size = FRAME_LEAST + size;
	f->head[0] = htonl(f->size - FRAME_HEADER);
	f->head[1] = senders[sender];
	f->head[2] = __atomic_fetch_add(&numbers->next, 1, __ATOMIC_RELAXED);
	f->pieces[0] = (struct iovec){ f->head, FRAME_LEAST };
	f->count = 1 + cut(c, f->pieces + 1, data, size);
}

size_t frame_copy(const struct frame *f, char *out)
{
	for (size_t i = 0; i < f->count; i++) {
		memcpy(out, f->pieces[i].iov_base, f->pieces[i].iov_len);
		out += f->pieces[i].iov_len;
	}
	return f->size;
}

size_t frame_length(const char *data, size_t size, enum sender sender)
{
	uint32_t head[FRAME_LEAST / 4];

	if (size < sizeof(head))
		return 0;
	memcpy(head, data, sizeof(head));
	if (head[1] != senders[sender])
		return 0;
	return FRAME_HEADER + (size_t)ntohl(head[0]);
}

static bool is_first(uint32_t number)
{
	uint32_t bit = 1u << number % 32;

	if (number >= NUMBERS)
		return true;
	return !(__atomic_fetch_or(&numbers->seen[number / 32], bit, __ATOMIC_RELAXED) & bit);
}

bool frame_check(const char *data, size_t size, enum sender sender, bool counts)
{
	size_t length = frame_length(data, size, sender);
	uint32_t number;

	if (length < size || length > FRAME_MOST)
		return false;
	memcpy(&number, data + 8, sizeof(number));
	data += FRAME_LEAST;
	size -= FRAME_LEAST;
	if (size >= 8 && !(is_content(data) && content_holds(data, size)))
		return false;
	return !counts || is_first(number);
}

bool piece_check(const char *data, size_t size)
{
	/* A part of the head, a part of a word, and the rest. */
	for (size_t skip = 0; skip < FRAME_LEAST + 8; skip++) {
		if (size < skip + 8)
			return true;
		if (is_content(data + skip))
			return content_holds(data + skip, size - skip);
	}
	return false;
}
