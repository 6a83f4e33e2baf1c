// SPDX-License-Identifier: GPL-2.0
/* The buffers of TCP that a namespace's administrator, who may be any user, can have. */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "netns.h"
#include "rds.h"
#include "util.h"

/* The larger of the present and the former sizes. */
static void take_sizes(const struct nlmsghdr *h, uint32_t sizes[SK_MEMINFO_VARS])
{
	struct rtattr *a = (struct rtattr *)((char *)NLMSG_DATA(h) + NLMSG_ALIGN(sizeof(struct inet_diag_msg)));
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg)));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const uint32_t *these = RTA_DATA(a);

		if (a->rta_type != INET_DIAG_SKMEMINFO)
			continue;
		NEED(RTA_PAYLOAD(a) >= sizeof(uint32_t) * (SK_MEMINFO_SNDBUF + 1));
		for (int i = 0; i <= SK_MEMINFO_SNDBUF; i++)
			sizes[i] = these[i] > sizes[i] ? these[i] : sizes[i];
	}
}

/* The largest sizes of the buffers of the TCP streams in @ns that are connected, in bytes. */
static void tcp_buffers(int ns, uint32_t sizes[SK_MEMINFO_VARS])
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .sdiag_family = AF_INET,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
			  .idiag_states = 1 << TCP_ESTABLISHED },
	};
	static char text[65536] __attribute__((aligned(8)));
	int fd = socket_in(ns, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), len;
	struct nlmsghdr *h = NULL;

	memset(sizes, 0, sizeof(uint32_t) * SK_MEMINFO_VARS);
	NEED(send(fd, &request, sizeof(request), 0) == sizeof(request));
	while (!h || h->nlmsg_type != NLMSG_DONE) {
		len = recv(fd, text, sizeof(text), 0);
		NEED(len > 0);
		for (h = (struct nlmsghdr *)text; NLMSG_OK(h, (unsigned int)len) && h->nlmsg_type != NLMSG_DONE;
		     h = NLMSG_NEXT(h, len)) {
			NEED(h->nlmsg_type == SOCK_DIAG_BY_FAMILY);
			take_sizes(h, sizes);
		}
		NEED(NLMSG_OK(h, (unsigned int)len) || len <= 0);
		if (len <= 0)
			h = NULL;
	}
	close(fd);
	NEED(sizes[SK_MEMINFO_SNDBUF]);
}

/* Any user can be the administrator of a namespace. */
static void buffers(void)
{
	struct pair p = pair_new();
	int a, b;
	char in;
	uint32_t sizes[SK_MEMINFO_VARS];
	struct addr to = addr(PAIR_B4, 4615);

	NEED(set_setting(p.a, SETTINGS "tcp/rds_tcp_sndbuf", "50000000") == 0);
	NEED(set_setting(p.a, SETTINGS "tcp/rds_tcp_rcvbuf", "50000000") == 0);
	a = rds_bound(p.a, PAIR_A4, 4614);
	b = rds_bound(p.b, PAIR_B4, 4615);
	NEED(rds_send(a, "x", 1, &to, 0) == 1 && rds_recv_soon(b, &in, 1, NULL) == 1);
	tcp_buffers(p.a, sizes);
	differs(sizes[SK_MEMINFO_SNDBUF] < 50000000 && sizes[SK_MEMINFO_RCVBUF] < 50000000, "namespace-buffers",
		"buffers: sends with %u bytes, receives with %u", sizes[SK_MEMINFO_SNDBUF], sizes[SK_MEMINFO_RCVBUF]);
	close(a);
	close(b);
	pair_delete(&p);
}

#define TCP_SETTINGS "/proc/sys/net/ipv4/tcp_"
#define HUGE_BUFFERS "4096 1073741824 1073741824"
#define LARGE 50000000 /* bytes: more than the first namespace's TCP uses */

static void write_tcp_settings(int ns)
{
	NEED(set_setting(ns, TCP_SETTINGS "rmem", HUGE_BUFFERS) == 0);
	NEED(set_setting(ns, TCP_SETTINGS "wmem", HUGE_BUFFERS) == 0);
}

static bool has_large_buffers(int ns)
{
	uint32_t sizes[SK_MEMINFO_VARS];

	tcp_buffers(ns, sizes);
	note("%u bytes to send, %u to receive", sizes[SK_MEMINFO_SNDBUF], sizes[SK_MEMINFO_RCVBUF]);
	return sizes[SK_MEMINFO_SNDBUF] > LARGE || sizes[SK_MEMINFO_RCVBUF] > LARGE;
}

static void tcp_settings(void)
{
	struct pair p = pair_new();
	struct addr to = addr(PAIR_B4, 4617);
	int a, b;
	char in;

	write_tcp_settings(p.a);
	a = rds_bound(p.a, PAIR_A4, 4616);
	b = rds_bound(p.b, PAIR_B4, 4617);
	NEED(rds_send(a, "x", 1, &to, 0) == 1 && rds_recv_soon(b, &in, 1, NULL) == 1);
	differs(!has_large_buffers(p.a), "namespace-buffers", "buffers: nor by the namespace's TCP settings");
	close(a);
	close(b);
	pair_delete(&p);
}

void netns_buffers(void)
{
	buffers();
	tcp_settings();
}
