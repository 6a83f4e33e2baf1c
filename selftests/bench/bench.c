// SPDX-License-Identifier: GPL-2.0
//
// Cost of a message: the same two loops over RDS, over TCP, and over sequential packets of AF_UNIX, which has no addresses.
//
//   bench server tcp|rds|rds-batch|rds-many|unix MINE PORT
//   bench client tcp|rds|rds-batch|rds-many|unix MINE PORT PEER ROUND SCALE [large]
//
// rds-batch: streams of up to 1 KiB with 64 messages in a call, by sendmmsg() and recvmmsg(). rds-many: the same with 64 KiB in a
// call, by RDS_CMSG_LENGTHS; nothing where RDS does not have it.
//
// The client runs all cells and prints a line for each:
//
//   cell PROTOCOL MODE SIZE ROUND MESSAGES NS IDLE_NS SENT RECEIVED
//
// large: one more cell, messages of 1 MiB with buffers for them.
//
// rr is a round trip of one message each way at a time, counted as one. stream is messages one way, as fast as they go,
// and one answer to the last. In a machine whose clock counts instructions (QEMU -icount shift=0), NS less IDLE_NS is
// instructions. IDLE_NS is time that the processors of this machine slept. SENT and RECEIVED are packets that crossed a
// link of this namespace.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "clock.h"
#include "many.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum {
	LARGEST = 1 << 20,
	LARGE_BUFFER = 4 << 20,
	USUAL = 65536,		// larger messages need larger buffers
	WARM_UP = 24,		// round trips before the marks: connections are up, windows open
	MANY_LARGEST = 1024,	// message of rds-batch and rds-many
	CELL_SECONDS = 30,	// one that takes longer is stuck
	EXIT_STUCK = 3,
};

enum mode { RR = 1, STREAM, QUIT };

// The client's request to the server, in a message of its own.
struct order {
	uint32_t mode, size, messages;
};

static const struct cell {
	enum mode mode;
	uint32_t size, messages;
} cells[] = {
	{ RR, 64, 400 },     { RR, 1024, 400 },	      { RR, 8192, 400 },      { RR, 65536, 200 },
	{ STREAM, 64, 3000 }, { STREAM, 1024, 3000 }, { STREAM, 8192, 2000 }, { STREAM, 65536, 500 },
	{ STREAM, LARGEST, 60 },
};

static enum { TCP, RDS, RDS_BATCH, RDS_MANY, UNIX, PROTOCOLS } protocol;
static const char *const protocol_names[] = { "tcp", "rds", "rds-batch", "rds-many", "unix" };
static int fd = -1;
static struct sockaddr_in peer;
static char buffer[LARGEST];
static char now_running[128];

static void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_rds(void)
{
	return protocol == RDS || protocol == RDS_BATCH || protocol == RDS_MANY;
}

static bool is_many_a_call(void)
{
	return protocol == RDS_BATCH || protocol == RDS_MANY;
}

static struct sockaddr_in address_of(const char *ip, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, ip, &address.sin_addr) != 1)
		die(ip);
	return address;
}

static void send_message(const void *data, size_t size)
{
	const char *at = data;

	if (is_rds()) {
		if (sendto(fd, data, size, 0, (struct sockaddr *)&peer, sizeof(peer)) != (ssize_t)size)
			die("sendto");
		return;
	}
	while (size) {
		ssize_t sent = send(fd, at, size, 0);

		if (sent <= 0)
			die("send");
		at += sent;
		size -= sent;
	}
}

// One message of exactly size bytes. Its sender becomes the peer.
static void receive_message(void *data, size_t size)
{
	socklen_t length = sizeof(peer);
	ssize_t got = is_rds() ? recvfrom(fd, data, size, 0, (struct sockaddr *)&peer, &length) :
				 recv(fd, data, size, MSG_WAITALL);

	if (got != (ssize_t)size)
		die("receive");
}

static void send_many(size_t size, size_t count)
{
	struct sockaddr *to = (struct sockaddr *)&peer;

	if (protocol == RDS_BATCH ? !batch_send_all(fd, to, sizeof(peer), size, count) :
				    !many_send_all(MANY_OF_RDS, fd, to, sizeof(peer), size, count))
		die("send many messages");
}

static void receive_many(size_t size, size_t count)
{
	if (protocol == RDS_BATCH ? !batch_receive_all(fd, size, count) : !many_receive_all(MANY_OF_RDS, fd, size, count))
		die("receive many messages");
}

static void open_socket(struct sockaddr_in mine)
{
	int on = 1;

	fd = is_rds() ? socket(AF_RDS, SOCK_SEQPACKET, 0) : socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	if (protocol == TCP && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die("SO_REUSEADDR");
	if (bind(fd, (struct sockaddr *)&mine, sizeof(mine)))
		die("bind");
}

/* Has fd listen, or connect, under a name of its own in the namespace. */
static void open_unix_socket(bool server, const char *port)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 +
			   snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "bench-%s", port);

	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (fd < 0)
		die("socket");
	if (server ? bind(fd, (struct sockaddr *)&name, length) : connect(fd, (struct sockaddr *)&name, length))
		die(server ? "bind" : "connect");
}

static void no_delay(void)
{
	int on = 1;

	if (protocol == TCP && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("TCP_NODELAY");
}

static void large_buffers(void)
{
	int size = LARGE_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		die("SO_SNDBUFFORCE, SO_RCVBUFFORCE");
}

static void round_trips(uint32_t size, uint32_t count)
{
	while (count--) {
		send_message(buffer, size);
		receive_message(buffer, size);
	}
}

static void serve(void)
{
	struct order order;

	for (;;) {
		receive_message(&order, sizeof(order));
		if (order.mode == QUIT)
			return;
		if (order.size > LARGEST)
			die("size");
		if (order.size > USUAL)
			large_buffers();
		if (is_many_a_call() && order.mode == STREAM) {
			receive_many(order.size, order.messages);
			order.messages = 0;
		}
		for (uint32_t i = 0; i < order.messages; i++) {
			receive_message(buffer, order.size);
			if (order.mode == RR)
				send_message(buffer, order.size);
		}
		if (order.mode == STREAM)
			send_message(buffer, 1);
	}
}

struct packets {
	unsigned long long sent, received;
};

static struct packets packets(void)
{
	FILE *file = fopen("/proc/self/net/dev", "r");
	struct packets sum = { 0 };
	char line[512], name[32];

	if (!file)
		die("/proc/self/net/dev");
	while (fgets(line, sizeof(line), file)) {
		unsigned long long in, out;

		// NAME: bytes packets and six more received, then bytes packets sent.
		if (sscanf(line, " %31[^:]: %*u %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &in, &out) == 3 &&
		    strcmp(name, "lo")) {
			sum.received += in;
			sum.sent += out;
		}
	}
	fclose(file);
	return sum;
}

static void stuck(int signal)
{
	(void)signal;
	if (write(STDOUT_FILENO, now_running, strlen(now_running)) < 0)
		_exit(1);
	_exit(EXIT_STUCK);
}

static void run_cell(const struct cell *cell, const char *round, uint32_t scale)
{
	struct order warm = { RR, cell->size, WARM_UP };
	struct order order = { cell->mode, cell->size, cell->messages * scale };
	const char *name = protocol_names[protocol], *mode = cell->mode == RR ? "rr" : "stream";
	struct packets before, after;
	uint64_t ns, idle;

	if (cell->size > USUAL)
		large_buffers();
	snprintf(now_running, sizeof(now_running), "stuck %s %s %u %s\n", name, mode, cell->size, round);
	alarm(CELL_SECONDS);
	send_message(&warm, sizeof(warm));
	round_trips(cell->size, WARM_UP);
	send_message(&order, sizeof(order));
	before = packets();
	idle = idle_ns();
	ns = now_ns();
	MARK_BEGIN();
	if (cell->mode == RR) {
		round_trips(order.size, order.messages);
	} else if (is_many_a_call()) {
		send_many(order.size, order.messages);
		receive_message(buffer, 1);
	} else {
		for (uint32_t i = 0; i < order.messages; i++)
			send_message(buffer, order.size);
		receive_message(buffer, 1);
	}
	MARK_END();
	ns = now_ns() - ns;
	idle = idle_ns() - idle;
	after = packets();
	alarm(0);
	printf("cell %s %s %u %s %u %llu %llu %llu %llu\n", name, mode, cell->size, round, order.messages,
	       (unsigned long long)ns, (unsigned long long)idle, after.sent - before.sent,
	       after.received - before.received);
	fflush(stdout);
}

static void run_client(const char *round, uint32_t scale, bool large)
{
	struct order quit = { .mode = QUIT };

	signal(SIGALRM, stuck);
	for (size_t i = 0; i < ARRAY_SIZE(cells) && (large || cells[i].size <= USUAL); i++)
		if (!is_many_a_call() || (cells[i].mode == STREAM && cells[i].size <= MANY_LARGEST))
			run_cell(&cells[i], round, scale);
	send_message(&quit, sizeof(quit));
	if (is_rds())
		usleep(100000);	// closing would cancel it
}

static void accept_one(void)
{
	int listener = fd;

	if (listen(listener, 1))
		die("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept");
	close(listener);
}

static void run_server(const char *mine, const char *port)
{
	if (protocol == UNIX)
		open_unix_socket(true, port);
	else
		open_socket(address_of(mine, port));
	if (!is_rds())
		accept_one();
	no_delay();
	if (protocol == RDS_MANY && !many_begin(MANY_OF_RDS, fd))
		return;
	serve();
}

static void connect_to(const char *mine, const char *port, const char *to)
{
	if (protocol == UNIX) {
		open_unix_socket(false, port);
		return;
	}
	open_socket(address_of(mine, is_rds() ? port : "0"));
	peer = address_of(to, port);
	if (protocol == TCP && connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
		die("connect");
	no_delay();
}

int main(int argc, char **argv)
{
	bool server = argc > 1 && !strcmp(argv[1], "server"), large = argc > 2 && !strcmp(argv[argc - 1], "large");

	while (argc > 2 && protocol < PROTOCOLS && strcmp(argv[2], protocol_names[protocol]))
		protocol++;
	if (argc - large != (server ? 5 : 8) || protocol == PROTOCOLS) {
		fprintf(stderr, "usage: bench server tcp|rds|rds-batch|rds-many|unix MINE PORT\n"
				"       bench client tcp|rds|rds-batch|rds-many|unix MINE PORT PEER ROUND SCALE [large]\n");
		return 2;
	}
	if (server) {
		run_server(argv[3], argv[4]);
		return 0;
	}
	connect_to(argv[3], argv[4], argv[5]);
	if (protocol == RDS_MANY && !many_begin(MANY_OF_RDS, fd))
		return 0;
	run_client(argv[6], atoi(argv[7]), large);
	return 0;
}
