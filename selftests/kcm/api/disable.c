// SPDX-License-Identifier: GPL-2.0
/* KCM_RECV_DISABLE: a socket that only sends. */
#include "api.h"

static void others_receive(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clones[] = { kcm_clone(r.kcm), kcm_clone(r.kcm) }, count = 0;

	NEED(kcm_disable(r.kcm, 1) == 0);
	for (int i = 0; i < 6; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		NEED(WAIT_UNTIL(SOON_MS, polled(clones[0], POLLIN, 0) || polled(clones[1], POLLIN, 0)));
		for (int c = 0; c < 2; c++)
			if (polled(clones[c], POLLIN, 0))
				count += kcm_takes(clones[c], MEDIUM, i);
	}
	EXPECT_EQ(count, 6, "disable: the others receive");
	check(stays_quiet(r.kcm), "disable: this one does not");
	check(kcm_sends(r.kcm, MEDIUM, 9) && peer_takes(r.peer, MEDIUM, 9), "disable: it sends");
	close(clones[0]);
	close(clones[1]);
	rig_close(&r);
}

static void nobody_receives(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	bool right = true;

	NEED(kcm_disable(r.kcm, 1) == 0);
	for (int i = 0; i < 3; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	check(stays_quiet(r.kcm), "disable: with all disabled messages wait");
	EXPECT_OK(kcm_disable(r.kcm, 0), "disable: enabled again");
	for (int i = 0; i < 3; i++)
		right = kcm_takes(r.kcm, MEDIUM, i) && right;
	check(right, "disable: they are delivered then, in order");
	rig_close(&r);
}

static void queue_moves(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone;

	for (int i = 0; i < 3; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	nap_us(50000);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	clone = kcm_clone(r.kcm);
	NEED(kcm_disable(r.kcm, 1) == 0);
	check(kcm_takes(clone, MEDIUM, 0) && kcm_takes(clone, MEDIUM, 1) && kcm_takes(clone, MEDIUM, 2),
	      "disable: unread messages move to another socket, in order");
	check(stays_quiet(r.kcm), "disable: and are gone here");
	close(clone);
	rig_close(&r);
}

static void queue_waits(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	bool right = true;
	int clone;

	for (int i = 0; i < 3; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	nap_us(50000);
	NEED(polled(r.kcm, POLLIN, SOON_MS) && kcm_disable(r.kcm, 1) == 0);
	check(stays_quiet(r.kcm), "disable: unread messages wait when there is no other socket");
	clone = kcm_clone(r.kcm);
	for (int i = 0; i < 3; i++)
		right = kcm_takes(clone, MEDIUM, i) && right;
	check(right, "disable: and a new socket gets them, in order");
	close(clone);
	rig_close(&r);
}

/* More than the other socket has room for: the rest follows when it reads. */
static void queue_moves_as_there_is_room(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	const int all = 100;
	int clone = kcm_clone(r.kcm), got = 0;

	NEED(set_int(r.kcm, SOL_SOCKET, SO_RCVBUF, 4096) == 0 && set_int(clone, SOL_SOCKET, SO_RCVBUF, 4096) == 0);
	for (int i = 0; i < all; i++) {
		peer_send_frame(r.peer, 1000, i);
		nap_us(500);
	}
	NEED(polled(r.kcm, POLLIN, SOON_MS) && polled(clone, POLLIN, SOON_MS) && kcm_disable(r.kcm, 1) == 0);
	while (got < all && polled(clone, POLLIN, SOON_MS) && kcm_recv(clone, buf, sizeof(buf), NULL) == 1000)
		got++;
	EXPECT_EQ(got, all, "disable: more than the other socket has room for moves as it reads");
	close(clone);
	rig_close(&r);
}

void api_disable(void)
{
	others_receive();
	nobody_receives();
	queue_moves();
	queue_waits();
	queue_moves_as_there_is_room();
}
