// SPDX-License-Identifier: GPL-2.0
/* Many messages by io_uring. */
#include "api.h"

#include <errno.h>
#include <hawser_kcm.h>
#include <stdlib.h>

#include "uring/pool.h"

#define SMALL 20
#define FRAMES 2000

/* The number of frames of a completion, which continue those before; 0: something is wrong. */
static unsigned frames_in(struct pool *pool, const struct io_uring_cqe *cqe, unsigned first)
{
	struct pool_run run;

	if (!pool_read(pool, cqe, SOL_KCM, KCM_LENGTHS, &run))
		return 0;
	for (size_t i = 0; i < run.count; i++)
		if (run.lengths[i] != SMALL || !frame_is(run.bytes + i * SMALL, SMALL, SMALL, first + i))
			return 0;
	return (unsigned)run.count;
}

static void receiving(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct __kernel_timespec soon = { .tv_sec = SOON_MS / 1000 };
	unsigned got = 0, completions = 0;
	struct io_uring_cqe *cqe;
	struct pool pool;

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_LENGTHS, 1) == 0);
	pool_open(&pool, 0);
	pool_arm(&pool, r.kcm);
	for (unsigned i = 0; i < FRAMES; i++)
		frame_fill(buf + i * SMALL, SMALL, i);
	peer_send(r.peer, buf, FRAMES * SMALL);
	while (got < FRAMES && !io_uring_wait_cqe_timeout(&pool.ring, &cqe, &soon)) {
		unsigned more = frames_in(&pool, cqe, got);

		if (!more && cqe->res != -ENOBUFS)
			break;
		got += more;
		completions++;
		if (!pool_seen(&pool, cqe))
			pool_arm(&pool, r.kcm);
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
