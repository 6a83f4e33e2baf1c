// SPDX-License-Identifier: GPL-2.0
/* Durations, in a machine whose clock counts instructions: only there are times exact. */
#include "data.h"

#include <poll.h>

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Sends to @to and waits until @fd is readable; the median in us. The connection is idle before each. */
static int64_t typical(struct ends *e, const struct addr *to, int fd)
{
	int64_t took[9];

	for (size_t i = 0; i < ARRAY_SIZE(took); i++) {
		int64_t start;

		nap_us(250000);
		start = now_us();
		NEED(rds_send(e->tx, NULL, 0, to, 0) == 0);
		/* Naps would add their length to the result; poll() also reports other events than messages. */
		NEED(WAIT_UNTIL(SOON_MS,
				polled(fd, POLLIN, SOON_MS) && rds_recv(fd, in_buf, 1, NULL, MSG_DONTWAIT) == 0));
		took[i] = now_us() - start;
	}
	qsort(took, ARRAY_SIZE(took), sizeof(took[0]), by_size);
	return took[ARRAY_SIZE(took) / 2];
}

/* The kernel's own RDS does not always connect here. */
static bool connected(struct ends *e)
{
	NEED(rds_send(e->tx, NULL, 0, &e->rx_addr, 0) == 0);
	return rds_recv_soon(e->rx, in_buf, 1, NULL) == 0;
}

/*
 * An answer that waits for a timer takes at least a tick, 4 ms where HZ is 250, more than a message and its answer
 * would. The kernel's own RDS waits for a timer unless another event, such as an acknowledgement, wakes
 * its worker.
 */
static bool ping_at_once(const struct lane *lane)
{
	struct ends e = ends_open(lane);
	struct addr zero = addr(lane->to, 0);
	bool can = connected(&e);
	int64_t there, both;

	if (can) {
		there = typical(&e, &e.rx_addr, e.rx);
		both = typical(&e, &zero, e.tx);
		note("a message takes %lld us, a ping %lld us", (long long)there, (long long)both);
		differs(both < 2 * there + 1000, "ping-at-once", "ping: answered at once, %s", lane->name);
	}
	ends_close(&e);
	return can;
}

void data_clock(void)
{
	size_t wanted = 0, shown = 0;

	for (size_t i = 0; i < lane_count; i++) {
		if (!lanes[i].tcp)
			continue;
		wanted++;
		shown += ping_at_once(&lanes[i]);
	}
	check(ktap_suite() == SUITE_OURS ? shown == wanted : shown > 0, "clock: hosts connect");
}
