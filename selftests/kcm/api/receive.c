// SPDX-License-Identifier: GPL-2.0
/* Receiving with SOCK_DGRAM. */
#include "api.h"

static void whole(struct rig *r)
{
	static const size_t sizes[] = { FRAME_HEADER, 5, 64, MEDIUM, 1500, 4096, 16000, 60000 };
	int flags = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		peer_send_frame(r->peer, sizes[i], i);
		check(kcm_takes(r->kcm, sizes[i], i), "recv: a message of %zu bytes, and MSG_EOR", sizes[i]);
	}
	peer_send_frame(r->peer, MEDIUM, 1);
	check(kcm_recv_soon(r->kcm, buf, MEDIUM, &flags) == MEDIUM && flags == MSG_EOR,
	      "recv: a buffer of exactly its size is enough");
}

static void shorter(struct rig *r)
{
	int flags = 0;

	peer_send_frame(r->peer, MEDIUM, 1);
	EXPECT_EQ(kcm_recv_soon(r->kcm, buf, 40, &flags), 40, "recv: a short buffer gets the beginning");
	EXPECT_EQ(flags, MSG_EOR | MSG_TRUNC, "recv: and MSG_TRUNC");
	check(stays_quiet(r->kcm), "recv: the rest of a datagram is gone");
	peer_send_frame(r->peer, MEDIUM, 2);
	flags = MSG_TRUNC;
	EXPECT_EQ(kcm_recv_soon(r->kcm, buf, 40, &flags), 40, "recv: MSG_TRUNC does not return the length");
	EXPECT_EQ(flags, MSG_EOR | MSG_TRUNC, "recv: the flags are the same as without it");
	peer_send_frame(r->peer, MEDIUM, 3);
	check(kcm_takes(r->kcm, MEDIUM, 3), "recv: the next message is whole");
}

static void peeking(struct rig *r)
{
	int flags = MSG_PEEK;

	peer_send_frame(r->peer, MEDIUM, 1);
	check(frame_is(buf, kcm_recv_soon(r->kcm, buf, sizeof(buf), &flags), MEDIUM, 1), "recv: MSG_PEEK");
	differs(flags == MSG_EOR, "peek-flags", "recv: MSG_PEEK reports MSG_EOR like the real receive");
	flags = MSG_PEEK;
	EXPECT_EQ(kcm_recv_soon(r->kcm, buf, 10, &flags), 10, "recv: MSG_PEEK of the beginning");
	differs(flags == (MSG_EOR | MSG_TRUNC), "peek-flags", "recv: and MSG_TRUNC");
	check(kcm_takes(r->kcm, MEDIUM, 1), "recv: a peeked message is still there");
	EXPECT_ERRNO(kcm_recv(r->kcm, buf, 10, &(int){ MSG_PEEK | MSG_DONTWAIT }), EAGAIN, "recv: nothing to peek at");
}

static void nothing(struct rig *r)
{
	int64_t before = now_ms();

	EXPECT_ERRNO(kcm_recv(r->kcm, buf, 10, &(int){ MSG_DONTWAIT }), EAGAIN, "recv: nothing with MSG_DONTWAIT");
	set_timeout_ms(r->kcm, SO_RCVTIMEO, 200);
	EXPECT_ERRNO(kcm_recv(r->kcm, buf, 10, NULL), EAGAIN, "recv: nothing within SO_RCVTIMEO");
	check(now_ms() - before >= 190, "recv: not before it is over");
	set_timeout_ms(r->kcm, SO_RCVTIMEO, 0);
}

static long receive(void *arg)
{
	return kcm_recv(*(int *)arg, buf, sizeof(buf), NULL);
}

static void waiting(struct rig *r)
{
	struct task t;

	task_start(&t, receive, &r->kcm);
	check(task_blocked(&t), "recv: waits for a message");
	peer_send_frame(r->peer, MEDIUM, 1);
	check(task_finished(&t, SOON_MS), "recv: a message wakes it");
	check(frame_is(buf, task_join(&t), MEDIUM, 1), "recv: and is what it gets");
	set_timeout_ms(r->kcm, SO_RCVTIMEO, 1000000);
	task_start(&t, receive, &r->kcm);
	NEED(task_blocked(&t));
	task_signal(&t);
	check(task_finished(&t, SOON_MS), "recv: a signal ends the wait");
	EXPECT_ERRNO(task_join(&t), EINTR, "recv: as EINTR");
	set_timeout_ms(r->kcm, SO_RCVTIMEO, 0);
}

static void bad_memory(struct rig *r)
{
	peer_send_frame(r->peer, MEDIUM, 1);
	NEED(polled(r->kcm, POLLIN, SOON_MS));
	EXPECT_ERRNO(recv(r->kcm, bad_pointer(), MEDIUM, 0), EFAULT, "recv: bad memory");
	peer_send_frame(r->peer, MEDIUM, 2);
	differs(kcm_takes(r->kcm, MEDIUM, 1), "fault-loses", "recv: a message that could not be copied is not lost");
	if (ktap_suite() == SUITE_OURS)
		check(kcm_takes(r->kcm, MEDIUM, 2), "recv: and stays in order");
	/* The hole begins in the middle of the message. */
	peer_send_frame(r->peer, MEDIUM, 3);
	NEED(polled(r->kcm, POLLIN, SOON_MS));
	EXPECT_ERRNO(recv(r->kcm, before_hole(50), MEDIUM, 0), EFAULT, "recv: memory that ends too soon");
	peer_send_frame(r->peer, MEDIUM, 4);
	differs(kcm_takes(r->kcm, MEDIUM, 3), "fault-loses", "recv: it is whole afterwards");
	if (ktap_suite() == SUITE_OURS)
		check(kcm_takes(r->kcm, MEDIUM, 4), "recv: and so is the next one");
}

static void no_address(struct rig *r)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	peer_send_frame(r->peer, MEDIUM, 1);
	NEED(polled(r->kcm, POLLIN, SOON_MS));
	check(recvfrom(r->kcm, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len) == MEDIUM && len == 0,
	      "recv: a message has no address");
}

void api_receive(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	whole(&r);
	shorter(&r);
	peeking(&r);
	nothing(&r);
	waiting(&r);
	bad_memory(&r);
	no_address(&r);
	rig_close(&r);
}
