// SPDX-License-Identifier: GPL-2.0
/* Ways to send and receive: connected, read and write, vectors, MSG_PEEK, short buffers. */
#include "data.h"

#include <sys/uio.h>

static void connected(struct ends *e, const char *lane)
{
	struct addr from;

	NEED(rds_connect(e->tx, &e->rx_addr) == 0);
	EXPECT_EQ(rds_send(e->tx, "abc", 3, NULL, 0), 3, "ways: connected, %s", lane);
	EXPECT_EQ(rds_recv_soon(e->rx, in_buf, 10, &from), 3, "ways: connected arrives, %s", lane);
	EXPECT_ERRNO(write(e->tx, "defg", 4), EOPNOTSUPP,
		     "ways: write() is refused, as it marks a record's end, %s", lane);
	NEED(rds_send(e->tx, "defg", 4, NULL, 0) == 4);
	NEED(WAIT_UNTIL(SOON_MS, rds_recv(e->rx, in_buf, 1, NULL, MSG_PEEK | MSG_DONTWAIT) == 1));
	check(read(e->rx, in_buf, 10) == 4 && !memcmp(in_buf, "defg", 4), "ways: read(), %s", lane);
}

static void vectors(struct ends *e, const char *lane)
{
	struct iovec parts[64];
	size_t total = 0;
	struct msghdr msg = { .msg_name = &e->rx_addr.sa,
			      .msg_namelen = e->rx_addr.len,
			      .msg_iov = parts,
			      .msg_iovlen = ARRAY_SIZE(parts) };

	pattern_fill(out_buf, 70000, 5);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		parts[i] = (struct iovec){ out_buf + total, i * 33 };
		total += parts[i].iov_len;
	}
	EXPECT_EQ(sendmsg(e->tx, &msg, 0), total, "ways: a vector of many parts, %s", lane);
	for (size_t i = 0, at = 0; i < ARRAY_SIZE(parts); i++) {
		parts[i] = (struct iovec){ in_buf + at, (63 - i) * 33 };
		at += parts[i].iov_len;
	}
	msg.msg_namelen = 0;
	memset(in_buf, 0, total);
	check(WAIT_UNTIL(SOON_MS, recvmsg(e->rx, &msg, MSG_DONTWAIT) == (ssize_t)total) &&
		      pattern_matches(in_buf, total, 5),
	      "ways: received into other parts, %s", lane);
}

static void peeking(struct ends *e, const char *lane)
{
	pattern_fill(out_buf, 20000, 6);
	NEED(rds_send(e->tx, out_buf, 20000, &e->rx_addr, 0) == 20000);
	NEED(rds_send(e->tx, "next", 4, &e->rx_addr, 0) == 4);
	check(WAIT_UNTIL(SOON_MS, rds_recv(e->rx, in_buf, 20000, NULL, MSG_PEEK | MSG_DONTWAIT) == 20000) &&
		      pattern_matches(in_buf, 20000, 6),
	      "ways: MSG_PEEK gives all, %s", lane);
	memset(in_buf, 0, 20000);
	check(rds_recv(e->rx, in_buf, 20000, NULL, MSG_PEEK) == 20000 && pattern_matches(in_buf, 20000, 6),
	      "ways: MSG_PEEK again gives the same, %s", lane);
	memset(in_buf, 0, 20000);
	check(rds_recv(e->rx, in_buf, 5000, NULL, MSG_TRUNC) == 20000 && pattern_matches(in_buf, 5000, 6) &&
		      in_buf[5000] == 0,
	      "ways: a short buffer gives the beginning and the length, %s", lane);
	check(rds_recv_soon(e->rx, in_buf, 100, NULL) == 4 && !memcmp(in_buf, "next", 4),
	      "ways: the next message after a short buffer, %s", lane);
}

void data_ways(const struct lane *lane)
{
	struct ends e = ends_open(lane);

	connected(&e, lane->name);
	vectors(&e, lane->name);
	peeking(&e, lane->name);
	ends_close(&e);
}
