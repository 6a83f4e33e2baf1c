// SPDX-License-Identifier: GPL-2.0
/* Port 0 is answered by the kernel: an empty message from port 0. */
#include "data.h"

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
	/* In our RDS the setting belongs to the namespace; this sets the one of this program. */
	if (!lane->tcp)
		switched_off(&e, lane);
	ends_close(&e);
}
