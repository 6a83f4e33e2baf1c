// SPDX-License-Identifier: GPL-2.0
/*
 * Each allocation that a call makes fails once, and each of its copies to or from this program
 * (/proc/thread-self/fail-nth): the call works or returns the matching errno, a message that was reported as sent
 * arrives once, others never, and a message whose receive failed is still queued. The kernel's own checks
 * report leaks and corruption.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define FAULTS_MAX 2000
#define TX_PORT 4700
#define RX_PORT 4701

static int hunger;
static char out[MAX_MESSAGE], in[MAX_MESSAGE];

/* Makes the nth allocation or copy from now on fail; 0: none. It may be a copy of this very call. */
static void starve(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	while (pwrite(hunger, text, len, 0) != len)
		NEED(errno == EFAULT);
}

/* Ends it. True when the nth allocation or copy never happened. */
static bool fed(void)
{
	char text[16] = "";
	ssize_t n = pread(hunger, text, sizeof(text) - 1, 0);

	NEED(n > 0 || errno == EFAULT);
	starve(0);
	return n < 0 || atoi(text) != 0;
}

static bool expected(int error)
{
	return error == ENOMEM || error == ENOBUFS || error == EFAULT;
}

/* A way to send, and the state of its messages. */
struct way {
	const char *name;
	int tx, rx;
	struct addr to;
	size_t len;
	bool zerocopy;
	uint32_t number; /* of the next message */
};

static bool send_one(struct way *way)
{
	struct control c = { .len = 0 };

	memcpy(out, &way->number, sizeof(way->number));
	if (!way->zerocopy)
		return rds_send(way->tx, out, way->len, &way->to, 0) == (ssize_t)way->len;
	control_add(&c, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, &way->number, sizeof(way->number));
	return send_control(way->tx, out, way->len, &way->to, &c, MSG_ZEROCOPY) == (ssize_t)way->len;
}

/* The next message must be the one that was reported as sent. */
static bool arrived(const struct way *way)
{
	uint32_t number;
	ssize_t n = rds_recv_soon(way->rx, in, sizeof(in), NULL);

	memcpy(&number, in, sizeof(number));
	if (n != (ssize_t)way->len || number != way->number || memcmp(in + 4, out + 4, n - 4)) {
		note("%s: got %zd bytes, number %u, expected %zu, %u", way->name, n, number, way->len, way->number);
		return false;
	}
	return true;
}

static void take_cookies(struct way *way)
{
	struct control c;

	while (way->zerocopy && recv_control(way->tx, in, 1, &c, MSG_DONTWAIT, NULL) == 0)
		;
}

static void sending(struct way *way)
{
	unsigned int nth, failed = 0;
	bool right = true, done = false;

	for (nth = 1; right && !done && nth < FAULTS_MAX; nth++, way->number++) {
		bool sent;
		int error;

		starve(nth);
		sent = send_one(way);
		error = errno;
		done = fed();
		if (sent) {
			right = arrived(way);
		} else {
			failed++;
			right = !done && expected(error);
			if (!right)
				note("%s: fault %u: %s", way->name, nth, strerror(error));
		}
		take_cookies(way);
	}
	note("%s: %u faults, the call failed for %u", way->name, nth - 2, failed);
	check(right && done && nth > 2, "send: %s", way->name);
	/* Refused messages never arrive. */
	check(rds_recv(way->rx, in, sizeof(in), NULL, MSG_DONTWAIT) < 0 && errno == EAGAIN, "send: %s, nothing else",
	      way->name);
}

/* A message is consumed when all of it was copied, and stays otherwise. */
static void receiving(struct way *way)
{
	bool right = true, done = false;
	unsigned int nth;

	for (nth = 1; right && !done && nth < FAULTS_MAX; nth++, way->number++) {
		ssize_t n;
		int error;

		right = send_one(way) && polled(way->rx, POLLIN, SOON_MS);
		starve(nth);
		n = recv(way->rx, in, sizeof(in), MSG_DONTWAIT);
		error = errno;
		done = fed();
		take_cookies(way);
		if (right && n < 0) {
			right = !done && expected(error) && arrived(way);
			if (!right)
				note("%s: fault %u: %s", way->name, nth, strerror(error));
		} else {
			right = right && n == (ssize_t)way->len && !memcmp(in, out, n);
		}
	}
	note("%s: %u faults in receiving", way->name, nth - 2);
	check(right && done, "receive: %s", way->name);
}

/* Loopback and TCP, small and large, copied and pinned. */
static void ways(const struct pair *pair)
{
	int here_tx = rds_bound(pair->a, "127.0.0.1", TX_PORT), here_rx = rds_bound(pair->a, "127.0.0.1", RX_PORT);
	int tcp_tx = rds_bound(pair->a, PAIR_A4, TX_PORT), tcp_rx = rds_bound(pair->b, PAIR_B4, RX_PORT);
	struct addr here = addr("127.0.0.1", RX_PORT), there = addr(PAIR_B4, RX_PORT);
	struct way all[] = {
		{ "small, loopback", here_tx, here_rx, here, 100 },
		{ "large, loopback", here_tx, here_rx, here, 100000 },
		{ "small, TCP", tcp_tx, tcp_rx, there, 100 },
		{ "large, TCP", tcp_tx, tcp_rx, there, 100000 },
		{ "pinned, TCP", tcp_tx, tcp_rx, there, 20000, true },
	};

	/* The first use allocates memory; that is not tested here. */
	pattern_fill(out, sizeof(out), 1);
	memset(in, 1, sizeof(in));
	NEED(set_int(tcp_tx, SOL_SOCKET, SO_ZEROCOPY, 1) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		sending(&all[i]);
		receiving(&all[i]);
	}
	close(here_tx);
	close(here_rx);
	close(tcp_tx);
	close(tcp_rx);
}

/* Calls that may be repeated until no allocation fails. */
struct call {
	const char *name;
	long (*make)(int fd);
	void (*undo)(long result);
};

static long make_socket(int fd)
{
	(void)fd;
	return socket(AF_RDS, SOCK_SEQPACKET, 0);
}

static void close_it(long fd)
{
	close(fd);
}

static long make_bound(int fd)
{
	struct addr a = addr("127.0.0.1", TX_PORT + 2);
	int bound = socket(AF_RDS, SOCK_SEQPACKET, 0);

	(void)fd;
	if (bound < 0 || rds_bind(bound, &a) == 0)
		return bound;
	close(bound);
	return -1;
}

/* A new peer that does not answer: the call creates the connection. */
static long make_connection(int fd)
{
	static unsigned int peer;
	char text[32];
	struct addr a;

	snprintf(text, sizeof(text), "10.77.0.%u", 10 + peer++ % 240);
	a = addr(text, RX_PORT);
	return rds_send(fd, "x", 1, &a, MSG_DONTWAIT);
}

static long make_cancel(int fd)
{
	struct addr a = addr("10.77.0.10", RX_PORT);

	return setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &a.in4, sizeof(a.in4));
}

static long make_info(int fd)
{
	static const int items[] = { RDS_INFO_COUNTERS, RDS_INFO_CONNECTIONS, RDS_INFO_SEND_MESSAGES, RDS_INFO_SOCKETS,
				     RDS_INFO_TCP_SOCKETS, RDS6_INFO_CONNECTIONS, RDS6_INFO_SOCKETS };

	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		socklen_t len = sizeof(in);

		if (getsockopt(fd, SOL_RDS, items[i], in, &len) < 0)
			return -1;
	}
	return 0;
}

static long make_peek(int fd)
{
	struct control c;

	/* Without a message, but the call may still allocate memory. */
	return recv_control(fd, in, 1, &c, MSG_DONTWAIT, NULL) < 0 && errno == EAGAIN ? 0 : -1;
}

static const struct call calls[] = {
	{ "socket", make_socket, close_it }, { "socket and bind", make_bound, close_it },
	{ "send to a new peer", make_connection }, { "RDS_CANCEL_SENT_TO", make_cancel },
	{ "RDS_INFO", make_info }, { "recvmsg", make_peek },
};

static void calling(const struct call *call, int fd)
{
	bool right = true, done = false;
	unsigned int nth;

	for (nth = 1; right && !done && nth < FAULTS_MAX; nth++) {
		long result;
		int error;

		starve(nth);
		result = call->make(fd);
		error = errno;
		done = fed();
		if (result >= 0) {
			if (call->undo)
				call->undo(result);
		} else {
			/* socket() in general has its own errno for it. */
			right = !done && (expected(error) || (error == ENFILE && call->make == make_socket));
			right = right || (error == ENFILE && call->make == make_bound);
			if (!right)
				note("%s: fault %u: %s", call->name, nth, strerror(error));
		}
	}
	note("%s: %u faults", call->name, nth - 2);
	check(right && done, "%s", call->name);
}

int main(int argc, char **argv)
{
	struct pair pair;
	int fd;

	ktap_start("rds starve", argc, argv);
	hunger = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	NEED(hunger >= 0);
	pair = pair_new();
	ways(&pair);
	fd = rds_bound(pair.a, PAIR_A4, TX_PORT);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calling(&calls[i], fd);
	close(fd);
	pair_delete(&pair);
	close(hunger);
	return ktap_finish();
}
