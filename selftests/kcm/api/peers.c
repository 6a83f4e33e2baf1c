// SPDX-License-Identifier: GPL-2.0
/* A multiplexor whose connection is closed by the other end, in order or by a reset. */
#include "api.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

/* True if poll() reports POLLERR alone and SO_ERROR is @error, once. */
static bool reports_error(int kcm, int error)
{
	int events = polled(kcm, 0, SOON_MS), first, second;

	if (events != POLLERR)
		note("poll() reports %#x", events);
	first = sock_error(kcm);
	second = sock_error(kcm);
	if (first != error || second)
		note("SO_ERROR is %d, and then %d", first, second);
	return events == POLLERR && first == error && !second;
}

/* The kernel's own KCM never reports it; do not wait long. */
static bool reports_last(int kcm, int error)
{
	if (ktap_suite() == SUITE_KERNEL && !polled(kcm, 0, 100))
		return false;
	return reports_error(kcm, error);
}

static void end_of_stream(const char *how, bool message)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm);

	NEED(kcm_disable(clone, 1) == 0);
	if (message)
		peer_send_frame(r.peer, MEDIUM, 1);
	NEED(shutdown(r.peer, SHUT_WR) == 0);
	check(polled(r.tcp, 0, SOON_MS) & POLLERR, "end: %s, an error of TCP's", how);
	EXPECT_EQ(polled(r.tcp, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLRDHUP | POLLERR,
		  "end: %s, poll() of TCP reports all", how);
	EXPECT_EQ(sock_error(r.tcp), EPIPE, "end: %s, EPIPE", how);
	if (message)
		check(polled(r.kcm, POLLIN, SOON_MS) & POLLIN, "end: %s, the last message is there", how);
	differs(reports_last(r.kcm, EPIPE), "error-hidden", "end: %s, KCM reports the end of the last connection", how);
	differs(reports_last(clone, EPIPE), "error-hidden", "end: %s, and so is its clone", how);
	if (message)
		check(kcm_takes(r.kcm, MEDIUM, 1), "end: %s, the last message is delivered", how);
	close(clone);
	rig_close(&r);
}

static void cut_message(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];

	frame_fill(frame, MEDIUM, 1);
	peer_send(r.peer, frame, 50);
	NEED(shutdown(r.peer, SHUT_WR) == 0);
	EXPECT_EQ(sock_error_soon(r.tcp), EPIPE, "end: in the middle of a message, EPIPE");
	check(stays_quiet(r.kcm), "end: a part of a message is not delivered");
	rig_close(&r);
}

static void reset_of_all(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	tcp_reset(r.peer);
	check(polled(r.tcp, 0, SOON_MS) & POLLERR, "reset: an error of TCP's");
	differs(reports_last(r.kcm, ECONNRESET), "error-hidden", "reset: KCM reports the end of the last connection");
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "reset: it can be unattached");
	r.peer = -1;
	rig_close(&r);
}

static void reset_of_one(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct link other = rig_link(&r, parser_framed());
	int arrived = 0;

	tcp_reset(r.peer);
	NEED(polled(r.tcp, 0, SOON_MS) & POLLERR);
	for (int i = 0; i < 5; i++)
		arrived += kcm_sends(r.kcm, MEDIUM, i) && peer_takes(other.far, MEDIUM, i);
	EXPECT_EQ(arrived, 5, "reset: of one of two, messages go over the other");
	peer_send_frame(other.far, MEDIUM, 7);
	check(kcm_takes(r.kcm, MEDIUM, 7), "reset: of one of two, the other one delivers");
	EXPECT_EQ(polled(r.kcm, POLLIN | POLLOUT, 0), POLLOUT, "reset: of one of two is no error of KCM's");
	EXPECT_EQ(sock_error(r.kcm), 0, "reset: of one of two, SO_ERROR is 0");
	/* A new connection replaces the closed one. */
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	tcp_link_close(&other);
	other = rig_link(&r, parser_framed());
	peer_send_frame(other.far, MEDIUM, 8);
	check(kcm_takes(r.kcm, MEDIUM, 8), "reset: a connection that is attached later delivers");
	tcp_link_close(&other);
	r.peer = -1;
	rig_close(&r);
}

/* All of it in one segment: the urgent byte ends the connection, not the FIN behind it, of which TCP reports first. */
static void urgent_byte_and_end(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	NEED(set_int(r.peer, IPPROTO_TCP, TCP_CORK, 1) == 0);
	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(send(r.peer, "!", 1, MSG_OOB | MSG_MORE) == 1 && shutdown(r.peer, SHUT_WR) == 0);
	check(kcm_takes(r.kcm, MEDIUM, 1), "urgent byte: a message before it is delivered");
	EXPECT_EQ(sock_error_soon(r.tcp), EPROTO, "urgent byte: with a FIN behind it");
	rig_close(&r);
}

void api_peers(void)
{
	end_of_stream("after a message", true);
	end_of_stream("with nothing sent", false);
	cut_message();
	reset_of_all();
	reset_of_one();
	if (ktap_suite() == SUITE_OURS)
		urgent_byte_and_end();
}
