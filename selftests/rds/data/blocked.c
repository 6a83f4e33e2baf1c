// SPDX-License-Identifier: GPL-2.0
/* A full send buffer: the receiver's address is away for a while, so nothing is acknowledged. */
#include "data.h"

#include <poll.h>

#define MESSAGE 4000

static void receiver_address(const struct lane *lane, bool there)
{
	char cidr[64];

	snprintf(cidr, sizeof(cidr), "%s/%d", lane->to, strchr(lane->to, ':') ? 64 : 24);
	net_address(lane->to_ns, "pair", cidr, there);
}

static long send_blocking(void *arg)
{
	struct ends *e = arg;

	return rds_send(e->tx, out_buf, MESSAGE, &e->rx_addr, 0);
}

static int fill(struct ends *e)
{
	int sent = 0;

	while (rds_send(e->tx, out_buf, MESSAGE, &e->rx_addr, MSG_DONTWAIT) == MESSAGE && sent < 1000)
		sent++;
	NEED(errno == EAGAIN);
	return sent;
}

static void waiting(struct ends *e, const char *lane)
{
	struct task t;
	int64_t start;

	set_timeout_ms(e->tx, SO_SNDTIMEO, 200);
	start = now_ms();
	EXPECT_ERRNO(rds_send(e->tx, out_buf, MESSAGE, &e->rx_addr, 0), ETIMEDOUT,
		     "blocked: SO_SNDTIMEO ends the wait, %s", lane);
	/* The timer's idea of time may lag behind in a busy emulator. */
	check(now_ms() - start >= 100, "blocked: not before its time, %s", lane);
	set_timeout_ms(e->tx, SO_SNDTIMEO, 0);
	EXPECT_EQ(polled(e->tx, POLLOUT, 0), 0, "blocked: not writable, %s", lane);
	task_start(&t, send_blocking, e);
	check(task_blocked(&t), "blocked: a sender waits, %s", lane);
	task_signal(&t);
	EXPECT_ERRNO(task_join(&t), EINTR, "blocked: a signal ends the wait, %s", lane);
}

static void cancelled(struct ends *e, const char *lane)
{
	struct task t;

	task_start(&t, send_blocking, e);
	NEED(task_blocked(&t));
	EXPECT_OK(setsockopt(e->tx, SOL_RDS, RDS_CANCEL_SENT_TO, &e->rx_addr.sa, e->rx_addr.len),
		  "blocked: what is queued can be cancelled, %s", lane);
	check(task_finished(&t, SOON_MS), "blocked: which makes room and wakes the sender, %s", lane);
	EXPECT_EQ(task_join(&t), MESSAGE, "blocked: its message is taken, %s", lane);
	check(polled(e->tx, POLLOUT, 0) & POLLOUT, "blocked: and the socket is writable, %s", lane);
}

static void enlarged(struct ends *e, const char *lane)
{
	struct task t;

	fill(e);
	task_start(&t, send_blocking, e);
	NEED(task_blocked(&t));
	NEED(set_int(e->tx, SOL_SOCKET, SO_SNDBUF, 4 * MESSAGE) == 0);
	check(task_finished(&t, SOON_MS), "blocked: a larger SO_SNDBUF wakes the sender, %s", lane);
	EXPECT_EQ(task_join(&t), MESSAGE, "blocked: its message fits now, %s", lane);
	NEED(setsockopt(e->tx, SOL_RDS, RDS_CANCEL_SENT_TO, &e->rx_addr.sa, e->rx_addr.len) == 0);
	NEED(set_int(e->tx, SOL_SOCKET, SO_SNDBUF, 3 * MESSAGE) == 0);
}

/* The last messages are marked, so that cancelled ones that were on their way already do not confuse. */
static void healed(struct ends *e, const struct lane *lane)
{
	struct task t;
	int last;

	fill(e);
	task_start(&t, send_blocking, e);
	NEED(task_blocked(&t));
	receiver_address(lane, true);
	check(task_finished(&t, 3 * SOON_MS), "blocked: an acknowledgement wakes the sender, %s", lane->name);
	EXPECT_EQ(task_join(&t), MESSAGE, "blocked: which sends, %s", lane->name);
	NEED(WAIT_UNTIL(SOON_MS, rds_send(e->tx, "last", 4, &e->rx_addr, MSG_DONTWAIT) == 4));
	last = 0;
	for (int i = 0; i < 100 && last != 4; i++)
		last = rds_recv_soon(e->rx, in_buf, sizeof(in_buf), NULL);
	EXPECT_EQ(last, 4, "blocked: everything arrives in the end, %s", lane->name);
	check(WAIT_UNTIL(SOON_MS, polled(e->tx, POLLOUT, 0) & POLLOUT), "blocked: writable again, %s",
	      lane->name);
}

void data_blocked(const struct lane *lane)
{
	struct ends e = ends_open(lane);

	/* The connection is up and idle before the address goes. */
	NEED(delivered(&e, 100, 1));
	NEED(set_int(e.tx, SOL_SOCKET, SO_SNDBUF, 3 * MESSAGE) == 0);
	receiver_address(lane, false);
	EXPECT_EQ(fill(&e), 3, "blocked: takes what fits the send buffer, %s", lane->name);
	waiting(&e, lane->name);
	cancelled(&e, lane->name);
	enlarged(&e, lane->name);
	healed(&e, lane);
	ends_close(&e);
}
