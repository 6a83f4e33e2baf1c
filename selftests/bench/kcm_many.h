// SPDX-License-Identifier: GPL-2.0
// Many messages of one size in a call, by KCM_LENGTHS.
#ifndef KCM_MANY_H
#define KCM_MANY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../../include/uapi/hawser_kcm.h"

#define SOL_KCM_ 281

enum { MANY_BYTES = 65536, MANY_RUN = 64, MANY_RUNS = MANY_BYTES / 64 / MANY_RUN };

struct many {
	char bytes[MANY_BYTES];
	union {
		struct cmsghdr align;
		char room[MANY_RUNS * CMSG_SPACE(MANY_RUN * sizeof(uint32_t))];
	} control;
};

static inline bool many_begin(int fd)
{
	int on = 1;

	return !setsockopt(fd, SOL_KCM_, KCM_RECV_LENGTHS, &on, sizeof(on));
}

/* The number of messages, each of which is looked at; 0: an error, or one that has another size. */
static inline size_t many_receive(int fd, struct many *many, size_t size)
{
	struct iovec piece = { many->bytes, sizeof(many->bytes) };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &many->control,
			      .msg_controllen = sizeof(many->control) };
	ssize_t got = recvmsg(fd, &msg, 0);
	size_t count = 0;

	if (got <= 0 || msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
		return 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		const uint32_t *lengths = (void *)CMSG_DATA(c);

		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths); i++, count++)
			if (lengths[i] != size)
				return 0;
	}
	return count * size == (size_t)got ? count : 0;
}

/* Sends at most so many; the number that were sent, 0: an error. */
static inline size_t many_send(int fd, struct many *many, size_t size, size_t most)
{
	size_t count = sizeof(many->bytes) / size < most ? sizeof(many->bytes) / size : most;
	struct iovec piece = { many->bytes, count * size };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &many->control,
			      .msg_controllen = CMSG_SPACE(count * sizeof(uint32_t)) };
	uint32_t *lengths = (void *)CMSG_DATA(&many->control.align);
	ssize_t sent;

	many->control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(uint32_t)), .cmsg_level = SOL_KCM_,
						.cmsg_type = KCM_LENGTHS };
	for (size_t i = 0; i < count; i++)
		lengths[i] = (uint32_t)size;
	sent = sendmsg(fd, &msg, 0);
	return sent <= 0 || (size_t)sent % size ? 0 : (size_t)sent / size;
}

static inline bool many_receive_all(int fd, size_t size, size_t count)
{
	struct many *many = calloc(1, sizeof(*many));
	size_t got = 1;

	for (; count && got; count -= got)
		got = many_receive(fd, many, size);
	free(many);
	return got;
}

static inline bool many_send_all(int fd, size_t size, size_t count)
{
	struct many *many = calloc(1, sizeof(*many));
	size_t sent = 1;

	for (; count && sent; count -= sent)
		sent = many_send(fd, many, size, count);
	free(many);
	return sent;
}

#endif
