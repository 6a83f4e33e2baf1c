// SPDX-License-Identifier: GPL-2.0
/* Sockets that are closed and reopened: the new one does not get messages for the old one. */
#include "data.h"

void data_reopen(const struct lane *lane)
{
	struct ends e = ends_open(lane);
	uint16_t port = addr_port(&e.rx_addr);
	int marker = rds_bound(lane->to_ns, lane->to, 0);
	struct addr mark = addr_of(marker);
	uint64_t before;

	for (int i = 0; i < 10; i++)
		NEED(rds_send(e.tx, "old", 3, &e.rx_addr, 0) == 3);
	NEED(WAIT_UNTIL(SOON_MS, rds_recv(e.rx, in_buf, 3, NULL, MSG_PEEK | MSG_DONTWAIT) == 3));
	close(e.rx);
	before = rds_counter(lane->to_ns, "recv_drop_no_sock");
	NEED(rds_send(e.tx, "lost", 4, &e.rx_addr, 0) == 4);
	/* When this one has arrived, none of those before is on its way any more. */
	NEED(rds_send(e.tx, "mark", 4, &mark, 0) == 4 && rds_recv_soon(marker, in_buf, 4, NULL) == 4);
	close(marker);
	check(WAIT_UNTIL(SOON_MS, rds_counter(lane->to_ns, "recv_drop_no_sock") > before),
	      "reopen: a message to a closed port is counted as dropped, %s", lane->name);
	e.rx = rds_bound(lane->to_ns, lane->to, port);
	EXPECT_ERRNO(rds_recv(e.rx, in_buf, 10, NULL, MSG_DONTWAIT), EAGAIN,
		     "reopen: old messages are gone, %s", lane->name);
	NEED(rds_send(e.tx, "newest", 6, &e.rx_addr, 0) == 6);
	EXPECT_EQ(rds_recv_soon(e.rx, in_buf, 10, NULL), 6, "reopen: the new socket receives, %s",
		  lane->name);
	ends_close(&e);
}
