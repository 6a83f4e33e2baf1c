// SPDX-License-Identifier: GPL-2.0
/* MSG_ZEROCOPY: the kernel uses the memory until it returns the cookie, once. */
#include "data.h"

#include <poll.h>

#define MESSAGES 20

static bool send_with_cookie(struct ends *e, uint32_t cookie, size_t len)
{
	struct control c = { .len = 0 };
	char *memory = out_buf + cookie * 20000;

	pattern_fill(memory, len, cookie);
	control_add(&c, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, &cookie, sizeof(cookie));
	return send_control(e->tx, memory, len, &e->rx_addr, &c, MSG_ZEROCOPY) == (ssize_t)len;
}

/* Collects completions; false when a cookie is unknown or came twice. */
static bool collect(int fd, uint32_t *seen, int *count)
{
	struct control c;
	struct rds_zcopy_cookies *done;

	while (recv_control(fd, in_buf, 1, &c, MSG_DONTWAIT, NULL) == 0) {
		done = control_find(&c, SOL_RDS, RDS_CMSG_ZCOPY_COMPLETION, sizeof(*done));
		if (!done || !done->num || done->num > RDS_MAX_ZCOOKIES)
			return false;
		for (uint32_t i = 0; i < done->num; i++) {
			uint32_t cookie = done->cookies[i];

			if (cookie >= MESSAGES || (*seen & 1u << cookie))
				return false;
			*seen |= 1u << cookie;
			++*count;
		}
	}
	return true;
}

void data_zerocopy(const struct lane *lane)
{
	struct ends e = ends_open(lane);
	bool sent = true, whole = true, sane = true;
	uint32_t seen = 0;
	int count = 0;

	if (!lane->zerocopy) {
		ends_close(&e);
		return;
	}
	room_for_big(e.tx);
	room_for_big(e.rx);
	NEED(set_int(e.tx, SOL_SOCKET, SO_ZEROCOPY, 1) == 0);
	/* From one byte to several pages, never aligned. */
	for (uint32_t i = 0; i < MESSAGES; i++)
		sent = sent && send_with_cookie(&e, i, i * 997 + 1);
	check(sent, "zerocopy: sends, %s", lane->name);
	for (uint32_t i = 0; sent && i < MESSAGES; i++)
		whole = whole && rds_recv_soon(e.rx, in_buf, sizeof(in_buf), NULL) == i * 997 + 1 &&
			pattern_matches(in_buf, i * 997 + 1, i);
	check(sent && whole, "zerocopy: contents, %s", lane->name);
	check(WAIT_UNTIL(SOON_MS, polled(e.tx, POLLIN, 0) & POLLIN),
	      "zerocopy: completions make it readable, %s", lane->name);
	WAIT_UNTIL(SOON_MS, !(sane = sane && collect(e.tx, &seen, &count)) || count == MESSAGES);
	check(sane && count == MESSAGES, "zerocopy: each cookie comes back once, %s", lane->name);
	polled(e.tx, POLLIN, 0);
	EXPECT_EQ(polled(e.tx, POLLIN, 0), 0, "zerocopy: nothing is left to read, %s", lane->name);
	ends_close(&e);
}
