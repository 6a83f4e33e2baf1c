// SPDX-License-Identifier: GPL-2.0
#include "uring/pool.h"

#include <stdlib.h>
#include <string.h>

#include "ktap.h"

#define BUFFERS 8 /* a power of two */
#define BUFFER_BYTES 16384
#define GROUP 1

static void give_back(struct pool *pool, unsigned id)
{
	io_uring_buf_ring_add(pool->buffers, pool->memory + id * BUFFER_BYTES, BUFFER_BYTES, (unsigned short)id,
			      io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(pool->buffers, 1);
}

void pool_open(struct pool *pool, socklen_t name_len)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };

	memset(pool, 0, sizeof(*pool));
	NEED(!io_uring_queue_init(16, &pool->ring, 0));
	NEED(!posix_memalign((void **)&pool->buffers, 4096, BUFFERS * sizeof(struct io_uring_buf)));
	pool->memory = malloc(BUFFERS * BUFFER_BYTES);
	NEED(pool->memory);
	reg.ring_addr = (uintptr_t)pool->buffers;
	NEED(!io_uring_register_buf_ring(&pool->ring, &reg, 0));
	io_uring_buf_ring_init(pool->buffers);
	for (unsigned i = 0; i < BUFFERS; i++)
		give_back(pool, i);
	pool->msg.msg_namelen = name_len;
	pool->msg.msg_controllen = POOL_CONTROL_BYTES;
}

void pool_close(struct pool *pool)
{
	io_uring_queue_exit(&pool->ring);
	free(pool->buffers);
	free(pool->memory);
}

void pool_arm(struct pool *pool, int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&pool->ring);

	NEED(sqe);
	io_uring_prep_recvmsg_multishot(sqe, fd, &pool->msg, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	NEED(io_uring_submit(&pool->ring) == 1);
}

bool pool_read(struct pool *pool, const struct io_uring_cqe *cqe, int level, int type, struct pool_run *run)
{
	char *buffer = pool->memory + (cqe->flags >> IORING_CQE_BUFFER_SHIFT) * BUFFER_BYTES;
	struct io_uring_recvmsg_out *out;
	size_t sum = 0;

	run->count = 0;
	out = cqe->res < 0 ? NULL : io_uring_recvmsg_validate(buffer, cqe->res, &pool->msg);
	if (!out || out->flags & (MSG_TRUNC | MSG_CTRUNC))
		return false;
	run->bytes = io_uring_recvmsg_payload(out, &pool->msg);
	for (struct cmsghdr *c = io_uring_recvmsg_cmsg_firsthdr(out, &pool->msg); c;
	     c = io_uring_recvmsg_cmsg_nexthdr(out, &pool->msg, c)) {
		const uint32_t *lengths = (void *)CMSG_DATA(c);

		if (c->cmsg_level != level || c->cmsg_type != type)
			return false;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths); i++)
			sum += run->lengths[run->count++] = lengths[i];
	}
	return sum == out->payloadlen;
}

bool pool_seen(struct pool *pool, struct io_uring_cqe *cqe)
{
	bool armed = cqe->flags & IORING_CQE_F_MORE;

	if (cqe->flags & IORING_CQE_F_BUFFER)
		give_back(pool, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	io_uring_cqe_seen(&pool->ring, cqe);
	return armed;
}
