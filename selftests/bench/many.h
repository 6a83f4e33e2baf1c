// SPDX-License-Identifier: GPL-2.0
// Many messages of one size in a call, by KCM_LENGTHS or RDS_CMSG_LENGTHS.
#ifndef MANY_H
#define MANY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../../include/uapi/hawser_kcm.h"
#include "../../include/uapi/hawser_rds.h"

// level is that of the option, and of the control message lengths.
struct many_kind {
	int level, option, lengths;
};

#define MANY_OF_KCM ((struct many_kind){ 281, KCM_RECV_LENGTHS, KCM_LENGTHS })
#define MANY_OF_RDS ((struct many_kind){ 276, RDS_RECV_LENGTHS, RDS_CMSG_LENGTHS })

enum { MANY_BYTES = 65536, MANY_RUN = 64, MANY_RUNS = MANY_BYTES / 64 / MANY_RUN };

struct many {
	struct many_kind kind;
	struct sockaddr *to; // null: the socket knows it
	socklen_t to_length;
	char bytes[MANY_BYTES];
	union {
		struct cmsghdr align;
		char room[MANY_RUNS * CMSG_SPACE(MANY_RUN * sizeof(uint32_t))];
	} control;
};

static inline bool many_begin(struct many_kind kind, int fd)
{
	int on = 1;

	return !setsockopt(fd, kind.level, kind.option, &on, sizeof(on));
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
	struct msghdr msg = { .msg_name = many->to, .msg_namelen = many->to_length, .msg_iov = &piece, .msg_iovlen = 1,
			      .msg_control = &many->control, .msg_controllen = CMSG_SPACE(count * sizeof(uint32_t)) };
	uint32_t *lengths = (void *)CMSG_DATA(&many->control.align);
	ssize_t sent;

	many->control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(uint32_t)), .cmsg_level = many->kind.level,
						.cmsg_type = many->kind.lengths };
	for (size_t i = 0; i < count; i++)
		lengths[i] = (uint32_t)size;
	sent = sendmsg(fd, &msg, 0);
	return sent <= 0 || (size_t)sent % size ? 0 : (size_t)sent / size;
}

static inline struct many *many_new(struct many_kind kind)
{
	struct many *many = calloc(1, sizeof(*many));

	if (!many)
		abort();
	many->kind = kind;
	return many;
}

static inline bool many_receive_all(struct many_kind kind, int fd, size_t size, size_t count)
{
	struct many *many = many_new(kind);
	size_t got = 1;

	for (; count && got; count -= got)
		got = many_receive(fd, many, size);
	free(many);
	return got;
}

// to: as in struct many
static inline bool many_send_all(struct many_kind kind, int fd, struct sockaddr *to, socklen_t to_length, size_t size,
				 size_t count)
{
	struct many *many = many_new(kind);
	size_t sent = 1;

	many->to = to;
	many->to_length = to_length;

	for (; count && sent; count -= sent)
		sent = many_send(fd, many, size, count);
	free(many);
	return sent;
}

#endif
