// SPDX-License-Identifier: GPL-2.0
/* Closing KCM sockets: received messages move to other sockets, messages being sent go out whole or not at all. */
#include "api.h"

#define QUEUED 6

/* Messages lie in the queues of two sockets; one is closed, and the other one gets all. */
static void queue_moves(bool first)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm), gone = first ? r.kcm : clone, stays = first ? clone : r.kcm;
	bool seen[QUEUED] = { false }, in_order = true;
	char frame[MEDIUM];
	int count = 0;

	for (int i = 0; i < QUEUED; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		nap_us(10000);
	}
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	close(gone);
	while (count < QUEUED && kcm_recv_soon(stays, buf, sizeof(buf), NULL) == MEDIUM) {
		for (int i = 0; i < QUEUED; i++) {
			frame_fill(frame, MEDIUM, i);
			if (!memcmp(buf, frame, MEDIUM)) {
				seen[i] = true;
				in_order = in_order && i == count;
			}
		}
		count++;
	}
	for (int i = 0; i < QUEUED; i++)
		count -= !seen[i];
	EXPECT_EQ(count, QUEUED, "close: %s, the other socket gets every message", first ? "the first" : "the clone");
	may_differ(in_order, "requeue-order", "close: %s, in the order of the connection", first ? "the first" : "the clone");
	close(stays);
	close(r.tcp);
	close(r.peer);
}

static void last(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm);

	close(r.kcm);
	peer_send_frame(r.peer, MEDIUM, 1);
	check(kcm_takes(clone, MEDIUM, 1), "close: of the first socket, the clone receives");
	close(clone);
	check(send(r.tcp, "plain", 5, 0) == 5 && peer_reads(r.peer, buf, 5) == 5,
	      "close: of the last socket, TCP writes as before KCM");
	peer_send(r.peer, "back", 4);
	check(peer_reads(r.tcp, buf, 4) == 4 && !memcmp(buf, "back", 4), "close: and reads");
	r.kcm = kcm_socket(HERE, SOCK_DGRAM);
	EXPECT_OK(kcm_attach(r.kcm, r.tcp, parser_framed()), "close: it can be attached to another multiplexor");
	peer_send_frame(r.peer, MEDIUM, 2);
	check(kcm_takes(r.kcm, MEDIUM, 2), "close: and delivers there");
	rig_close(&r);
}

/* Unreceived bytes belong to TCP when the last socket is closed. */
static void last_with_part(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 1);
	peer_send(r.peer, frame, 30);
	NEED(stays_quiet(r.kcm));
	close(r.kcm);
	peer_send(r.peer, frame + 30, MEDIUM - 30);
	memset(buf, 0, MEDIUM);
	NEED(polled(r.tcp, POLLIN, SOON_MS));
	NEED(WAIT_UNTIL(SOON_MS, recv(r.tcp, buf, MEDIUM, MSG_PEEK | MSG_DONTWAIT) >= MEDIUM - 30));
	differs(peer_reads(r.tcp, buf, MEDIUM - 30) == MEDIUM - 30 && !memcmp(buf, frame, MEDIUM - 30), "unattach-loses",
		"close: of the last socket gives a part of a message back to TCP");
	r.kcm = -1;
	rig_close(&r);
}

/* The peer does not read while close() cuts off a message: it must not take later data for the rest of it. */
static void half_sent(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	size_t len = 60004, count;
	struct outcome o;

	count = fill_frames(r.kcm, len);
	NEED(count > 2);
	close(r.kcm);
	o = read_all(r.peer, len);
	note("%zu messages accepted, %zu came whole, and %zu bytes, %s", count, o.whole, o.torso,
	     o.broken ? "a reset" : "no reset");
	check(o.whole > 0 && o.whole <= count, "close: messages before the one that is cut arrive whole");
	may_differ(!o.torso || o.broken, "close-cuts", "close: a message that is cut off ends the connection");
	close(r.tcp);
	close(r.peer);
}

/* With a peer that reads, all that was accepted goes out, also when the last socket is closed at once. */
static void drains(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct outcome o;

	for (int i = 0; i < 20; i++)
		NEED(kcm_sends(r.kcm, 2000, i));
	close(r.kcm);
	o = read_all(r.peer, 2000);
	check(o.whole == 20 && !o.torso, "close: data in TCP's buffer goes out whole");
	close(r.tcp);
	close(r.peer);
}

/* A message without its end is never sent. */
static void begun(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	int clone = kcm_clone(r.kcm);

	NEED(send(r.kcm, "begun", 5, 0) == 5);
	close(r.kcm);
	check(stays_quiet(r.peer), "close: a message without its end is not sent");
	check(kcm_sends(clone, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1), "close: and does not affect others");
	r.kcm = clone;
	rig_close(&r);
}

void api_close(void)
{
	queue_moves(true);
	queue_moves(false);
	last();
	last_with_part();
	half_sent();
	drains();
	begun();
}
