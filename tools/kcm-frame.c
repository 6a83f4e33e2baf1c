// SPDX-License-Identifier: GPL-2.0
#include "kcm-frame.h"

#include <endian.h>
#include <string.h>

uint64_t frame_size(const struct frame_head *head)
{
	return (uint64_t)be32toh(head->length) + sizeof(head->length);
}

uint64_t frame_number(const struct frame_head *head)
{
	return be64toh(head->number);
}

uint32_t frame_worker(const struct frame_head *head)
{
	return be32toh(head->worker);
}

uint64_t frame_mix(uint64_t number)
{
	number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	number = (number ^ number >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return number ^ number >> 32;
}

void frame_request(void *frame, size_t size, uint64_t number)
{
	const struct frame_head head = {
		.length = htobe32((uint32_t)(size - sizeof(head.length))),
		.number = htobe64(number),
	};
	char *body = (char *)frame + sizeof(head);
	size_t left = size - sizeof(head);
	uint64_t word = frame_mix(number);

	memcpy(frame, &head, sizeof(head));
	while (left) {
		size_t part = left < sizeof(word) ? left : sizeof(word);

		memcpy(body, &word, part);
		word = frame_mix(word);
		body += part;
		left -= part;
	}
}

void frame_answer(void *frame, size_t size, uint32_t worker)
{
	struct frame_head head;
	char *front = (char *)frame + sizeof(head), *back = (char *)frame + size;

	memcpy(&head, frame, sizeof(head));
	head.worker = htobe32(worker);
	memcpy(frame, &head, sizeof(head));
	while (front < back) {
		char byte = *front;

		*front++ = *--back;
		*back = byte;
	}
}
