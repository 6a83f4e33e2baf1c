// SPDX-License-Identifier: GPL-2.0
#include "api.h"

#include <fcntl.h>

static void refused(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct link never = tcp_link(HERE, AF_INET);
	int other = kcm_socket(HERE, SOCK_DGRAM), pipes[2];

	NEED(pipe(pipes) == 0);
	EXPECT_ERRNO(kcm_unattach(r.kcm, -1), ENOENT, "unattach: descriptor -1");
	EXPECT_ERRNO(kcm_unattach(r.kcm, 999), ENOENT, "unattach: descriptor 999");
	EXPECT_ERRNO(kcm_unattach(r.kcm, pipes[0]), ENOENT, "unattach: a pipe");
	EXPECT_ERRNO(kcm_unattach(r.kcm, r.kcm), ENOENT, "unattach: a KCM socket");
	EXPECT_ERRNO(kcm_unattach(r.kcm, never.near), ENOENT, "unattach: never attached");
	EXPECT_ERRNO(kcm_unattach(other, r.tcp), ENOENT, "unattach: attached elsewhere");
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "unattach: what is attached");
	EXPECT_ERRNO(kcm_unattach(r.kcm, r.tcp), ENOENT, "unattach: a second time");
	close(pipes[0]);
	close(pipes[1]);
	close(other);
	tcp_link_close(&never);
	rig_close(&r);
}

static void again(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm);

	EXPECT_OK(kcm_unattach(clone, r.tcp), "unattach: by a clone");
	close(clone);
	peer_send(r.peer, "plain", 5);
	check(peer_reads(r.tcp, buf, 5) == 5 && !memcmp(buf, "plain", 5), "unattach: TCP reads again");
	check(send(r.tcp, "back", 4, 0) == 4 && peer_reads(r.peer, buf, 4) == 4, "unattach: and writes");
	EXPECT_OK(kcm_attach(r.kcm, r.tcp, parser_framed()), "unattach: attached again");
	peer_send_frame(r.peer, MEDIUM, 1);
	check(kcm_takes(r.kcm, MEDIUM, 1), "unattach: and receiving");
	check(kcm_sends(r.kcm, MEDIUM, 2) && peer_takes(r.peer, MEDIUM, 2), "unattach: and sending");
	rig_close(&r);
}

static void delivered_stays(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	check(kcm_takes(r.kcm, MEDIUM, 1), "unattach: messages in a KCM socket's queue stay there");
	rig_close(&r);
}

/* A message of which only @part bytes came: it was not delivered, so it belongs to the TCP socket. */
static void partial(size_t part)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 7);
	peer_send(r.peer, frame, part);
	NEED(stays_quiet(r.kcm));
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	peer_send(r.peer, frame + part, MEDIUM - part);
	peer_send(r.peer, "end", 3);
	memset(buf, 0, MEDIUM);
	NEED(WAIT_UNTIL(SOON_MS, recv(r.tcp, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT) >= (ssize_t)(MEDIUM - part + 3)));
	differs(peer_reads(r.tcp, buf, MEDIUM) == MEDIUM && !memcmp(buf, frame, MEDIUM), "unattach-loses",
		"unattach: gives %zu bytes of a message back to TCP", part);
	rig_close(&r);
}

/* Whole messages without room in any KCM socket, and the start of one more. */
static void undelivered(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	bool whole = true;
	char frame[MEDIUM];

	NEED(kcm_disable(r.kcm, 1) == 0);
	for (int i = 0; i < 3; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	frame_fill(frame, MEDIUM, 3);
	peer_send(r.peer, frame, 50);
	NEED(stays_quiet(r.kcm));
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	peer_send(r.peer, frame + 50, MEDIUM - 50);
	for (int i = 0; i <= 3; i++)
		whole = whole && peer_takes(r.tcp, MEDIUM, i);
	differs(whole, "unattach-loses", "unattach: gives unreceived messages back to TCP, in order");
	rig_close(&r);
}

/* Unattaching waits until a partly sent message is complete, or a second message would follow its first part. */
static void sending(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 9);
	NEED(send(r.kcm, frame, 40, 0) == 40);
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "unattach: with an unsent partial message");
	check(stays_quiet(r.peer), "unattach: nothing of it goes out");
	NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	EXPECT_EQ(send(r.kcm, frame + 40, MEDIUM - 40, MSG_EOR), MEDIUM - 40, "unattach: its rest is taken");
	check(peer_takes(r.peer, MEDIUM, 9), "unattach: it is sent on the next attached connection");
	rig_close(&r);
}

static long unattach(void *arg)
{
	struct rig *r = arg;

	return kcm_unattach(r->kcm, r->tcp);
}

/* TCP may have become full with the end of a message. When the connection is attached again, it is offered the next one. */
static bool waits_for_half_a_message(struct task *t, struct rig *r)
{
	for (int tries = 0; tries < 10; tries++) {
		task_start(t, unattach, r);
		if (task_blocked(t))
			return true;
		NEED(task_join(t) == 0 && kcm_attach(r->kcm, r->tcp, parser_framed()) == 0);
		nap_us(10000);
	}
	task_start(t, unattach, r);
	return false;
}

/* Unattaching that must wait: each wait ends like a send(), and changes nothing. */
static void given_up(struct rig *r)
{
	int flags = fcntl(r->kcm, F_GETFL);
	struct task t;

	check(waits_for_half_a_message(&t, r), "unattach: waits until a message that is half sent is out");
	task_signal(&t);
	NEED(task_finished(&t, SOON_MS));
	EXPECT_ERRNO(task_join(&t), EINTR, "unattach: a signal ends the wait");
	EXPECT_ERRNO(kcm_attach(r->kcm, r->tcp, parser_framed()), EALREADY, "unattach: it is attached as before");
	set_timeout_ms(r->kcm, SO_SNDTIMEO, 200);
	task_start(&t, unattach, r);
	NEED(task_finished(&t, SOON_MS));
	EXPECT_ERRNO(task_join(&t), EAGAIN, "unattach: SO_SNDTIMEO ends the wait");
	check(t.took_ms >= 200, "unattach: and not before its time");
	EXPECT_ERRNO(kcm_attach(r->kcm, r->tcp, parser_framed()), EALREADY, "unattach: then, too, it is attached as before");
	set_timeout_ms(r->kcm, SO_SNDTIMEO, 0);
	NEED(fcntl(r->kcm, F_SETFL, flags | O_NONBLOCK) == 0);
	EXPECT_ERRNO(unattach(r), EAGAIN, "unattach: with O_NONBLOCK it does not wait");
	NEED(fcntl(r->kcm, F_SETFL, flags) == 0);
	peer_send_frame(r->peer, MEDIUM, 1);
	check(kcm_takes(r->kcm, MEDIUM, 1), "unattach: after all that it still receives");
}

/*
 * The peer does not read, so TCP is full and a message is half sent when its connection is unattached. In every
 * case the peer must not take later data for the rest of the message.
 */
static void half_sent(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	size_t len = 60004, count;
	struct outcome o;
	struct task t;

	count = fill_frames(r.kcm, len);
	if (ktap_suite() == SUITE_OURS)
		given_up(&r);
	task_start(&t, unattach, &r);
	o = read_all(r.peer, len);
	NEED(task_finished(&t, SOON_MS));
	EXPECT_OK(task_join(&t), "unattach: with a message half sent");
	note("%zu messages accepted, %zu came whole, and %zu bytes, %s", count, o.whole, o.torso,
	     o.broken ? "a reset" : "no reset");
	may_differ(!o.torso || o.broken, "close-cuts", "unattach: a message that is cut off ends the connection");
	rig_close(&r);
}

void api_unattach(void)
{
	refused();
	again();
	delivered_stays();
	partial(2);
	partial(30);
	undelivered();
	sending();
	half_sent();
}
