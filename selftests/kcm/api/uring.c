// SPDX-License-Identifier: GPL-2.0
/* Many messages by io_uring: one request that goes on receiving, into buffers that the kernel picks. */
#include "api.h"

#include <errno.h>
#include <hawser_kcm.h>
#include <liburing.h>
#include <stdlib.h>

#define BUFFERS 8 /* a power of two */
#define BUFFER_BYTES 16384
#define GROUP 1
#define SMALL 20
#define FRAMES 2000

struct pool {
	struct io_uring ring;
	struct io_uring_buf_ring *buffers;
	char *memory;
	struct msghdr msg; /* how much of a buffer is for control messages */
};

static void give_back(struct pool *pool, unsigned id)
{
	io_uring_buf_ring_add(pool->buffers, pool->memory + id * BUFFER_BYTES, BUFFER_BYTES, (unsigned short)id,
			      io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(pool->buffers, 1);
}

static void pool_open(struct pool *pool)
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
	pool->msg.msg_controllen = 4096;
}

static void pool_close(struct pool *pool)
{
	io_uring_queue_exit(&pool->ring);
	free(pool->buffers);
	free(pool->memory);
}

static void arm(struct pool *pool, int kcm)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&pool->ring);

	NEED(sqe);
	io_uring_prep_recvmsg_multishot(sqe, kcm, &pool->msg, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	NEED(io_uring_submit(&pool->ring) == 1);
}

/* The number of frames in a buffer, which continue those before; 0: something is wrong. */
static unsigned frames_in(struct pool *pool, const struct io_uring_cqe *cqe, unsigned first)
{
	char *buffer = pool->memory + (cqe->flags >> IORING_CQE_BUFFER_SHIFT) * BUFFER_BYTES;
	struct io_uring_recvmsg_out *out = io_uring_recvmsg_validate(buffer, cqe->res, &pool->msg);
	unsigned count = 0;
	char *payload;

	if (!out || out->flags & (MSG_TRUNC | MSG_CTRUNC))
		return 0;
	payload = io_uring_recvmsg_payload(out, &pool->msg);
	for (struct cmsghdr *c = io_uring_recvmsg_cmsg_firsthdr(out, &pool->msg); c;
	     c = io_uring_recvmsg_cmsg_nexthdr(out, &pool->msg, c)) {
		const uint32_t *lengths = (void *)CMSG_DATA(c);

		if (c->cmsg_level != SOL_KCM || c->cmsg_type != KCM_LENGTHS)
			return 0;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths); i++, count++)
			if (lengths[i] != SMALL || !frame_is(payload + count * SMALL, SMALL, SMALL, first + count))
				return 0;
	}
	return count * SMALL == out->payloadlen ? count : 0;
}

static void receiving(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct __kernel_timespec soon = { .tv_sec = SOON_MS / 1000 };
	unsigned got = 0, completions = 0;
	struct io_uring_cqe *cqe;
	struct pool pool;

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_LENGTHS, 1) == 0);
	pool_open(&pool);
	arm(&pool, r.kcm);
	for (unsigned i = 0; i < FRAMES; i++)
		frame_fill(buf + i * SMALL, SMALL, i);
	peer_send(r.peer, buf, FRAMES * SMALL);
	while (got < FRAMES && !io_uring_wait_cqe_timeout(&pool.ring, &cqe, &soon)) {
		unsigned more = cqe->res > 0 ? frames_in(&pool, cqe, got) : 0;
		bool armed = cqe->flags & IORING_CQE_F_MORE;

		if (cqe->flags & IORING_CQE_F_BUFFER)
			give_back(&pool, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
		if (!more && cqe->res != -ENOBUFS)
			break;
		io_uring_cqe_seen(&pool.ring, cqe);
		got += more;
		completions++;
		if (!armed)
			arm(&pool, r.kcm);
	}
	EXPECT_EQ(got, FRAMES, "io_uring: all messages arrive whole and in order");
	check(completions < FRAMES / 16, "io_uring: many in a completion");
	note("io_uring: %u messages in %u completions", got, completions);
	pool_close(&pool);
	rig_close(&r);
}

enum way { BY_SEND, BY_SENDMSG, BY_LENGTHS, WAYS };

/* A send that waits for room is repeated by io_uring when there is some, and must still have all of its data. */
static void sending(struct io_uring *ring, enum way way)
{
	static const char *const names[WAYS] = { "send", "sendmsg", "sendmsg with KCM_LENGTHS" };
	enum { LARGE = 20000, MANY = 40 };
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	unsigned count = way == BY_LENGTHS ? MANY : 1;
	size_t len = way == BY_LENGTHS ? SMALL : LARGE;
	char *data = malloc(count * len);
	struct iovec piece = { data, count * len };
	struct control control = { .len = 0 };
	struct msghdr msg = { .msg_iov = &piece, .msg_iovlen = 1 };
	struct __kernel_timespec soon = { .tv_sec = SOON_MS / 1000 };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	uint32_t lengths[MANY];
	int filled = fill_frames(r.kcm, LARGE);
	bool right = true;

	NEED(data && sqe);
	for (unsigned i = 0; i < count; i++) {
		frame_fill(data + i * len, len, 1000 + i);
		lengths[i] = (uint32_t)len;
	}
	if (way == BY_LENGTHS) {
		control_add(&control, SOL_KCM, KCM_LENGTHS, lengths, sizeof(lengths));
		msg.msg_control = control.data;
		msg.msg_controllen = control.len;
	}
	if (way == BY_SEND)
		io_uring_prep_send(sqe, r.kcm, data, len, 0);
	else
		io_uring_prep_sendmsg(sqe, r.kcm, &msg, 0);
	NEED(io_uring_submit(ring) == 1);
	check(io_uring_peek_cqe(ring, &cqe) == -EAGAIN, "io_uring: %s waits for room", names[way]);
	for (int i = 0; i < filled; i++)
		right = right && peer_takes(r.peer, LARGE, (uint64_t)i);
	for (unsigned i = 0; i < count; i++)
		right = right && peer_takes(r.peer, len, 1000 + i);
	check(right && stays_quiet(r.peer), "io_uring: %s, all arrives", names[way]);
	NEED(!io_uring_wait_cqe_timeout(ring, &cqe, &soon));
	EXPECT_EQ(cqe->res, count * len, "io_uring: %s returns its bytes", names[way]);
	io_uring_cqe_seen(ring, cqe);
	free(data);
	rig_close(&r);
}

void api_uring(void)
{
	struct io_uring ring;

	if (ktap_suite() == SUITE_KERNEL)
		return;
	receiving();
	NEED(!io_uring_queue_init(16, &ring, 0));
	for (int way = 0; way < WAYS; way++)
		sending(&ring, way);
	io_uring_queue_exit(&ring);
}
