/* SPDX-License-Identifier: GPL-2.0 */
/* One request of io_uring that goes on receiving messages, into buffers that the kernel picks. */
#ifndef SELFTESTS_LIB_URING_POOL_H
#define SELFTESTS_LIB_URING_POOL_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

struct pool {
	struct io_uring ring;
	struct io_uring_buf_ring *buffers;
	char *memory;
	struct msghdr msg; /* how much of a buffer is for the name and control messages */
};

#define POOL_CONTROL_BYTES 4096

/* What one completion brought: @count messages one behind the other, whose lengths control messages had. */
struct pool_run {
	const char *bytes;
	uint32_t lengths[POOL_CONTROL_BYTES / sizeof(uint32_t)];
	size_t count;
};

void pool_open(struct pool *pool, socklen_t name_len);
void pool_close(struct pool *pool);
/** pool_arm - begins to receive from @fd; again after a completion without IORING_CQE_F_MORE */
void pool_arm(struct pool *pool, int fd);
/**
 * pool_read - the messages of a completion
 * @level, @type: of control messages with lengths, no others are expected
 * Return: false: something is wrong. They are valid until pool_seen().
 */
bool pool_read(struct pool *pool, const struct io_uring_cqe *cqe, int level, int type, struct pool_run *run);
/** pool_seen - the completion and its buffer are no longer used; false: pool_arm() is due */
bool pool_seen(struct pool *pool, struct io_uring_cqe *cqe);

#endif
