// SPDX-License-Identifier: GPL-2.0
// Many messages of one size in a call, by sendmmsg() and recvmmsg().
#ifndef BATCH_H
#define BATCH_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH_MESSAGES = 64 };

struct batch {
	struct mmsghdr messages[BATCH_MESSAGES];
	struct iovec pieces[BATCH_MESSAGES];
	char bytes[];
};

/* to: null, if the socket knows it */
static inline struct batch *batch_new(size_t size, struct sockaddr *to, socklen_t to_length)
{
	struct batch *batch = calloc(1, sizeof(*batch) + BATCH_MESSAGES * size);

	if (!batch)
		abort();
	for (size_t i = 0; i < BATCH_MESSAGES; i++) {
		batch->pieces[i] = (struct iovec){ batch->bytes + i * size, size };
		batch->messages[i].msg_hdr = (struct msghdr){ .msg_name = to, .msg_namelen = to_length,
							       .msg_iov = &batch->pieces[i], .msg_iovlen = 1 };
	}
	return batch;
}

static inline bool batch_receive_all(int fd, size_t size, size_t count)
{
	struct batch *batch = batch_new(size, NULL, 0);
	int got = 1;

	for (; count && got > 0; count -= got) {
		got = recvmmsg(fd, batch->messages, count < BATCH_MESSAGES ? count : BATCH_MESSAGES, MSG_WAITFORONE, NULL);
		for (int i = 0; i < got; i++)
			if (batch->messages[i].msg_len != size)
				return false;
	}
	free(batch);
	return got > 0;
}

static inline bool batch_send_all(int fd, struct sockaddr *to, socklen_t to_length, size_t size, size_t count)
{
	struct batch *batch = batch_new(size, to, to_length);
	int sent = 1;

	for (; count && sent > 0; count -= sent)
		sent = sendmmsg(fd, batch->messages, count < BATCH_MESSAGES ? count : BATCH_MESSAGES, 0);
	free(batch);
	return sent > 0;
}

#endif
