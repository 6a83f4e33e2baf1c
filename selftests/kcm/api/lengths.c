// SPDX-License-Identifier: GPL-2.0
/* Many messages in a call: KCM_RECV_LENGTHS and KCM_LENGTHS. */
#include "api.h"

#include <errno.h>
#include <hawser_kcm.h>

#define SMALL 20

/* Frames whose seeds count from @first; returns their bytes. */
static size_t frames(void *to, unsigned count, size_t len, uint64_t first)
{
	for (unsigned i = 0; i < count; i++)
		frame_fill((char *)to + i * len, len, first + i);
	return count * len;
}

/* The number of whole frames of @len bytes that a received control message and the data hold; 0: something is wrong. */
static unsigned whole_frames(struct control *control, ssize_t got, size_t len, uint64_t first)
{
	struct msghdr msg = { .msg_control = control->data, .msg_controllen = control->len };
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		const uint32_t *lengths = (void *)CMSG_DATA(c);

		if (c->cmsg_level != SOL_KCM || c->cmsg_type != KCM_LENGTHS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths); i++, count++)
			if (lengths[i] != len || !frame_is(buf + count * len, (ssize_t)len, len, first + count))
				return 0;
	}
	return got == (ssize_t)(count * len) ? count : 0;
}

/* As many as are there, in one call. */
static unsigned takes(int kcm, size_t room, size_t len, uint64_t first, int *flags)
{
	struct control control;

	NEED(polled(kcm, POLLIN, SOON_MS));
	return whole_frames(&control, recv_control(kcm, buf, room, &control, MSG_DONTWAIT, flags), len, first);
}

/* All of @count frames, in as many calls as it takes; returns the most of one call. */
static unsigned takes_all(int kcm, unsigned count, size_t len, uint64_t first)
{
	unsigned most = 0;

	for (unsigned done = 0, got; done < count; done += got) {
		got = takes(kcm, sizeof(buf), len, first + done, NULL);
		if (!got)
			return 0;
		most = got > most ? got : most;
	}
	return most;
}

static void receiving(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	int flags;

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_LENGTHS, 1) == 0);
	peer_send(r.peer, buf, frames(buf, 200, SMALL, 0));
	check(takes_all(r.kcm, 200, SMALL, 0) > 16, "KCM_RECV_LENGTHS: many messages in a call, %s", type->name);
	NEED(kcm_disable(r.kcm, 1) == 0);
	peer_send(r.peer, buf, frames(buf, 10, SMALL, 0));
	NEED(stays_quiet(r.kcm) && kcm_disable(r.kcm, 0) == 0);
	EXPECT_EQ(takes(r.kcm, 3 * SMALL + SMALL - 1, SMALL, 0, &flags), 3, "KCM_RECV_LENGTHS: whole ones only, %s", type->name);
	EXPECT_EQ(flags, MSG_EOR, "KCM_RECV_LENGTHS: MSG_EOR alone, %s", type->name);
	EXPECT_EQ(takes(r.kcm, sizeof(buf), SMALL, 3, NULL), 7, "KCM_RECV_LENGTHS: and the rest, %s", type->name);
	peer_send(r.peer, buf, frames(buf, 2, SMALL, 5));
	check(kcm_recv_soon(r.kcm, buf, sizeof(buf), (flags = 0, &flags)) == SMALL && flags == (MSG_EOR | MSG_CTRUNC) &&
		      frame_is(buf, SMALL, SMALL, 5),
	      "KCM_RECV_LENGTHS: one, and MSG_CTRUNC, without room for lengths, %s", type->name);
	EXPECT_EQ(takes(r.kcm, sizeof(buf), SMALL, 6, NULL), 1, "KCM_RECV_LENGTHS: a length for one, too, %s", type->name);
	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_LENGTHS, 0) == 0);
	peer_send(r.peer, buf, frames(buf, 2, SMALL, 8));
	check(kcm_takes(r.kcm, SMALL, 8) && kcm_takes(r.kcm, SMALL, 9), "KCM_RECV_LENGTHS: off again, %s", type->name);
	rig_close(&r);
}

static void bad_memory(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct control control;
	struct iovec pieces[2] = { { buf, 5 * SMALL + 3 }, { bad_pointer(), sizeof(buf) } };
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = 2, .msg_control = control.data,
			      .msg_controllen = sizeof(control.data) };

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_LENGTHS, 1) == 0);
	peer_send(r.peer, buf, frames(buf, 10, SMALL, 0));
	NEED(polled(r.kcm, POLLIN, SOON_MS) && !stays_quiet(r.kcm));
	EXPECT_ERRNO(recvmsg(r.kcm, &msg, MSG_DONTWAIT), EFAULT, "KCM_RECV_LENGTHS: memory that faults");
	msg = (struct msghdr){ .msg_iov = &(struct iovec){ buf, sizeof(buf) }, .msg_iovlen = 1, .msg_control = bad_pointer(),
			       .msg_controllen = sizeof(control.data) };
	EXPECT_ERRNO(recvmsg(r.kcm, &msg, MSG_DONTWAIT), EFAULT, "KCM_RECV_LENGTHS: memory for lengths that faults");
	check(takes_all(r.kcm, 10, SMALL, 0), "KCM_RECV_LENGTHS: nothing is lost by that");
	rig_close(&r);
}

/* One call with messages of these lengths out of @bytes. */
static ssize_t send_each(int kcm, const void *bytes, size_t size, const uint32_t *lengths, unsigned count, int flags)
{
	struct control control = { .len = 0 };

	control_add(&control, SOL_KCM, KCM_LENGTHS, lengths, count * sizeof(*lengths));
	return send_control(kcm, bytes, size, NULL, &control, flags);
}

static void sending(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	uint32_t lengths[100], two[2] = { SMALL, SMALL }, zero[3] = { SMALL, 0, SMALL };
	struct control twice = { .len = 0 };
	bool right = true;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		lengths[i] = SMALL;
	frames(buf, ARRAY_SIZE(lengths), SMALL, 0);
	EXPECT_EQ(send_each(r.kcm, buf, sizeof(lengths) / 4 * SMALL, lengths, ARRAY_SIZE(lengths), 0),
		  ARRAY_SIZE(lengths) * SMALL, "KCM_LENGTHS: many messages in a call, %s", type->name);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		right = right && peer_takes(r.peer, SMALL, i);
	check(right, "KCM_LENGTHS: all arrive in order, %s", type->name);
	frames(buf, 3, SMALL, 0);
	EXPECT_ERRNO(send_each(r.kcm, buf, 2 * SMALL + 1, two, 2, 0), EINVAL, "KCM_LENGTHS: too short, %s", type->name);
	EXPECT_ERRNO(send_each(r.kcm, buf, 2 * SMALL - 1, two, 2, 0), EINVAL, "KCM_LENGTHS: too long, %s", type->name);
	EXPECT_ERRNO(send_each(r.kcm, buf, 2 * SMALL, zero, 3, 0), EINVAL, "KCM_LENGTHS: a message of 0 bytes, %s", type->name);
	EXPECT_ERRNO(send_each(r.kcm, buf, 2 * SMALL, two, 0, 0), EINVAL, "KCM_LENGTHS: no length, %s", type->name);
	control_add(&twice, SOL_KCM, KCM_LENGTHS, two, sizeof(two));
	control_add(&twice, SOL_KCM, KCM_LENGTHS, two, sizeof(two));
	EXPECT_ERRNO(send_control(r.kcm, buf, 2 * SMALL, NULL, &twice, 0), EINVAL, "KCM_LENGTHS: twice, %s", type->name);
	NEED(send(r.kcm, buf, 5, MSG_MORE) == 5);
	EXPECT_ERRNO(send_each(r.kcm, buf, 2 * SMALL, two, 2, 0), EINVAL, "KCM_LENGTHS: behind a part of a message, %s",
		     type->name);
	NEED(send(r.kcm, buf + 5, SMALL - 5, MSG_EOR) == SMALL - 5);
	check(peer_takes(r.peer, SMALL, 0) && stays_quiet(r.peer), "KCM_LENGTHS: what is refused is not sent, %s", type->name);
	rig_close(&r);
}

/* A full buffer takes whole messages. */
static void filling(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	uint32_t lengths[50];
	size_t sent = 0;
	ssize_t last;
	bool right = true;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		lengths[i] = 1000;
	do {
		frames(buf, ARRAY_SIZE(lengths), 1000, sent / 1000);
		last = send_each(r.kcm, buf, ARRAY_SIZE(lengths) * 1000, lengths, ARRAY_SIZE(lengths), MSG_DONTWAIT);
		if (last > 0)
			sent += (size_t)last;
	} while (last == ARRAY_SIZE(lengths) * 1000);
	check(last == -1 ? errno == EAGAIN : last > 0 && last % 1000 == 0, "KCM_LENGTHS: a full buffer takes whole messages");
	for (size_t i = 0; i < sent / 1000; i++)
		right = right && peer_takes(r.peer, 1000, i);
	check(right && stays_quiet(r.peer), "KCM_LENGTHS: which arrive, and no others");
	rig_close(&r);
}

void api_lengths(void)
{
	if (ktap_suite() == SUITE_KERNEL)
		return;
	for (size_t i = 0; i < TYPES; i++) {
		receiving(&types[i]);
		sending(&types[i]);
	}
	bad_memory();
	filling();
}
