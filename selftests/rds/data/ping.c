// SPDX-License-Identifier: GPL-2.0
/* Port 0 answers by itself: a message to it comes back, empty, from port 0. */
#include "data.h"

#include <poll.h>

#define SETTING "/proc/sys/net/rds/ping_enable"

static struct addr port_zero(const struct lane *lane)
{
	return addr(lane->to, 0);
}

static void answered(struct ends *e, const struct lane *lane)
{
	struct addr zero = port_zero(lane), from;

	NEED(rds_send(e->tx, "hello", 5, &zero, 0) == 5);
	EXPECT_EQ(rds_recv_soon(e->tx, in_buf, 10, &from), 0, "ping: the answer is empty, %s", lane->name);
	check(addr_same(&from, &zero), "ping: it comes from port 0, %s", lane->name);
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/*
 * How long a message takes to @to and until @fd can read one, in us: the third best of seven tries, which is touched
 * neither by what else the machine does nor by chance. The connection is idle before each.
 */
static int64_t typical(struct ends *e, const struct addr *to, int fd, const struct lane *lane)
{
	int64_t took[7];

	for (size_t i = 0; i < ARRAY_SIZE(took); i++) {
		int64_t start;

		nap_us(lane->tcp ? 250000 : 1000);
		start = now_us();
		NEED(rds_send(e->tx, NULL, 0, to, 0) == 0);
		/* Not by naps, whose length would be part of the measure. */
		NEED(WAIT_UNTIL(SOON_MS,
				polled(fd, POLLIN, SOON_MS) && rds_recv(fd, in_buf, 1, NULL, MSG_DONTWAIT) == 0));
		took[i] = now_us() - start;
	}
	qsort(took, ARRAY_SIZE(took), sizeof(took[0]), by_size);
	return took[2];
}

/*
 * An answer that is left to a timer takes at least a tick, 4 ms where HZ is 250, more than a message there and one back
 * would, however fast the machine is. The kernel's own leaves it to a timer unless something else, such as an
 * acknowledgement that came along, wakes its worker.
 */
static void at_once(struct ends *e, const struct lane *lane)
{
	struct addr zero = port_zero(lane);
	int64_t there = typical(e, &e->rx_addr, e->rx, lane), both = typical(e, &zero, e->tx, lane);

	note("a message takes %lld us, a ping %lld us", (long long)there, (long long)both);
	differs_if(lane->tcp, both < 2 * there + 3000, "ping-at-once", "ping: answered at once, %s", lane->name);
}

static void switched_off(struct ends *e, const struct lane *lane)
{
	struct addr zero = port_zero(lane);

	NEED(write_file(SETTING, "0") == 0);
	NEED(rds_send(e->tx, NULL, 0, &zero, 0) == 0);
	NEED(rds_send(e->tx, "x", 1, &e->rx_addr, 0) == 1);
	NEED(rds_recv_soon(e->rx, in_buf, 1, NULL) == 1);
	nap_us(50000);
	EXPECT_ERRNO(rds_recv(e->tx, in_buf, 1, NULL, MSG_DONTWAIT), EAGAIN, "ping: off, no answer, %s",
		     lane->name);
	NEED(write_file(SETTING, "1") == 0);
	answered(e, lane);
}

void data_ping(const struct lane *lane)
{
	struct ends e = ends_open(lane);

	answered(&e, lane);
	at_once(&e, lane);
	/* The setting is the namespace's on ours; here it is the one of this program's. */
	if (!lane->tcp)
		switched_off(&e, lane);
	ends_close(&e);
}
