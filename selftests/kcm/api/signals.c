// SPDX-License-Identifier: GPL-2.0
/*
 * SIGIO, if enabled: for a message, for room in the send buffer, and for nothing else. And a signal that interrupts recvmmsg().
 */
#include "api.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#define READABLE (SIGRTMIN + 1) /* instead of SIGIO, so that it carries the event and the socket */

/* The band of the next signal for @kcm, or 0 when none comes within @ms. */
static long next_band(int kcm, int ms)
{
	struct timespec wait = { ms / 1000, ms % 1000 * 1000000L };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, READABLE);
	if (sigtimedwait(&set, &info, &wait) != READABLE)
		return 0;
	if (info.si_fd != kcm)
		note("a signal for descriptor %d instead of %d", info.si_fd, kcm);
	return info.si_band;
}

static void forget_all(int kcm)
{
	while (next_band(kcm, 0))
		;
}

/* The owner is this thread, which keeps signals pending until it takes them. */
static void ask_for_signals(int kcm)
{
	struct f_owner_ex self = { F_OWNER_TID, gettid() };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, READABLE);
	sigaddset(&set, SIGIO);
	NEED(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	NEED(fcntl(kcm, F_SETOWN_EX, &self) == 0 && fcntl(kcm, F_SETSIG, READABLE) == 0);
	EXPECT_OK(ioctl(kcm, FIOASYNC, &(int){ 1 }), "signals: FIOASYNC");
}

static void of_messages(struct rig *r)
{
	ask_for_signals(r->kcm);
	peer_send_frame(r->peer, MEDIUM, 1);
	check(next_band(r->kcm, SOON_MS) & POLLIN, "signals: a message comes");
	NEED(kcm_takes(r->kcm, MEDIUM, 1));
	forget_all(r->kcm);
	peer_send_frame(r->peer, MEDIUM, 2);
	check(next_band(r->kcm, SOON_MS) & POLLIN, "signals: another one");
	NEED(kcm_takes(r->kcm, MEDIUM, 2));
	forget_all(r->kcm);
	NEED(ioctl(r->kcm, FIOASYNC, &(int){ 0 }) == 0);
	peer_send_frame(r->peer, MEDIUM, 3);
	NEED(polled(r->kcm, POLLIN, SOON_MS));
	check(!next_band(r->kcm, 50), "signals: none when it is off again");
	NEED(kcm_takes(r->kcm, MEDIUM, 3));
}

static void of_room(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	long band = 0;

	NEED(set_int(r.peer, SOL_SOCKET, SO_RCVBUF, 65536) == 0 && set_int(r.tcp, SOL_SOCKET, SO_SNDBUF, 65536) == 0);
	ask_for_signals(r.kcm);
	NEED(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1));
	if (ktap_suite() == SUITE_OURS)
		check(!next_band(r.kcm, 50), "signals: none for room that was always there");
	fill(r.kcm, 1000);
	forget_all(r.kcm);
	/* Read everything, because the kernel's own KCM signals an empty queue only. */
	while (!band && polled(r.peer, POLLIN, SOON_MS)) {
		NEED(recv(r.peer, buf, sizeof(buf), MSG_DONTWAIT) > 0);
		band = next_band(r.kcm, 10);
	}
	check((band ? band : next_band(r.kcm, SOON_MS)) & POLLOUT, "signals: there is room again");
	rig_close(&r);
}

/* The end of the last connection is signalled, too, and a closed socket sends no signal. */
static void of_the_end(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	if (ktap_suite() == SUITE_OURS) {
		ask_for_signals(r.kcm);
		NEED(shutdown(r.peer, SHUT_WR) == 0);
		check(next_band(r.kcm, SOON_MS) & POLLERR, "signals: the last connection is over");
	}
	rig_close(&r);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/*
 * A recvmmsg() of @fd, which has one message, or bytes, and gets a signal while it waits for the next. Linux keeps what ended it
 * behind the first as the error of the socket, for the next call.
 */
static void interrupt_recvmmsg(int fd)
{
	struct sigaction act = { .sa_handler = on_alarm };
	struct itimerval each = { { 0, 100000 }, { 0, 100000 } }, none = { 0 };
	static char bytes[2][MEDIUM * 2];
	struct iovec pieces[2];
	struct mmsghdr messages[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		pieces[i] = (struct iovec){ bytes[i], sizeof(bytes[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &pieces[i], .msg_iovlen = 1 };
	}
	NEED(polled(fd, POLLIN, SOON_MS));
	NEED(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &each, NULL) == 0);
	check(recvmmsg(fd, messages, 2, 0, NULL) == 1, "signals: recvmmsg ends with the message that was there");
	NEED(setitimer(ITIMER_REAL, &none, NULL) == 0);
}

static void of_recvmmsg(int timeout_s)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct timeval timeout = { .tv_sec = timeout_s };

	if (ktap_suite() == SUITE_OURS) {
		NEED(setsockopt(r.kcm, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0);
		peer_send_frame(r.peer, MEDIUM, 1);
		interrupt_recvmmsg(r.kcm);
		check(!polled(r.kcm, POLLERR, 0), "signals: an interrupted recvmmsg is no error for poll");
		check(kcm_sends(r.kcm, MEDIUM, 2) && peer_takes(r.peer, MEDIUM, 2), "signals: nor for the next send");
	}
	rig_close(&r);
}

/* Of the TCP socket, before it belongs to KCM. */
static void of_recvmmsg_over_tcp(int timeout_s)
{
	struct link tcp = tcp_link(HERE, AF_INET);
	struct rig r = { kcm_socket(HERE, SOCK_DGRAM), tcp.near, tcp.far };
	struct timeval timeout = { .tv_sec = timeout_s };

	if (ktap_suite() == SUITE_OURS) {
		NEED(setsockopt(r.tcp, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0);
		peer_send(r.peer, "x", 1);
		interrupt_recvmmsg(r.tcp);
		NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
		check(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1),
		      "signals: what interrupted TCP ends no connection");
	}
	rig_close(&r);
}

void api_signals(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	of_messages(&r);
	rig_close(&r);
	of_room();
	of_the_end();
	of_recvmmsg(0);
	of_recvmmsg(10); /* then it is not to be started again */
	of_recvmmsg_over_tcp(0);
	of_recvmmsg_over_tcp(10);
}
