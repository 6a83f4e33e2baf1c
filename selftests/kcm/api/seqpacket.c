// SPDX-License-Identifier: GPL-2.0
/* SOCK_SEQPACKET: a message may be sent and received in pieces, and MSG_EOR ends it. */
#include "api.h"

static void in_pieces(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	char frame[MEDIUM];
	int flags = 0;
	ssize_t n;

	frame_fill(frame, MEDIUM, 1);
	peer_send(r.peer, frame, MEDIUM);
	EXPECT_EQ(kcm_recv_soon(r.kcm, buf, 40, &flags), 40, "SOCK_SEQPACKET: a short buffer gets the beginning");
	EXPECT_EQ(flags, 0, "SOCK_SEQPACKET: without MSG_EOR");
	peer_send_frame(r.peer, MEDIUM, 2);
	flags = 0;
	n = kcm_recv_soon(r.kcm, buf + 40, 200, &flags);
	differs(n == MEDIUM - 40 && flags == MSG_EOR && !memcmp(buf, frame, MEDIUM), "partial-loses",
		"SOCK_SEQPACKET: the next call gets the rest, with MSG_EOR");
	if (ktap_suite() == SUITE_OURS)
		check(kcm_takes(r.kcm, MEDIUM, 2), "SOCK_SEQPACKET: and then the next message");
	rig_close(&r);
}

static void byte_by_byte(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	bool right = true;
	int flags = 0;

	peer_send_frame(r.peer, MEDIUM, 1);
	for (int i = 0; right && i < MEDIUM; i++) {
		flags = 0;
		right = kcm_recv_soon(r.kcm, buf + i, 1, &flags) == 1 && flags == (i == MEDIUM - 1 ? MSG_EOR : 0);
		/* The second byte already shows a failure; then do not loop. */
		if (i == 0 && !polled(r.kcm, POLLIN, 100))
			right = false;
	}
	differs(right && frame_is(buf, MEDIUM, MEDIUM, 1), "partial-loses", "SOCK_SEQPACKET: a byte a call");
	rig_close(&r);
}

static void peeking(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	char frame[MEDIUM];
	int flags = MSG_PEEK;
	bool right;

	frame_fill(frame, MEDIUM, 1);
	peer_send(r.peer, frame, MEDIUM);
	check(kcm_recv_soon(r.kcm, buf, 40, &flags) == 40 && flags == 0, "SOCK_SEQPACKET: MSG_PEEK of the beginning");
	flags = MSG_PEEK;
	check(frame_is(buf, kcm_recv_soon(r.kcm, buf, sizeof(buf), &flags), MEDIUM, 1),
	      "SOCK_SEQPACKET: MSG_PEEK of the whole");
	differs(flags == MSG_EOR, "peek-flags", "SOCK_SEQPACKET: MSG_PEEK reports MSG_EOR at the end of the message");
	NEED(kcm_recv_soon(r.kcm, buf, 40, NULL) == 40);
	flags = MSG_PEEK | MSG_DONTWAIT;
	right = kcm_recv(r.kcm, buf + 40, 200, &flags) == MEDIUM - 40 && flags == MSG_EOR;
	differs(right && !memcmp(buf, frame, MEDIUM), "partial-loses", "SOCK_SEQPACKET: MSG_PEEK of the rest");
	rig_close(&r);
}

/* The rest of a partly read message stays with its socket. */
static void begun_and_disabled(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	int clone, flags = MSG_DONTWAIT;
	ssize_t n;

	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(kcm_recv_soon(r.kcm, buf, 40, NULL) == 40);
	clone = kcm_clone(r.kcm);
	NEED(kcm_disable(r.kcm, 1) == 0);
	check(stays_quiet(clone), "SOCK_SEQPACKET: the rest of a message does not move to another socket");
	n = kcm_recv(r.kcm, buf + 40, 200, &flags);
	differs(n == MEDIUM - 40 && flags == MSG_EOR && frame_is(buf, MEDIUM, MEDIUM, 1), "partial-loses",
		"SOCK_SEQPACKET: with KCM_RECV_DISABLE it stays where it was begun");
	close(clone);
	rig_close(&r);
}

static void bad_memory(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());

	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	EXPECT_ERRNO(recv(r.kcm, bad_pointer(), MEDIUM, 0), EFAULT, "SOCK_SEQPACKET: bad memory");
	peer_send_frame(r.peer, MEDIUM, 2);
	differs(kcm_takes(r.kcm, MEDIUM, 1), "fault-loses", "SOCK_SEQPACKET: a message that could not be copied is not lost");
	rig_close(&r);
}

static void held(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 1);
	EXPECT_EQ(send(r.kcm, frame, 40, 0), 40, "SOCK_SEQPACKET: a piece");
	check(stays_quiet(r.peer), "SOCK_SEQPACKET: is held without MSG_EOR");
	EXPECT_EQ(send(r.kcm, NULL, 0, 0), 0, "SOCK_SEQPACKET: nothing without MSG_EOR");
	check(stays_quiet(r.peer), "SOCK_SEQPACKET: lets nothing go");
	EXPECT_EQ(send(r.kcm, frame + 40, MEDIUM - 40, MSG_EOR), MEDIUM - 40, "SOCK_SEQPACKET: the last piece");
	check(peer_takes(r.peer, MEDIUM, 1), "SOCK_SEQPACKET: lets one message go");
	NEED(send(r.kcm, frame, MEDIUM, 0) == MEDIUM);
	NEED(stays_quiet(r.peer));
	EXPECT_EQ(send(r.kcm, NULL, 0, MSG_EOR), 0, "SOCK_SEQPACKET: MSG_EOR alone");
	check(peer_takes(r.peer, MEDIUM, 1), "SOCK_SEQPACKET: ends the message, too");
	NEED(send(r.kcm, frame, 40, MSG_MORE) == 40);
	check(stays_quiet(r.peer), "SOCK_SEQPACKET: MSG_MORE changes nothing");
	EXPECT_EQ(write(r.kcm, frame + 40, MEDIUM - 40), MEDIUM - 40, "SOCK_SEQPACKET: write()");
	check(peer_takes(r.peer, MEDIUM, 1), "SOCK_SEQPACKET: ends a message");
	NEED(send(r.kcm, frame, MEDIUM, MSG_EOR | MSG_BATCH) == MEDIUM);
	check(kcm_sends(r.kcm, MEDIUM, 2) && peer_takes(r.peer, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 2),
	      "SOCK_SEQPACKET: MSG_BATCH waits at most until one without");
	rig_close(&r);
}

void api_seqpacket(void)
{
	in_pieces();
	byte_by_byte();
	peeking();
	begun_and_disabled();
	bad_memory();
	held();
}
