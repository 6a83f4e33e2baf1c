// SPDX-License-Identifier: GPL-2.0
/*
 * Network namespaces act as hosts: each has its own addresses and ports, counters, settings, congestion and
 * connections, and all are removed at once with the namespace.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "netns.h"
#include "rds.h"
#include "task.h"
#include "util.h"

static char buf[8192];

static int try_bind(int ns, const char *text, uint16_t port)
{
	struct addr a = addr(text, port);
	int fd = rds_socket(ns);

	if (rds_bind(fd, &a) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The same address in two namespaces is two addresses. */
static void bind_table(void)
{
	static const char *const texts[] = { "127.0.0.1", "::1", HERE4, HERE6 };
	int one = netns_new(), two = netns_new();

	for (int i = 0; i < 2; i++) {
		net_address(i ? two : one, "lo", HERE4 "/32", true);
		net_address(i ? two : one, "lo", HERE6 "/128", true);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int a = try_bind(one, texts[i], 4600), b = try_bind(two, texts[i], 4600), c;
		struct addr to = addr(texts[i], 4600);
		bool right = false;

		NEED(a >= 0);
		differs(b >= 0, "namespace-bind", "bind: %s in two namespaces", texts[i]);
		c = try_bind(two, texts[i], 4601);
		NEED(c >= 0);
		if (b >= 0) {
			NEED(rds_send(c, "x", 1, &to, 0) == 1);
			right = rds_recv_soon(b, buf, 1, NULL) == 1;
		}
		right = right && rds_recv(a, buf, 1, NULL, MSG_DONTWAIT) < 0 && errno == EAGAIN;
		differs(right, "namespace-bind", "bind: %s receives what its own namespace sent", texts[i]);
		close(a);
		close(b);
		close(c);
	}
	close(one);
	close(two);
}

static void counters(void)
{
	int one = netns_new(), two = netns_new(), fd = rds_bound(one, "127.0.0.1", 0);
	struct addr self = addr_of(fd);
	uint64_t own = rds_counter(one, "recv_queued"), other = rds_counter(two, "recv_queued");

	NEED(rds_send(fd, "x", 1, &self, 0) == 1 && rds_recv_soon(fd, buf, 1, NULL) == 1);
	check(rds_counter(one, "recv_queued") > own, "counters: count in the namespace");
	differs(rds_counter(two, "recv_queued") == other, "namespace-counters",
		"counters: not in another one");
	close(fd);
	close(one);
	close(two);
}

/* A program sees the settings of its own namespace. */
static bool setting_is(int ns, const char *path, const char *want)
{
	int home = netns_self();
	char got[64] = "none";

	netns_enter(ns);
	read_file(path, got, sizeof(got));
	netns_enter(home);
	close(home);
	return !strcmp(got, want);
}

int set_setting(int ns, const char *path, const char *value)
{
	int home = netns_self(), ret;

	netns_enter(ns);
	ret = write_file(path, value);
	netns_enter(home);
	close(home);
	return ret;
}

static void settings(void)
{
	static const struct {
		const char *path, *first, *changed;
	} core[] = {
		{ SETTINGS "reconnect_min_delay_ms", "4", "8" },
		{ SETTINGS "reconnect_max_delay_ms", "1000", "2000" },
		{ SETTINGS "max_unacked_packets", "8", "9" },
		{ SETTINGS "max_unacked_bytes", "16777216", "5" },
		{ SETTINGS "ping_enable", "1", "0" },
	};
	int one = netns_new(), two = netns_new();

	for (size_t i = 0; i < ARRAY_SIZE(core); i++)
		differs(set_setting(one, core[i].path, core[i].changed) == 0 &&
				setting_is(one, core[i].path, core[i].changed) &&
				setting_is(two, core[i].path, core[i].first),
			"namespace-sysctl", "sysctl: %s is the namespace's own", core[i].path);
	check(set_setting(one, SETTINGS "tcp/rds_tcp_sndbuf", "100000") == 0 &&
		      setting_is(one, SETTINGS "tcp/rds_tcp_sndbuf", "100000") &&
		      setting_is(two, SETTINGS "tcp/rds_tcp_sndbuf", "0"),
	      "sysctl: TCP's send buffer is the namespace's own");
	check(set_setting(one, SETTINGS "tcp/rds_tcp_rcvbuf", "100000") == 0 &&
		      setting_is(one, SETTINGS "tcp/rds_tcp_rcvbuf", "100000") &&
		      setting_is(two, SETTINGS "tcp/rds_tcp_rcvbuf", "0"),
	      "sysctl: TCP's receive buffer is the namespace's own");
	close(one);
	close(two);
}

static int listed_sockets(int ns, uint16_t port)
{
	static struct rds_info_socket s[200];
	socklen_t len = sizeof(s);
	int fd = rds_socket(ns), found = 0;

	NEED(getsockopt(fd, SOL_RDS, RDS_INFO_SOCKETS, s, &len) == sizeof(s[0]));
	for (size_t i = 0; i < len / sizeof(s[0]); i++)
		found += ntohs(s[i].bound_port) == port;
	close(fd);
	return found;
}

static void info(void)
{
	int one = netns_new(), two = netns_new(), fd = rds_bound(one, "127.0.0.1", 4610);

	EXPECT_EQ(listed_sockets(one, 4610), 1, "info: a socket is listed in its namespace");
	differs_if(!kernel_before(6, 2), listed_sockets(two, 4610) == 0, "info-namespace",
		   "info: and not in another one");
	close(fd);
	close(one);
	close(two);
}

/* Two pairs of hosts that use the same addresses, as containers do. */
static void same_addresses(void)
{
	struct pair p = pair_new(), q = pair_new();
	int pa = rds_bound(p.a, PAIR_A4, 4620), pb = rds_bound(p.b, PAIR_B4, 4621);
	int qa = rds_bound(q.a, PAIR_A4, 4630), qb = rds_bound(q.b, PAIR_B4, 4631), sent, strays = 0;
	struct addr to_p = addr(PAIR_B4, 4621), to_q = addr(PAIR_B4, 4631), wrong = addr(PAIR_B4, 4621);

	NEED(rds_send(pa, "p", 1, &to_p, 0) == 1 && rds_send(qa, "qq", 2, &to_q, 0) == 2);
	EXPECT_EQ(rds_recv_soon(pb, buf, 10, NULL), 1, "same addresses: the first pair's message");
	EXPECT_EQ(rds_recv_soon(qb, buf, 10, NULL), 2, "same addresses: the second pair's message");
	NEED(rds_send(qa, "stray", 5, &wrong, 0) == 5);
	/* Then the port of the first pair is congested, which the second one's host does not even have. */
	NEED(set_int(pb, SOL_SOCKET, SO_RCVBUF, 8000) == 0);
	NEED(WAIT_UNTIL(SOON_MS, rds_send(pa, buf, 4000, &to_p, MSG_DONTWAIT) < 0 && errno == ENOBUFS));
	sent = rds_send(qa, "more", 4, &wrong, MSG_DONTWAIT);
	differs(sent == 4, "namespace-congestion", "same addresses: congestion is the pair's own");
	while (rds_recv(pb, buf, sizeof(buf), NULL, MSG_DONTWAIT) > 0)
		strays += !memcmp(buf, "stray", 5);
	differs_if(!kernel_before(6, 2), strays == 0, "namespace-stray",
		   "same addresses: nothing strays from pair to pair");
	close(pa);
	close(pb);
	close(qa);
	close(qb);
	pair_delete(&p);
	pair_delete(&q);
}

/*
 * The end of a namespace removes its end of a link, and so the other end, which is here. The namespace's
 * descriptor and all sockets in it must be closed first: those hold a reference.
 */
/* At once: less than it takes to find that a peer is dead, whatever the machine's speed. */
#define GONE_MS (stretched(5000) < 9000 ? stretched(5000) : 9000)

static bool vanishes(int ms)
{
	return WAIT_UNTIL(ms, net_index(HERE, "watch") == 0);
}

static int watched_namespace(void)
{
	int ns = netns_new();

	net_veth(HERE, "watch", ns, "watched");
	return ns;
}

static void leaves_alone(void)
{
	int ns = watched_namespace(), fd = rds_bound(ns, "127.0.0.1", 0);
	struct addr self = addr_of(fd);

	NEED(rds_send(fd, "x", 1, &self, 0) == 1 && rds_recv_soon(fd, buf, 1, NULL) == 1);
	NEED(rds_send(fd, "unread", 6, &self, 0) == 6);
	close(ns);
	nap_us(300000);
	check(net_index(HERE, "watch"), "end: a socket holds its namespace");
	close(fd);
	check(vanishes(SOON_MS), "end: a namespace without connections goes with its last socket");
}

static void *keep_sending(void *arg)
{
	struct addr to = addr(PAIR_A4, 4640);
	int fd = *(int *)arg;

	/* Runs until another thread closes the socket. */
	while (rds_send(fd, buf, 1000, &to, MSG_DONTWAIT) > 0 || errno == EAGAIN || errno == ENOBUFS)
		nap_us(100);
	return NULL;
}

/* A pair of linked hosts, one of which will be removed. */
static int doomed_host(int other)
{
	int ns = watched_namespace();

	net_veth(other, "to", ns, "pair");
	net_address(other, "to", PAIR_A4 "/24", true);
	net_address(ns, "pair", PAIR_B4 "/24", true);
	return ns;
}

static bool reaches(int from, const struct addr *to, int fd)
{
	return rds_send(from, "again", 5, to, MSG_DONTWAIT) == 5 &&
	       WAIT_UNTIL(500, rds_recv(fd, buf, sizeof(buf), NULL, MSG_DONTWAIT) == 5);
}

static void with_traffic(void)
{
	int other = netns_new(), ns = doomed_host(other), a = rds_bound(other, PAIR_A4, 4640);
	int b = rds_bound(ns, PAIR_B4, 4641), deaf = rds_bound(other, PAIR_A4, 4642);
	struct addr to = addr(PAIR_B4, 4641);
	pthread_t thread;
	bool gone;

	for (int i = 0; i < 20; i++)
		NEED(rds_send(a, buf, 1000, &to, 0) == 1000 &&
		     rds_recv_soon(b, buf, sizeof(buf), NULL) == 1000);
	NEED(pthread_create(&thread, NULL, keep_sending, &b) == 0);
	nap_us(200000);
	/* A duplicate keeps the number from being used again while the thread still sends. */
	NEED(dup2(open("/dev/null", 2), b) == b);
	NEED(pthread_join(thread, NULL) == 0);
	close(ns);
	gone = vanishes(GONE_MS);
	differs(gone, "namespace-exit", "end: a namespace with live connections and traffic ends at once");
	if (gone) {
		/* A new host with the old address must be reached as usual. */
		ns = doomed_host(other);
		b = rds_bound(ns, PAIR_B4, 4641);
		while (rds_recv(a, buf, sizeof(buf), NULL, MSG_DONTWAIT) > 0)
			;
		check(WAIT_UNTIL(SOON_MS, reaches(a, &to, b)),
		      "end: its successor is reached at the same address");
		close(ns);
		close(b);
	}
	close(a);
	close(deaf);
	close(other);
}

/* Repeated, so that leaks become visible. */
static void many(void)
{
	int gone = 0;

	for (int i = 0; i < 10; i++) {
		int other = netns_new(), ns = doomed_host(other), b = rds_bound(ns, PAIR_B4, 4641);
		struct addr to = addr(PAIR_A4, 4640);

		/* Half of them in the middle of connecting. */
		NEED(rds_send(b, buf, 1000, &to, MSG_DONTWAIT) == 1000);
		if (i % 2)
			nap_us(50000);
		close(b);
		close(ns);
		gone += vanishes(GONE_MS);
		close(other);
		if (gone <= i)
			break;
	}
	differs(gone == 10, "namespace-exit", "end: ten namespaces in a row, half of them while connecting");
}

int main(int argc, char **argv)
{
	ktap_start("rds netns", argc, argv);
	bind_table();
	counters();
	settings();
	info();
	netns_buffers();
	same_addresses();
	leaves_alone();
	with_traffic();
	net_delete(HERE, "watch");
	many();
	return ktap_finish();
}
