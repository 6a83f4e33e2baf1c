// SPDX-License-Identifier: GPL-2.0
/*
 * Between two hosts: a server that sends every message back, and a client that checks them. One
 * more port of the server is not read until the client requests it, for congestion.
 */
#include "data.h"

#include <poll.h>

#define PORTS 4
#define FIRST_PORT 5001
#define LAZY_PORT 5100
#define WINDOW 8
#define THOUSANDS 3000

/* Commands on the first port; answered like other messages. */
#define HELLO "hello"
#define DRAIN "drain"
#define QUIT "quit"
#define MET "met"

static bool is(const char *order, ssize_t n)
{
	return n == (ssize_t)strlen(order) && !memcmp(in_buf, order, n);
}

static void drain(const int *lazy)
{
	for (int f = 0; f < 2; f++)
		while (rds_recv(lazy[f], out_buf, sizeof(out_buf), NULL, MSG_DONTWAIT) >= 0)
			;
}

int hosts_serve(int argc, char **argv)
{
	struct pollfd p[2 * PORTS];
	int lazy[2], echoed = 0, failed = 0, quits = 0;

	NEED(argc == 2);
	for (int i = 0; i < 2 * PORTS; i++) {
		p[i] = (struct pollfd){ rds_bound(HERE, argv[i / PORTS], FIRST_PORT + i % PORTS), POLLIN };
		room_for_big(p[i].fd);
	}
	for (int f = 0; f < 2; f++) {
		lazy[f] = rds_bound(HERE, argv[f], LAZY_PORT);
		NEED(set_int(lazy[f], SOL_SOCKET, SO_RCVBUF, 16000) == 0);
	}
	while (!quits && poll(p, ARRAY_SIZE(p), stretched(60000)) > 0) {
		for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
			struct addr from;
			ssize_t n;

			while ((n = rds_recv(p[i].fd, in_buf, sizeof(in_buf), &from, MSG_DONTWAIT)) >= 0) {
				if (i % PORTS == 0 && is(DRAIN, n))
					drain(lazy);
				quits += i % PORTS == 0 && is(QUIT, n);
				failed += rds_send(p[i].fd, in_buf, n, &from, 0) != n;
				echoed++;
			}
		}
	}
	EXPECT_EQ(quits, 1, "server: the client came to its end");
	check(echoed > 2 * THOUSANDS, "server: echoed thousands of messages");
	EXPECT_EQ(failed, 0, "server: every answer could be sent");
	/* The last answer must be acknowledged, or closing would cancel it. */
	nap_us(stretched(2000) * 1000);
	return ktap_finish();
}

struct client {
	const char *family, *own, *peer;
	int fd[PORTS];
};

static struct addr server(const struct client *c, int i)
{
	return addr(c->peer, FIRST_PORT + i);
}

static bool order(const struct client *c, const char *what)
{
	struct addr to = server(c, 0);

	return rds_send(c->fd[0], what, strlen(what), &to, 0) == (ssize_t)strlen(what) &&
	       rds_recv_soon(c->fd[0], in_buf, sizeof(in_buf), NULL) == (ssize_t)strlen(what);
}

/* The server may not be bound yet; messages to it would be dropped. */
static void meet(const struct client *c)
{
	struct addr to = server(c, 0);
	int64_t until = now_ms() + stretched(60000);
	int hellos = 0;
	ssize_t n;

	do {
		if (rds_send(c->fd[0], HELLO, strlen(HELLO), &to, MSG_DONTWAIT) > 0)
			hellos++;
	} while (!WAIT_UNTIL(500, rds_recv(c->fd[0], in_buf, 100, NULL, MSG_PEEK | MSG_DONTWAIT) > 0) &&
		 now_ms() < until);
	check(hellos && rds_recv_soon(c->fd[0], in_buf, 100, NULL) > 0, "hosts: the server answers, %s",
	      c->family);
	/* The answers to the other hellos come before this one's; on another path perhaps a little later. */
	NEED(rds_send(c->fd[0], MET, strlen(MET), &to, 0) == (ssize_t)strlen(MET));
	while ((n = rds_recv_soon(c->fd[0], in_buf, 100, NULL)) > 0 && !is(MET, n))
		;
	nap_us(1000000);
	while (rds_recv(c->fd[0], in_buf, 100, NULL, MSG_DONTWAIT) > 0)
		;
}

static bool echo(const struct client *c, int i, size_t len)
{
	struct addr to = server(c, i), from;
	ssize_t n;

	pattern_fill(out_buf, len, len);
	memset(in_buf, 0, len);
	if (rds_send(c->fd[i], out_buf, len, &to, 0) != (ssize_t)len)
		return false;
	n = rds_recv_soon(c->fd[i], in_buf, sizeof(in_buf), &from);
	return n == (ssize_t)len && pattern_matches(in_buf, len, len) && addr_same(&from, &to);
}

static void sizes(const struct client *c)
{
	static const size_t corners[] = {
		0, 48, 96, 4048, 4096, 8192, 65488, 65536, 131072, MAX_MESSAGE - 1
	};
	struct random r = { 11 };
	bool ok = true;

	for (size_t i = 0; ok && i < ARRAY_SIZE(corners); i++)
		for (size_t off = 0; ok && off < 2; off++)
			ok = echo(c, i % PORTS, corners[i] + off) &&
			     (!corners[i] || echo(c, i % PORTS, corners[i] - 1));
	check(ok, "hosts: sizes from 0 to 1 MiB, %s", c->family);
	for (int i = 0; ok && i < 30; i++)
		ok = echo(c, i % PORTS, random_below(&r, 1UL << random_below(&r, 21)));
	check(ok, "hosts: sizes at random, %s", c->family);
}

static size_t nth_length(uint32_t n)
{
	struct random r = { n };

	return 8 + random_below(&r, 1UL << random_below(&r, 14));
}

static bool send_nth(const struct client *c, int i, uint32_t n)
{
	struct addr to = server(c, i);
	size_t len = nth_length(n);

	pattern_fill(out_buf, len, n);
	return rds_send(c->fd[i], out_buf, len, &to, 0) == (ssize_t)len;
}

/* A window of outstanding messages on each socket; the nth answer must be the nth message. */
static void thousands(const struct client *c)
{
	uint32_t sent[PORTS] = { 0 }, got = 0;
	bool ok = true;

	for (int i = 0; i < PORTS; i++)
		while (ok && sent[i] < WINDOW)
			ok = send_nth(c, i, i * 1000000 + sent[i]++);
	for (uint32_t n = 0; ok && got < THOUSANDS; n++) {
		for (int i = 0; ok && i < PORTS; i++, got++) {
			size_t len = nth_length(i * 1000000 + n);

			ok = rds_recv_soon(c->fd[i], in_buf, sizeof(in_buf), NULL) == (ssize_t)len &&
			     pattern_matches(in_buf, len, i * 1000000 + n);
			if (ok && sent[i] < THOUSANDS / PORTS)
				ok = send_nth(c, i, i * 1000000 + sent[i]++);
		}
	}
	check(ok, "hosts: %d messages in order and whole, %s", THOUSANDS, c->family);
}

static long send_lazy(void *arg)
{
	struct client *c = arg;
	struct addr to = addr(c->peer, LAZY_PORT);

	return rds_send(c->fd[1], out_buf, 4000, &to, 0);
}

static void congestion(struct client *c)
{
	struct addr to = addr(c->peer, LAZY_PORT);
	struct task t;
	int64_t until;
	bool in_time;

	check(WAIT_UNTIL(SOON_MS,
			 rds_send(c->fd[1], out_buf, 4000, &to, MSG_DONTWAIT) < 0 && errno == ENOBUFS),
	      "hosts: a full receiver causes ENOBUFS, %s", c->family);
	set_timeout_ms(c->fd[1], SO_SNDTIMEO, 300);
	task_start(&t, send_lazy, c);
	in_time = task_finished(&t, stretched(2000));
	if (!in_time)
		task_signal(&t);
	in_time = task_join(&t) < 0 && errno == ETIMEDOUT && in_time;
	differs(in_time, "congestion-timeout", "hosts: SO_SNDTIMEO ends a wait for congestion, %s",
		c->family);
	set_timeout_ms(c->fd[1], SO_SNDTIMEO, 0);
	task_start(&t, send_lazy, c);
	check(task_blocked(&t), "hosts: a sender waits for room, %s", c->family);
	/* Again and again: what was on its way at the first time fills the receiver once more. */
	until = now_ms() + SOON_MS;
	do
		NEED(order(c, DRAIN));
	while (!task_finished(&t, 100) && now_ms() < until);
	check(task_finished(&t, 0), "hosts: room there wakes it here, %s", c->family);
	EXPECT_EQ(task_join(&t), 4000, "hosts: and the message is sent, %s", c->family);
	NEED(order(c, DRAIN));
}

static void ping(const struct client *c)
{
	struct addr zero = addr(c->peer, 0), from;

	NEED(rds_send(c->fd[2], NULL, 0, &zero, 0) == 0);
	check(rds_recv_soon(c->fd[2], in_buf, 1, &from) == 0 && addr_same(&from, &zero), "hosts: ping, %s",
	      c->family);
}

int hosts_client(int argc, char **argv)
{
	struct client c[2] = { { .family = "IPv4" }, { .family = "IPv6" } };

	NEED(argc == 4);
	for (int f = 0; f < 2; f++) {
		c[f].own = argv[2 * f];
		c[f].peer = argv[2 * f + 1];
		for (int i = 0; i < PORTS; i++) {
			c[f].fd[i] = rds_bound(HERE, c[f].own, 0);
			room_for_big(c[f].fd[i]);
		}
		meet(&c[f]);
		sizes(&c[f]);
		thousands(&c[f]);
		ping(&c[f]);
		congestion(&c[f]);
	}
	check(order(&c[0], QUIT), "hosts: the server ends");
	return ktap_finish();
}
