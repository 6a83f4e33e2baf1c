// SPDX-License-Identifier: GPL-2.0
/* Waiting to receive, or to send to a host that never answers: time-outs and signals. */
#include "api.h"

#include <poll.h>
#include <signal.h>
#include <sys/time.h>

static char text[8192];

static void on_alarm(int signal)
{
	(void)signal;
}

/* Again and again, because the first signal may come before the call that it shall end; 0 ends them. */
static void alarms_each_ms(int ms)
{
	struct sigaction act = { .sa_handler = on_alarm };
	struct timeval each = { ms / 1000, ms % 1000 * 1000 };
	struct itimerval it = { .it_interval = each, .it_value = each };

	NEED(sigaction(SIGALRM, &act, NULL) == 0);
	NEED(setitimer(ITIMER_REAL, &it, NULL) == 0);
}

static ssize_t receive_with_alarms(int fd, int ms)
{
	ssize_t n;
	int error;

	alarms_each_ms(ms);
	n = rds_recv(fd, text, 1, NULL, 0);
	error = errno;
	alarms_each_ms(0);
	errno = error;
	return n;
}

/* The second message does not come in time. */
static void receiving_many(void)
{
	struct iovec to[2] = { { text, 1 }, { text + 1, 1 } };
	struct mmsghdr all[2] = { { .msg_hdr = { .msg_iov = &to[0], .msg_iovlen = 1 } },
				  { .msg_hdr = { .msg_iov = &to[1], .msg_iovlen = 1 } } };
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);

	set_timeout_ms(fd, SO_RCVTIMEO, 100);
	NEED(rds_send(fd, "x", 1, &self, 0) == 1);
	EXPECT_EQ(recvmmsg(fd, all, 2, 0, NULL), 1, "recvmmsg: SO_RCVTIMEO ends it, with what has come");
	differs(!(polled(fd, POLLIN, 0) & POLLERR), "recvmmsg-error", "recvmmsg: its end is no error that poll() reports");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_ERROR), ETIMEDOUT, "recvmmsg: SO_ERROR says what ended it");
	close(fd);
}

static void receiving(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct timeval centuries = { .tv_sec = 18446744074 };
	int64_t start;

	set_timeout_ms(fd, SO_RCVTIMEO, 100);
	start = now_ms();
	EXPECT_ERRNO(rds_recv(fd, text, 1, NULL, 0), ETIMEDOUT, "SO_RCVTIMEO: ends a receive");
	/* The timer's idea of time may lag behind in a busy emulator. */
	check(now_ms() - start >= 50, "SO_RCVTIMEO: not before its time");
	EXPECT_ERRNO(rds_recv(fd, text, 1, NULL, MSG_DONTWAIT), EAGAIN,
		     "SO_RCVTIMEO: MSG_DONTWAIT does not wait");
	set_timeout_ms(fd, SO_RCVTIMEO, 0);
	EXPECT_ERRNO(receive_with_alarms(fd, 100), EINTR, "recv: a signal ends it");
	/* In nanoseconds this is 2^64 and a little. */
	NEED(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &centuries, sizeof(centuries)) == 0);
	EXPECT_ERRNO(receive_with_alarms(fd, 1000), EINTR, "SO_RCVTIMEO: centuries are no moment");
	close(fd);
}

/* An address without a link or route: nothing is ever sent. */
static struct addr unreachable(void)
{
	return addr("10.99.99.99", 4000);
}

static void send_buffer_full(void)
{
	struct addr to = unreachable();
	int fd = rds_bound(HERE, HERE4, 0);

	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUF, 5000) == 0);
	EXPECT_EQ(rds_send(fd, text, 4000, &to, MSG_DONTWAIT), 4000, "send buffer: a first message");
	check(polled(fd, POLLOUT, 0) & POLLOUT, "send buffer: still writable");
	EXPECT_EQ(rds_send(fd, text, 4000, &to, MSG_DONTWAIT), 4000,
		  "send buffer: one message may overshoot");
	EXPECT_EQ(polled(fd, POLLOUT, 0), 0, "send buffer: full is not writable");
	EXPECT_ERRNO(rds_send(fd, text, 1, &to, MSG_DONTWAIT), EAGAIN, "send buffer: full is EAGAIN");
	NEED(setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &to.sa, to.len) == 0);
	check(polled(fd, POLLOUT, 0) & POLLOUT, "send buffer: writable again after RDS_CANCEL_SENT_TO");
	EXPECT_EQ(rds_send(fd, text, 4000, &to, MSG_DONTWAIT), 4000, "send buffer: takes again");
	close(fd);
}

/*
 * A message for a path other than the first has to wait for the handshake, which never comes here. The choice of
 * paths is random: all eight sockets are on the first path in one of 16 million cases. A machine that stands still for a
 * while makes one call long, but not all; none may last for the five seconds after which a sender gives up the handshake.
 */
static void never_answered(void)
{
	struct addr to = unreachable();
	int64_t shortest = 0;
	bool all_in_time = true;

	for (int i = 0; i < 8; i++) {
		int fd = rds_bound(HERE, HERE4, 0);
		int64_t start = now_ms(), took;
		ssize_t n;
		int error;

		set_timeout_ms(fd, SO_SNDTIMEO, 100);
		alarms_each_ms(4500);
		n = rds_send(fd, text, 100, &to, 0);
		error = errno;
		alarms_each_ms(0);
		took = now_ms() - start;
		if (n < 0 && (!shortest || took < shortest))
			shortest = took;
		all_in_time = took < 4000 && (n >= 0 || error == ETIMEDOUT);
		close(fd);
		if (!all_in_time)
			break;
	}
	differs(all_in_time && shortest <= 1000, "handshake-timeout", "SO_SNDTIMEO: ends a send to a host that never answers");
}

void api_timeouts(void)
{
	receiving();
	receiving_many();
	send_buffer_full();
	never_answered();
}
