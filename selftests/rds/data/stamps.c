// SPDX-License-Identifier: GPL-2.0
/* Control messages with a message: time stamps and latencies inside the kernel. */
#include "data.h"

#include <time.h>

struct stamp_old {
	long sec, usec;
};

struct stamp_new {
	int64_t sec, usec;
};

static bool recent(int64_t sec, int64_t usec)
{
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (now.tv_sec - sec) * 1000000 + now.tv_nsec / 1000 - usec;
	return age >= 0 && age < 60 * 1000000 && usec < 1000000;
}

/* One message with its control messages. */
static bool take(struct ends *e, struct control *c)
{
	NEED(rds_send(e->tx, "x", 1, &e->rx_addr, 0) == 1);
	return WAIT_UNTIL(SOON_MS, recv_control(e->rx, in_buf, 1, c, MSG_DONTWAIT, NULL) == 1);
}

static void times(struct ends *e, const char *lane)
{
	struct control c;
	struct stamp_old *old;
	struct stamp_new *new;

	check(take(e, &c) && !c.len, "stamps: none unless enabled, %s", lane);
	NEED(set_int(e->rx, SOL_RDS, STAMP_OLD, 1) == 0);
	check(take(e, &c) && (old = control_find(&c, SOL_SOCKET, STAMP_OLD, sizeof(*old))) &&
		      recent(old->sec, old->usec),
	      "stamps: SO_TIMESTAMP_OLD, %s", lane);
	NEED(set_int(e->rx, SOL_RDS, STAMP_NEW, 1) == 0);
	check(take(e, &c) && (new = control_find(&c, SOL_SOCKET, STAMP_NEW, sizeof(*new))) &&
		      recent(new->sec, new->usec),
	      "stamps: SO_TIMESTAMP_NEW, %s", lane);
	NEED(set_int(e->rx, SOL_RDS, STAMP_NEW, 0) == 0);
	check(take(e, &c) && !c.len, "stamps: off again, %s", lane);
	NEED(set_int(e->rx, SOL_SOCKET, SO_TIMESTAMP, 1) == 0);
	check(take(e, &c) && (control_find(&c, SOL_SOCKET, STAMP_OLD, 16) ||
			      control_find(&c, SOL_SOCKET, STAMP_NEW, 16)),
	      "stamps: enabled at the socket level, %s", lane);
	NEED(set_int(e->rx, SOL_SOCKET, SO_TIMESTAMP, 0) == 0);
}

static void latency(struct ends *e, const struct lane *lane)
{
	struct rds_rx_trace_so want = { 2, { RDS_MSG_RX_DGRAM_DELIVERED, RDS_MSG_RX_HDR_TO_DGRAM_START } };
	struct rds_cmsg_rx_trace *got;
	struct control c;
	struct iovec io = { in_buf, 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = c.data, .msg_controllen = 4 };

	NEED(setsockopt(e->rx, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, &want, sizeof(want)) == 0);
	check(take(e, &c) && (got = control_find(&c, SOL_RDS, RDS_CMSG_RXPATH_LATENCY, sizeof(*got))) &&
		      got->rx_traces == 2 && got->rx_trace_pos[0] == want.rx_trace_pos[0] &&
		      got->rx_trace_pos[1] == want.rx_trace_pos[1],
	      "latency: the selected points, %s", lane->name);
	check(c.len && (got = control_find(&c, SOL_RDS, RDS_CMSG_RXPATH_LATENCY, sizeof(*got))) &&
		      got->rx_trace[0] < 60000000000ULL && got->rx_trace[1] < 60000000000ULL &&
		      !got->rx_trace[2],
	      "latency: nanoseconds, %s", lane->name);
	NEED(rds_send(e->tx, "x", 1, &e->rx_addr, 0) == 1);
	check(WAIT_UNTIL(SOON_MS, recvmsg(e->rx, &msg, MSG_DONTWAIT) == 1) && (msg.msg_flags & MSG_CTRUNC),
	      "latency: no room for it is reported, %s", lane->name);
	want.rx_traces = 0;
	NEED(setsockopt(e->rx, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, &want, sizeof(want)) == 0);
	check(take(e, &c) && !c.len, "latency: off again, %s", lane->name);
}

void data_stamps(const struct lane *lane)
{
	struct ends e = ends_open(lane);

	times(&e, lane->name);
	latency(&e, lane);
	ends_close(&e);
}
