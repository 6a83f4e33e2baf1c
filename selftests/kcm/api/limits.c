// SPDX-License-Identifier: GPL-2.0
/* The TCP socket's own settings bound a message: SO_RCVBUF its size, SO_RCVTIMEO the time until it is complete. */
#include "api.h"

#include <arpa/inet.h>

#define LIMIT 16384

static struct rig limited(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	struct rig r = { kcm_socket(HERE, SOCK_DGRAM), l.near, l.far };

	NEED(set_int(r.tcp, SOL_SOCKET, SO_RCVBUF, LIMIT / 2) == 0);
	NEED(get_int(r.tcp, SOL_SOCKET, SO_RCVBUF) == LIMIT);
	NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	return r;
}

static void largest(void)
{
	struct rig r = limited();

	peer_send_frame(r.peer, LIMIT, 1);
	check(kcm_takes(r.kcm, LIMIT, 1), "limit: a message as large as SO_RCVBUF of TCP");
	rig_close(&r);
}

static void too_large(void)
{
	struct rig r = limited();
	char frame[MEDIUM];
	uint32_t header = htonl(LIMIT + 1 - FRAME_HEADER);

	memset(frame, 7, sizeof(frame));
	memcpy(frame, &header, sizeof(header));
	peer_send(r.peer, frame, sizeof(frame));
	check(polled(r.tcp, 0, SOON_MS) & POLLERR, "limit: one byte more is an error of TCP's");
	EXPECT_EQ(polled(r.tcp, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLERR,
		  "limit: poll() of TCP reports all");
	EXPECT_EQ(sock_error(r.tcp), EMSGSIZE, "limit: EMSGSIZE");
	EXPECT_EQ(sock_error(r.tcp), 0, "limit: reported once");
	check(stays_quiet(r.kcm), "limit: KCM gets nothing");
	check(peer_reads(r.tcp, buf, MEDIUM) == MEDIUM && !memcmp(buf, frame, MEDIUM),
	      "limit: the bytes can be read from TCP");
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "limit: it can be unattached");
	EXPECT_OK(kcm_attach(r.kcm, r.tcp, parser_framed()), "limit: and attached again");
	peer_send_frame(r.peer, MEDIUM, 2);
	check(kcm_takes(r.kcm, MEDIUM, 2), "limit: and receives");
	rig_close(&r);
}

/* What was cut off by its own error is reset, for the peer has a part of a message. */
static void too_large_while_sending(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	/* Less than a message, with what the peer's TCP takes while nobody reads. */
	NEED(set_int(r.tcp, SOL_SOCKET, SO_SNDBUF, LIMIT) == 0);
	NEED(kcm_sends(r.kcm, FRAME_MAX, 1) && polled(r.peer, POLLIN, SOON_MS));
	peer_send(r.peer, "\x7f\xff\xff\x00", 4);
	check(WAIT_UNTIL(SOON_MS, polled(r.tcp, 0, 0) & POLLHUP), "limit: it ends a connection in the middle of a message");
	EXPECT_EQ(sock_error(r.tcp), EMSGSIZE, "limit: EMSGSIZE, although it was reset");
	EXPECT_EQ(sock_error(r.tcp), 0, "limit: reported once");
	rig_close(&r);
}

/* A time-out of the message that begins now; only @part bytes of it come in time. */
static void too_slow(size_t part)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];
	int64_t before = now_ms();

	frame_fill(frame, MEDIUM, 1);
	/* It applies when the message begins, so it may be set late. */
	set_timeout_ms(r.tcp, SO_RCVTIMEO, 300);
	peer_send(r.peer, frame, part);
	check(polled(r.tcp, 0, SOON_MS) & POLLERR, "timeout: %zu bytes alone are an error of TCP's", part);
	check(now_ms() - before >= 290, "timeout: not before SO_RCVTIMEO of TCP is over");
	EXPECT_EQ(sock_error(r.tcp), ETIMEDOUT, "timeout: ETIMEDOUT");
	peer_send(r.peer, frame + part, MEDIUM - part);
	check(stays_quiet(r.kcm), "timeout: later data is not received");
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "timeout: it can be unattached");
	NEED(polled(r.tcp, POLLIN, SOON_MS));
	memset(buf, 0, MEDIUM);
	NEED(recv(r.tcp, buf, MEDIUM, MSG_DONTWAIT) >= (ssize_t)(MEDIUM - part));
	differs(!memcmp(buf, frame, MEDIUM), "unattach-loses", "timeout: TCP gives the whole message of which %zu bytes came",
		part);
	rig_close(&r);
}

static void trickling(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];
	size_t sent = 0;

	frame_fill(frame, MEDIUM, 1);
	set_timeout_ms(r.tcp, SO_RCVTIMEO, 300);
	while (sent < MEDIUM && !(polled(r.tcp, 0, 0) & POLLERR)) {
		peer_send(r.peer, frame + sent++, 1);
		nap_us(20000);
	}
	check(sent < MEDIUM, "timeout: single bytes do not extend it");
	EXPECT_EQ(sock_error(r.tcp), ETIMEDOUT, "timeout: ETIMEDOUT");
	rig_close(&r);
}

static void in_time(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 1);
	set_timeout_ms(r.tcp, SO_RCVTIMEO, stretched(1000));
	for (int i = 0; i < 3; i++) {
		peer_send(r.peer, frame, 30);
		nap_us(500000);
		peer_send(r.peer, frame + 30, MEDIUM - 30);
		check(kcm_takes(r.kcm, MEDIUM, 1), "timeout: a message in time, %d", i);
	}
	check(!polled(r.tcp, 0, stretched(1000) + 100), "timeout: none between messages");
	rig_close(&r);
}

void api_limits(void)
{
	largest();
	too_large();
	if (ktap_suite() == SUITE_OURS)
		too_large_while_sending();
	too_slow(2);
	too_slow(30);
	trickling();
	in_time();
}
