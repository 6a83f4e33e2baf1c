// SPDX-License-Identifier: GPL-2.0
/* Sending with SOCK_DGRAM, where each call is a message unless flags say otherwise. */
#include "api.h"

static int fill_with(int kcm, size_t len, bool frames)
{
	int count = 0, refused = 0;

	memset(buf, 0, len);
	while (count < 1000000 && refused < 50) {
		if (frames)
			frame_fill(buf, len, count);
		if (send(kcm, buf, len, MSG_DONTWAIT) == (ssize_t)len) {
			count++;
			refused = 0;
		} else {
			refused++;
			nap_us(10000);
		}
	}
	return count;
}

int fill(int kcm, size_t len)
{
	return fill_with(kcm, len, false);
}

int fill_frames(int kcm, size_t len)
{
	return fill_with(kcm, len, true);
}

static void whole(struct rig *r)
{
	static const size_t sizes[] = { FRAME_HEADER, 5, 64, MEDIUM, 1500, 4096, 16000, 60000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		check(kcm_sends(r->kcm, sizes[i], i) && peer_takes(r->peer, sizes[i], i),
		      "send: a message of %zu bytes", sizes[i]);
	EXPECT_EQ(send(r->kcm, "xyz", 3, 0), 3, "send: data that is no frame");
	check(peer_reads(r->peer, buf, 3) == 3 && !memcmp(buf, "xyz", 3), "send: goes out unchanged");
	EXPECT_EQ(send(r->kcm, NULL, 0, 0), 0, "send: nothing");
	check(stays_quiet(r->peer), "send: sends nothing");
}

static void ignored(struct rig *r)
{
	struct addr to = addr("127.0.0.1", 9);

	EXPECT_EQ(sendto(r->kcm, "12", 2, 0, &to.sa, to.len), 2, "send: an address is ignored");
	EXPECT_EQ(send(r->kcm, "34", 2, MSG_OOB), 2, "send: and so is MSG_OOB");
	check(peer_reads(r->peer, buf, 4) == 4 && !memcmp(buf, "1234", 4), "send: both arrive in the stream");
}

static void more(struct rig *r)
{
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 1);
	EXPECT_EQ(send(r->kcm, frame, 40, MSG_MORE), 40, "send: MSG_MORE");
	check(stays_quiet(r->peer), "send: is held");
	EXPECT_EQ(send(r->kcm, frame + 40, MEDIUM - 40, 0), MEDIUM - 40, "send: the rest");
	check(peer_takes(r->peer, MEDIUM, 1), "send: makes one message of both");
}

/* Without another call. */
static bool goes_by_itself(struct rig *r)
{
	return polled(r->peer, POLLIN, stretched(1000)) & POLLIN;
}

static void batch(struct rig *r)
{
	EXPECT_EQ(send(r->kcm, "ab", 2, MSG_BATCH), 2, "send: MSG_BATCH");
	EXPECT_EQ(send(r->kcm, "cd", 2, MSG_BATCH), 2, "send: MSG_BATCH again");
	EXPECT_EQ(send(r->kcm, "ef", 2, 0), 2, "send: one without");
	check(peer_reads(r->peer, buf, 6) == 6 && !memcmp(buf, "abcdef", 6), "send: lets all go, in order");
	NEED(send(r->kcm, "gh", 2, MSG_BATCH) == 2);
	differs(goes_by_itself(r), "batch-held", "send: MSG_BATCH alone waits for a short time");
	EXPECT_EQ(send(r->kcm, NULL, 0, 0), 0, "send: nothing after a batch");
	check(peer_reads(r->peer, buf, 2) == 2 && !memcmp(buf, "gh", 2), "send: and it has arrived");
}

/* bad: the one of them that no call can read; 4 for none. */
static int send_four(int kcm, int flags, int bad)
{
	struct iovec io[4];
	struct mmsghdr m[4] = { 0 };

	for (int i = 0; i < 4; i++) {
		io[i] = (struct iovec){ &"0123456789AB"[i * 3], 3 };
		m[i].msg_hdr.msg_iov = i == bad ? bad_pointer() : &io[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	return sendmmsg(kcm, m, 4, flags);
}

static void many(struct rig *r)
{
	EXPECT_EQ(send_four(r->kcm, 0, 4), 4, "sendmmsg: four messages");
	check(peer_reads(r->peer, buf, 12) == 12 && !memcmp(buf, "0123456789AB", 12), "sendmmsg: all go");
	EXPECT_EQ(send_four(r->kcm, MSG_BATCH, 4), 4, "sendmmsg: four with MSG_BATCH");
	NEED(send(r->kcm, NULL, 0, 0) == 0);
	check(peer_reads(r->peer, buf, 12) == 12 && !memcmp(buf, "0123456789AB", 12), "sendmmsg: all go at the end of the batch");
	EXPECT_EQ(send_four(r->kcm, 0, 2), 2, "sendmmsg: the third has a bad pointer");
	differs(goes_by_itself(r), "batch-held", "sendmmsg: those before it go");
	NEED(send(r->kcm, NULL, 0, 0) == 0);
	check(peer_reads(r->peer, buf, 6) == 6 && !memcmp(buf, "012345", 6), "sendmmsg: whole");
}

static void bad_memory(struct rig *r, const char *type)
{
	char *edge = before_hole(50);

	EXPECT_ERRNO(send(r->kcm, bad_pointer(), MEDIUM, MSG_EOR), EFAULT, "send: bad memory, %s", type);
	EXPECT_ERRNO(send(r->kcm, kernel_pointer(), MEDIUM, MSG_EOR), EFAULT, "send: memory of the kernel's, %s",
		     type);
	memset(edge, 0, 50);
	EXPECT_ERRNO(send(r->kcm, edge, MEDIUM, MSG_EOR), EFAULT, "send: memory that ends too soon, %s", type);
	check(stays_quiet(r->peer), "send: nothing of it goes out, %s", type);
	check(kcm_sends(r->kcm, MEDIUM, 1) && peer_takes(r->peer, MEDIUM, 1), "send: the next message is whole, %s",
	      type);
}

/* The room in the send buffer is checked once a message. */
static void large(struct rig *r)
{
	size_t len = 900000;

	frame_fill(buf, len, 1);
	EXPECT_EQ(send(r->kcm, buf, len, MSG_DONTWAIT), len, "send: a message beyond SO_SNDBUF with MSG_DONTWAIT");
	check(peer_takes(r->peer, len, 1), "send: arrives whole");
}

static long send_medium(void *arg)
{
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 99);
	return send(*(int *)arg, frame, MEDIUM, 0);
}

/* Reads until @want bytes have come or nothing more comes; returns their number. */
static size_t drain(int peer, size_t want)
{
	size_t total = 0;
	ssize_t n;

	while (total < want && polled(peer, POLLIN, SOON_MS) && (n = recv(peer, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		total += n;
	return total;
}

static void full(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct task t;
	size_t sent;

	/* Buffers of TCP's that do not grow. */
	NEED(set_int(r.peer, SOL_SOCKET, SO_RCVBUF, 65536) == 0 && set_int(r.tcp, SOL_SOCKET, SO_SNDBUF, 65536) == 0);
	sent = (size_t)fill(r.kcm, 1000) * 1000;
	check(sent >= 100000, "send: some fit without a reader");
	EXPECT_ERRNO(send(r.kcm, buf, 1000, MSG_DONTWAIT), EAGAIN, "send: then MSG_DONTWAIT fails");
	differs(!polled(r.kcm, POLLOUT, 0), "poll-writable", "send: poll() reports that it is full");
	set_timeout_ms(r.kcm, SO_SNDTIMEO, 200);
	EXPECT_ERRNO(send(r.kcm, buf, 1000, 0), EAGAIN, "send: SO_SNDTIMEO ends the wait");
	set_timeout_ms(r.kcm, SO_SNDTIMEO, 0);
	task_start(&t, send_medium, &r.kcm);
	check(task_blocked(&t), "send: waits for room");
	task_signal(&t);
	check(task_finished(&t, SOON_MS), "send: a signal ends the wait");
	EXPECT_ERRNO(task_join(&t), EINTR, "send: as EINTR");
	task_start(&t, send_medium, &r.kcm);
	NEED(task_blocked(&t));
	check(drain(r.peer, sent) >= sent, "send: all that was accepted arrives");
	check(task_finished(&t, SOON_MS), "send: room wakes a waiting sender");
	EXPECT_EQ(task_join(&t), MEDIUM, "send: and the message is sent");
	check(polled(r.kcm, POLLOUT, SOON_MS), "send: poll() reports room");
	rig_close(&r);
}

static void unattached(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	struct link l = tcp_link(HERE, AF_INET);
	size_t fitted;
	struct task t;

	check(kcm_sends(kcm, MEDIUM, 1) && kcm_sends(kcm, 64, 2), "send: without any connection messages wait");
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	check(peer_takes(l.far, MEDIUM, 1) && peer_takes(l.far, 64, 2), "send: for the first connection, in order");
	NEED(kcm_unattach(kcm, l.near) == 0);
	fitted = fill(kcm, 14);
	check(fitted > 100 && fitted < 100000, "send: SO_SNDBUF limits waiting messages");
	EXPECT_ERRNO(send(kcm, buf, 14, MSG_DONTWAIT), EAGAIN, "send: then MSG_DONTWAIT fails");
	task_start(&t, send_medium, &kcm);
	check(task_blocked(&t), "send: and others wait");
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	check(task_finished(&t, SOON_MS) && task_join(&t) == MEDIUM, "send: for a connection, too");
	EXPECT_EQ(drain(l.far, fitted * 14 + MEDIUM), fitted * 14 + MEDIUM, "send: all of it arrives");
	close(kcm);
	tcp_link_close(&l);
}

void api_send(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	whole(&r);
	ignored(&r);
	more(&r);
	batch(&r);
	many(&r);
	bad_memory(&r, "SOCK_DGRAM");
	large(&r);
	rig_close(&r);
	full();
	unattached();
}
