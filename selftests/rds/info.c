// SPDX-License-Identifier: GPL-2.0
/* RDS_INFO_*: lengths, contents of each item, and errors of bad arguments. */
#include <arpa/inet.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

static char buf[1 << 20];

struct item {
	int option;
	const char *name;
	int each; /* bytes an element */
	bool provided;
};

static const struct item items[] = {
	{ RDS_INFO_COUNTERS, "COUNTERS", sizeof(struct rds_info_counter), true },
	{ RDS_INFO_CONNECTIONS, "CONNECTIONS", sizeof(struct rds_info_connection), true },
	{ 10002, "10002", 0, false },
	{ RDS_INFO_SEND_MESSAGES, "SEND_MESSAGES", sizeof(struct rds_info_message), true },
	{ RDS_INFO_RETRANS_MESSAGES, "RETRANS_MESSAGES", sizeof(struct rds_info_message), true },
	{ RDS_INFO_RECV_MESSAGES, "RECV_MESSAGES", sizeof(struct rds_info_message), true },
	{ RDS_INFO_SOCKETS, "SOCKETS", sizeof(struct rds_info_socket), true },
	{ RDS_INFO_TCP_SOCKETS, "TCP_SOCKETS", sizeof(struct rds_info_tcp_socket), true },
	{ RDS_INFO_IB_CONNECTIONS, "IB_CONNECTIONS", 0, false },
	{ RDS_INFO_CONNECTION_STATS, "CONNECTION_STATS", 0, false },
	{ RDS_INFO_IWARP_CONNECTIONS, "IWARP_CONNECTIONS", 0, false },
	{ RDS6_INFO_CONNECTIONS, "6 CONNECTIONS", sizeof(struct rds6_info_connection), true },
	{ RDS6_INFO_SEND_MESSAGES, "6 SEND_MESSAGES", sizeof(struct rds6_info_message), true },
	{ RDS6_INFO_RETRANS_MESSAGES, "6 RETRANS_MESSAGES", sizeof(struct rds6_info_message), true },
	{ RDS6_INFO_RECV_MESSAGES, "6 RECV_MESSAGES", sizeof(struct rds6_info_message), true },
	{ RDS6_INFO_SOCKETS, "6 SOCKETS", sizeof(struct rds6_info_socket), true },
	{ RDS6_INFO_TCP_SOCKETS, "6 TCP_SOCKETS", sizeof(struct rds6_info_tcp_socket), true },
	{ RDS6_INFO_IB_CONNECTIONS, "6 IB_CONNECTIONS", 0, false },
};

static int get(int fd, int option, void *out, socklen_t *len)
{
	return getsockopt(fd, SOL_RDS, option, out, len);
}

/* All of an item; the number of elements, or less than 0. */
static int fetch(int fd, int option, int each)
{
	socklen_t len = sizeof(buf);
	int ret = get(fd, option, buf, &len);

	return ret == each && len % each == 0 ? (int)len / each : -1;
}

/* A short buffer gets ENOSPC and the needed length. */
static void protocol(int fd, const struct item *it)
{
	socklen_t len = 0, need;
	int ret = get(fd, it->option, NULL, &len);

	if (len == 0) {
		EXPECT_EQ(ret, it->each, "info %s: the length for an empty buffer", it->name);
		return;
	}
	check(ret < 0 && errno == ENOSPC && len % it->each == 0, "info %s: the required length", it->name);
	need = len;
	len--;
	memset(buf, 0x5a, sizeof(buf));
	EXPECT_ERRNO(get(fd, it->option, buf, &len), ENOSPC, "info %s: one byte too few", it->name);
	EXPECT_EQ(len, need, "info %s: gets the length", it->name);
	EXPECT_EQ(get(fd, it->option, buf, &len), it->each, "info %s: exactly enough", it->name);
	len = need + 100;
	memset(buf, 0x5a, sizeof(buf));
	check(get(fd, it->option, buf, &len) == it->each && len == need && buf[need] == 0x5a,
	      "info %s: no more is written than reported", it->name);
	/* The buffer's offset in its page must not matter. */
	len = need;
	check(get(fd, it->option, (char *)before_hole(need), &len) == it->each && len == need,
	      "info %s: a buffer that ends at a hole", it->name);
}

static void bad_arguments(int fd, const struct item *it)
{
	socklen_t len = 4096;

	EXPECT_ERRNO(get(fd, it->option, buf, bad_pointer()), EFAULT, "info %s: bad length pointer",
		     it->name);
	len = -1;
	EXPECT_ERRNO(get(fd, it->option, buf, &len), EINVAL, "info %s: negative length", it->name);
	len = INT_MAX;
	EXPECT_ERRNO(get(fd, it->option, buf, &len), EINVAL, "info %s: greatest length", it->name);
	len = 4096;
	EXPECT_ERRNO(get(fd, it->option, (void *)(~0UL - 100), &len), EINVAL, "info %s: a buffer that wraps",
		     it->name);
	len = 4096;
	check(get(fd, it->option, bad_pointer(), &len) < 0 && (errno == EAGAIN || errno == EFAULT),
	      "info %s: bad buffer", it->name);
	len = 4096;
	check(get(fd, it->option, read_only_page(), &len) < 0 && (errno == EAGAIN || errno == EFAULT),
	      "info %s: buffer that cannot be written", it->name);
	len = 4097;
	check(get(fd, it->option, before_hole(4096), &len) < 0 && (errno == EAGAIN || errno == EFAULT),
	      "info %s: buffer that ends one byte early", it->name);
}

static void not_provided(int fd, const struct item *it)
{
	socklen_t len = 0;

	EXPECT_ERRNO(get(fd, it->option, NULL, &len), ENOPROTOOPT, "info %s: has no provider", it->name);
}

static void counters(int fd)
{
	static const char *const names[] = {
		"conn_reset",
		"recv_drop_bad_checksum",
		"recv_drop_old_seq",
		"recv_drop_no_sock",
		"recv_drop_dead_sock",
		"recv_deliver_raced",
		"recv_delivered",
		"recv_queued",
		"recv_immediate_retry",
		"recv_delayed_retry",
		"recv_ack_required",
		"recv_rdma_bytes",
		"recv_ping",
		"send_queue_empty",
		"send_queue_full",
		"send_lock_contention",
		"send_lock_queue_raced",
		"send_immediate_retry",
		"send_delayed_retry",
		"send_drop_acked",
		"send_ack_required",
		"send_queued",
		"send_rdma",
		"send_rdma_bytes",
		"send_pong",
		"page_remainder_hit",
		"page_remainder_miss",
		"copy_to_user",
		"copy_from_user",
		"cong_update_queued",
		"cong_update_received",
		"cong_send_error",
		"cong_send_blocked",
		"recv_bytes_added_to_sock",
		"recv_bytes_freed_fromsock",
		"send_stuck_rm",
		"tcp_data_ready_calls",
		"tcp_write_space_calls",
		"tcp_sndbuf_full",
		"tcp_connect_raced",
		"tcp_listen_closed_stale",
	};
	struct addr self = addr_of(fd);
	uint64_t queued = rds_counter(HERE, "recv_queued"), delivered = rds_counter(HERE, "recv_delivered");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check(rds_has_counter(HERE, names[i]), "counters: %s", names[i]);
	NEED(rds_send(fd, "x", 1, &self, 0) == 1 && rds_recv_soon(fd, buf, 1, NULL) == 1);
	check(rds_counter(HERE, "recv_queued") == queued + 1 &&
		      rds_counter(HERE, "recv_delivered") == delivered + 1,
	      "counters: they count");
}

static struct rds_info_socket *my_socket(int fd)
{
	struct rds_info_socket *s = (void *)buf;
	int n = fetch(fd, RDS_INFO_SOCKETS, sizeof(*s));
	struct stat st;

	NEED(fstat(fd, &st) == 0);
	for (int i = 0; i < n; i++)
		if (s[i].inum == st.st_ino)
			return &s[i];
	return NULL;
}

static struct rds6_info_socket *my_socket6(int fd)
{
	struct rds6_info_socket *s = (void *)buf;
	int n = fetch(fd, RDS6_INFO_SOCKETS, sizeof(*s));
	struct stat st;

	NEED(fstat(fd, &st) == 0);
	for (int i = 0; i < n; i++)
		if (s[i].inum == st.st_ino)
			return &s[i];
	return NULL;
}

static void sockets(void)
{
	int fd = rds_bound(HERE, HERE4, 4500), six = rds_bound(HERE, HERE6, 4501), loose = rds_socket(HERE);
	struct addr peer = addr("192.0.2.7", 77), own6 = addr(HERE6, 0);
	struct rds_info_socket *s;
	struct rds6_info_socket *s6;

	NEED(rds_connect(fd, &peer) == 0);
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUF, 30000) == 0 &&
	     set_int(fd, SOL_SOCKET, SO_RCVBUF, 40000) == 0);
	s = my_socket(fd);
	check(s && s->bound_addr == inet_addr(HERE4) && ntohs(s->bound_port) == 4500, "sockets: bound to");
	check(s && s->connected_addr == peer.in4.sin_addr.s_addr && ntohs(s->connected_port) == 77,
	      "sockets: connected to");
	check(s && s->sndbuf == 30000 && s->rcvbuf == 40000, "sockets: buffers as they were set");
	check(!my_socket(six), "sockets: IPv6 is not listed as IPv4");
	s6 = my_socket6(six);
	check(s6 && !memcmp(&s6->bound_addr, &own6.in6.sin6_addr, 16) && ntohs(s6->bound_port) == 4501,
	      "sockets: IPv6");
	s6 = my_socket6(fd);
	check(s6 && !memcmp(&s6->bound_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) &&
		      ntohs(s6->bound_port) == 4500,
	      "sockets: IPv4 is listed as IPv6, too");
	check(!my_socket(loose), "sockets: unbound is not listed as IPv4");
	close(fd);
	close(six);
	close(loose);
}

static void received_messages(void)
{
	int rx = rds_bound(HERE, HERE4, 4510), tx = rds_bound(HERE, HERE4, 4511), found = 0;
	struct addr to = addr_of(rx);
	struct rds_info_message *m = (void *)buf;
	int n;

	NEED(rds_send(tx, buf, 1234, &to, 0) == 1234);
	NEED(WAIT_UNTIL(SOON_MS, rds_recv(rx, buf, 1, NULL, MSG_PEEK | MSG_DONTWAIT) == 1));
	n = fetch(rx, RDS_INFO_RECV_MESSAGES, sizeof(*m));
	for (int i = 0; i < n; i++)
		found += m[i].len == 1234 && m[i].laddr == inet_addr(HERE4) && ntohs(m[i].lport) == 4510 &&
			 m[i].faddr == inet_addr(HERE4) && ntohs(m[i].fport) == 4511;
	EXPECT_EQ(found, 1, "received messages: the one that waits");
	NEED(rds_recv(rx, buf, 1, NULL, 0) == 1);
	EXPECT_EQ(fetch(rx, RDS_INFO_RECV_MESSAGES, sizeof(*m)), 0, "received messages: none when read");
	close(rx);
	close(tx);
}

/* To an address without a host, so that messages stay in the queue. */
static void sent_messages(void)
{
	int fd = rds_bound(HERE, HERE4, 4520), found = 0, addressed = 0;
	struct addr to = addr("10.99.99.99", 4521);
	struct rds_info_message *m = (void *)buf;
	struct rds_info_connection *c = (void *)buf;
	int n;

	NEED(rds_send(fd, buf, 100, &to, MSG_DONTWAIT) == 100 &&
	     rds_send(fd, buf, 200, &to, MSG_DONTWAIT) == 200);
	n = fetch(fd, RDS_INFO_SEND_MESSAGES, sizeof(*m));
	for (int i = 0; i < n; i++) {
		if ((m[i].len != 100 && m[i].len != 200) || ntohs(m[i].lport) != 4520 ||
		    ntohs(m[i].fport) != 4521)
			continue;
		found++;
		addressed += m[i].laddr == inet_addr(HERE4) && m[i].faddr == to.in4.sin_addr.s_addr;
	}
	EXPECT_EQ(found, 2, "sent messages: the two that wait");
	differs(addressed == 2, "info-message-addresses", "sent messages: from and to whom");
	n = fetch(fd, RDS_INFO_CONNECTIONS, sizeof(*c));
	found = 0;
	for (int i = 0; i < n; i++)
		found += c[i].laddr == inet_addr(HERE4) && c[i].faddr == to.in4.sin_addr.s_addr &&
			 !strcmp((char *)c[i].transport, "tcp") &&
			 !(c[i].flags & RDS_INFO_CONNECTION_FLAG_CONNECTED);
	EXPECT_EQ(found, 1, "connections: the one that cannot be made");
	NEED(setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &to.sa, to.len) == 0);
	n = fetch(fd, RDS_INFO_SEND_MESSAGES, sizeof(*m));
	found = 0;
	for (int i = 0; i < n; i++)
		found += ntohs(m[i].lport) == 4520;
	EXPECT_EQ(found, 0, "sent messages: none when cancelled");
	close(fd);
}

static int connected4(int fd, uint32_t from, uint32_t to, uint64_t *next_tx)
{
	struct rds_info_connection *c = (void *)buf;
	int n = fetch(fd, RDS_INFO_CONNECTIONS, sizeof(*c)), found = 0;

	*next_tx = 0;
	for (int i = 0; i < n; i++) {
		if (c[i].laddr == from && c[i].faddr == to && !strcmp((char *)c[i].transport, "tcp") &&
		    (c[i].flags & RDS_INFO_CONNECTION_FLAG_CONNECTED)) {
			if (c[i].next_tx_seq > *next_tx)
				*next_tx = c[i].next_tx_seq;
			found++;
		}
	}
	return found;
}

static int tcp_sockets4(int fd, uint32_t from, uint32_t to)
{
	struct rds_info_tcp_socket *t = (void *)buf;
	int n = fetch(fd, RDS_INFO_TCP_SOCKETS, sizeof(*t)), found = 0;

	for (int i = 0; i < n; i++)
		found += t[i].local_addr == from && t[i].peer_addr == to &&
			 (ntohs(t[i].local_port) == RDS_TCP_PORT || ntohs(t[i].peer_port) == RDS_TCP_PORT);
	return found;
}

static void connections(void)
{
	struct pair p = pair_new();
	int a = rds_bound(p.a, PAIR_A4, 0), b = rds_bound(p.b, PAIR_B4, 0);
	struct addr to = addr_of(b);
	uint32_t from = inet_addr(PAIR_A4), there = inet_addr(PAIR_B4);
	uint64_t next_tx = 0;

	NEED(rds_send(a, "x", 1, &to, 0) == 1 && rds_recv_soon(b, buf, 1, NULL) == 1);
	check(connected4(a, from, there, &next_tx) >= 1 && next_tx > 1, "connections: connected, and used");
	check(WAIT_UNTIL(SOON_MS, connected4(b, there, from, &next_tx) >= 1), "connections: seen from the other end");
	differs(WAIT_UNTIL(SOON_MS, connected4(a, from, there, &next_tx) == 8), "info-all-paths",
		"connections: a row for each path");
	check(WAIT_UNTIL(SOON_MS, tcp_sockets4(a, from, there) == 8), "tcp sockets: eight of a connection");
	check(WAIT_UNTIL(SOON_MS, tcp_sockets4(b, there, from) == 8), "tcp sockets: seen from the other end");
	differs_if(!kernel_before(6, 2), connected4(a, there, from, &next_tx) == 0, "info-namespace",
		   "connections: none of another namespace");
	differs_if(!kernel_before(6, 2), tcp_sockets4(a, there, from) == 0, "info-namespace",
		   "tcp sockets: none of another namespace");
	close(a);
	close(b);
	pair_delete(&p);
}

static void connections6(void)
{
	struct pair p = pair_new();
	int a = rds_bound(p.a, PAIR_A6, 0), b = rds_bound(p.b, PAIR_B6, 0), n, found = 0;
	struct addr to = addr_of(b), from = addr_of(a);
	struct rds6_info_connection *c = (void *)buf;
	struct rds6_info_tcp_socket *t = (void *)buf;

	NEED(rds_send(a, "x", 1, &to, 0) == 1 && rds_recv_soon(b, buf, 1, NULL) == 1);
	n = fetch(a, RDS6_INFO_CONNECTIONS, sizeof(*c));
	for (int i = 0; i < n; i++)
		found += !memcmp(&c[i].laddr, &from.in6.sin6_addr, 16) &&
			 !memcmp(&c[i].faddr, &to.in6.sin6_addr, 16) &&
			 (c[i].flags & RDS_INFO_CONNECTION_FLAG_CONNECTED);
	check(found >= 1, "connections: IPv6");
	n = fetch(a, RDS6_INFO_TCP_SOCKETS, sizeof(*t));
	found = 0;
	for (int i = 0; i < n; i++)
		found += !memcmp(&t[i].local_addr, &from.in6.sin6_addr, 16) &&
			 !memcmp(&t[i].peer_addr, &to.in6.sin6_addr, 16);
	check(found >= 1 && found <= 8, "tcp sockets: IPv6");
	close(a);
	close(b);
	pair_delete(&p);
}

int main(int argc, char **argv)
{
	int fd;

	ktap_start("rds info", argc, argv);
	here_addresses();
	fd = rds_bound(HERE, "127.0.0.1", 0);
	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		bad_arguments(fd, &items[i]);
		if (items[i].provided)
			protocol(fd, &items[i]);
		else
			not_provided(fd, &items[i]);
	}
	counters(fd);
	sockets();
	received_messages();
	sent_messages();
	connections();
	connections6();
	close(fd);
	return ktap_finish();
}
