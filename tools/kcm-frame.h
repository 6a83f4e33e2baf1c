/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_FRAME_H
#define HAWSER_TOOLS_KCM_FRAME_H

/*
 * The protocol of kcm-server and kcm-client. A message is a head and a body; it begins with its length, as in most
 * protocols over TCP. The answer to a request has its number, and its body in reverse order, which is unknown
 * before the last byte arrives.
 */

#include <stddef.h>
#include <stdint.h>

struct frame_head {
	uint32_t length; /* of all that follows; this and all else is in network byte order */
	uint32_t worker; /* of an answer: the worker of the server that gave it */
	uint64_t number; /* of the request, chosen by the client */
};

#define FRAME_MIN sizeof(struct frame_head)
#define FRAME_MAX (1u << 20)
#define FRAME_PORT 16400

/* The size of the whole frame that begins with @head, which is as received and not checked. */
uint64_t frame_size(const struct frame_head *head);

uint64_t frame_number(const struct frame_head *head);
uint32_t frame_worker(const struct frame_head *head);

/* Writes the request @number of @size bytes into @frame. The body is derived from the number. */
void frame_request(void *frame, size_t size, uint64_t number);

/* Turns the request in @frame into its answer. */
void frame_answer(void *frame, size_t size, uint32_t worker);

/* A pseudo-random number derived from @number. */
uint64_t frame_mix(uint64_t number);

#endif
