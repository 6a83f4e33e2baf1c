// SPDX-License-Identifier: GPL-2.0
/* Addresses that are valid only on their link. */
#include "data.h"

/* One end on the link, the other one good everywhere: both find the same connection, and the socket. */
static void mixed(const char *link, const char *global, int link_ns, int global_ns)
{
	struct lane out = { "link-local to global", link_ns, global_ns, link, global, true, true };
	struct lane in = { "global to link-local", global_ns, link_ns, global, link, true, true };
	struct ends e = ends_open(&out);

	check(delivered(&e, 0, 1) && delivered(&e, 5000, 2), "link-local: messages arrive at a global address");
	ends_close(&e);
	e = ends_open(&in);
	e.rx_addr.in6.sin6_scope_id = net_index(global_ns, "pair");
	check(delivered(&e, 0, 1) && delivered(&e, 5000, 2), "link-local: messages arrive from a global address");
	ends_close(&e);
}

void data_link_local(void)
{
	char a[64], b[64];
	struct lane lane = { "link-local", pair.a, pair.b, a, b, true, true };
	struct ends e;
	struct addr from;

	net_address(pair.a, "pair", "fe80::a/64", true);
	net_address(pair.b, "pair", "fe80::b/64", true);
	snprintf(a, sizeof(a), "fe80::a%%%d", net_index(pair.a, "pair"));
	snprintf(b, sizeof(b), "fe80::b%%%d", net_index(pair.b, "pair"));
	e = ends_open(&lane);
	EXPECT_EQ(e.tx_addr.in6.sin6_scope_id, net_index(pair.a, "pair"),
		  "link-local: the name has its scope");
	/* The destination's scope is the sender's own link. */
	e.rx_addr.in6.sin6_scope_id = net_index(pair.a, "pair");
	check(delivered(&e, 0, 1) && delivered(&e, 5000, 2), "link-local: messages arrive");
	NEED(rds_send(e.tx, "x", 1, &e.rx_addr, 0) == 1);
	NEED(rds_recv_soon(e.rx, in_buf, 1, &from) == 1);
	EXPECT_EQ(from.in6.sin6_scope_id, net_index(pair.b, "pair"),
		  "link-local: the sender has the receiver's scope");
	e.rx_addr.in6.sin6_scope_id = 99;
	EXPECT_ERRNO(rds_send(e.tx, "x", 1, &e.rx_addr, 0), EINVAL,
		     "link-local: another link's peer is refused");
	ends_close(&e);
	mixed(a, PAIR_B6, pair.a, pair.b);
	mixed(b, PAIR_A6, pair.b, pair.a);
}
