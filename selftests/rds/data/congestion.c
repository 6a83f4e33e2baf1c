// SPDX-License-Identifier: GPL-2.0
/* A receiver that does not read: senders get an error or wait, and are notified when there is room again. */
#include "data.h"

#include <poll.h>

#define MESSAGE 4000
#define BIT(port) (1ULL << ((port) % 64))

static int sent, taken; /* messages of all sizes since the last fill(), without those of other threads */

static bool send_now(struct ends *e, size_t len)
{
	bool ok = rds_send(e->tx, out_buf, len, &e->rx_addr, MSG_DONTWAIT) == (ssize_t)len;

	sent += ok;
	return ok;
}

static bool one_more(struct ends *e)
{
	return send_now(e, MESSAGE);
}

/* Send without waiting until the receiver's port is congested. */
static bool fill(struct ends *e)
{
	NEED(set_int(e->rx, SOL_SOCKET, SO_RCVBUF, 4 * MESSAGE) == 0);
	sent = taken = 0;
	return WAIT_UNTIL(SOON_MS, !one_more(e) && errno == ENOBUFS);
}

/* Receives all messages, also those in flight: until as many came as were sent, and no more for a while. */
static void drain(struct ends *e)
{
	int64_t start = now_ms(), quiet = start;

	while (now_ms() - quiet < 50 || (taken < sent && now_ms() - start < SOON_MS)) {
		if (rds_recv(e->rx, in_buf, sizeof(in_buf), NULL, MSG_DONTWAIT) >= 0) {
			taken++;
			quiet = now_ms();
		}
	}
}

static bool free_again(struct ends *e)
{
	return WAIT_UNTIL(SOON_MS, send_now(e, 1));
}

static long send_blocking(void *arg)
{
	struct ends *e = arg;

	return rds_send(e->tx, out_buf, MESSAGE, &e->rx_addr, 0);
}

static void only_that_port(struct ends *e, const struct lane *lane)
{
	int other = rds_bound(lane->to_ns, lane->to, 0);
	struct addr to = addr_of(other);

	EXPECT_ERRNO(rds_send(e->tx, out_buf, 1, &e->rx_addr, MSG_DONTWAIT), ENOBUFS,
		     "congestion: ENOBUFS without waiting, %s", lane->name);
	EXPECT_EQ(rds_send(e->tx, out_buf, 1, &to, 0), 1, "congestion: another port takes messages, %s",
		  lane->name);
	EXPECT_EQ(rds_recv_soon(other, in_buf, 1, NULL), 1, "congestion: and gets them, %s", lane->name);
	check(polled(e->tx, POLLOUT, 0) & POLLOUT, "congestion: does not touch POLLOUT, %s", lane->name);
	close(other);
}

static void timeout(struct ends *e, const char *lane)
{
	struct task t;
	bool in_time;

	set_timeout_ms(e->tx, SO_SNDTIMEO, 200);
	task_start(&t, send_blocking, e);
	in_time = task_finished(&t, stretched(2000));
	if (!in_time)
		task_signal(&t);
	in_time = task_join(&t) < 0 && errno == ETIMEDOUT && in_time && t.took_ms >= 100;
	differs(in_time, "congestion-timeout", "congestion: SO_SNDTIMEO ends the wait, %s", lane);
	set_timeout_ms(e->tx, SO_SNDTIMEO, 0);
}

static void signalled(struct ends *e, const char *lane)
{
	struct task t;

	task_start(&t, send_blocking, e);
	check(task_blocked(&t), "congestion: a sender waits, %s", lane);
	task_signal(&t);
	EXPECT_ERRNO(task_join(&t), EINTR, "congestion: a signal ends the wait, %s", lane);
}

static void room(struct ends *e, const char *lane)
{
	struct task t;

	task_start(&t, send_blocking, e);
	NEED(task_blocked(&t));
	drain(e);
	check(task_finished(&t, SOON_MS), "congestion: room ends the wait, %s", lane);
	EXPECT_EQ(task_join(&t), MESSAGE, "congestion: the message is sent, %s", lane);
	sent++;
	drain(e);
	EXPECT_EQ(taken, sent, "congestion: everything that was taken arrives, %s", lane);
}

static void news(struct ends *e, const char *lane)
{
	NEED(free_again(e));
	drain(e);
	check(fill(e), "congestion: comes again, %s", lane);
	/* Read earlier notifications. */
	while (polled(e->tx, POLLIN | POLLWRBAND, 100))
		;
	drain(e);
	EXPECT_EQ(polled(e->tx, POLLIN | POLLWRBAND, SOON_MS), POLLIN | POLLWRBAND,
		  "congestion: a change wakes poll() as POLLIN and POLLWRBAND, %s", lane);
	EXPECT_ERRNO(rds_recv(e->tx, in_buf, 1, NULL, MSG_DONTWAIT), EAGAIN,
		     "congestion: with nothing to read, %s", lane);
	check(free_again(e), "congestion: it was over, %s", lane);
	drain(e);
}

static void monitored(struct ends *e, const char *lane)
{
	uint64_t *mask = NULL, bit = BIT(addr_port(&e->rx_addr));
	struct control c;

	NEED(set_int(e->tx, SOL_RDS, RDS_CONG_MONITOR, 1) == 0);
	check(fill(e), "monitor: congestion, %s", lane);
	/* In one machine the bit may be set before its map arrives; then the first one
	 * counts. */
	while (polled(e->tx, POLLIN, 100))
		NEED(recv_control(e->tx, in_buf, 1, &c, MSG_DONTWAIT, NULL) == 0);
	NEED(rds_send(e->tx, out_buf, 1, &e->rx_addr, MSG_DONTWAIT) < 0 && errno == ENOBUFS);
	EXPECT_EQ(polled(e->tx, POLLIN, 100), 0, "monitor: nothing to report yet, %s", lane);
	drain(e);
	EXPECT_EQ(polled(e->tx, POLLIN, SOON_MS), POLLIN, "monitor: the end of congestion is reported, %s", lane);
	EXPECT_EQ(recv_control(e->tx, in_buf, 1, &c, MSG_DONTWAIT, NULL), 0,
		  "monitor: by an empty message, %s", lane);
	mask = control_find(&c, SOL_RDS, RDS_CMSG_CONG_UPDATE, sizeof(*mask));
	check(mask && *mask == bit, "monitor: with the port's bit, %s", lane);
	EXPECT_EQ(polled(e->tx, POLLIN, 0), 0, "monitor: once, %s", lane);
	NEED(set_int(e->tx, SOL_RDS, RDS_CONG_MONITOR, 0) == 0);
	NEED(free_again(e));
	drain(e);
}

/* The receiver goes away: no sender must wait for it. */
static void closed(struct ends *e, const char *lane)
{
	struct task t;

	check(fill(e), "congestion: before the receiver goes, %s", lane);
	task_start(&t, send_blocking, e);
	NEED(task_blocked(&t));
	close(e->rx);
	e->rx = -1;
	check(task_finished(&t, SOON_MS), "congestion: the receiver's end ends the wait, %s", lane);
	EXPECT_EQ(task_join(&t), MESSAGE, "congestion: like a send to an unbound port, %s", lane);
}

void data_congestion(const struct lane *lane)
{
	struct ends e = ends_open(lane);

	room_for_big(e.tx);
	if (!check(fill(&e), "congestion: a full receiver congests its port, %s", lane->name))
		return ends_close(&e);
	only_that_port(&e, lane);
	timeout(&e, lane->name);
	signalled(&e, lane->name);
	room(&e, lane->name);
	news(&e, lane->name);
	monitored(&e, lane->name);
	closed(&e, lane->name);
	close(e.tx);
}
