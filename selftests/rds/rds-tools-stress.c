// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of rds-tools' rds-stress, as strictly as that program has it: the peer in tests of hawser's rds-stress. Each
 * message must be the next one, with the addresses, ports and place that are expected, or this fails.
 *
 *   rds-tools-stress -r local [-s remote -t tasks -d depth -q bytes -a bytes -T seconds -o -v -Q tos] -p port
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef AF_RDS
#define AF_RDS 21
#endif
#define HEADER 63
#define MAX_TASKS 8
#define MAX_DEPTH 64
#define MAX_BYTES 65536

enum { REQUEST = 1, ACK = 2 };

/* What a local task and a remote one have exchanged. */
struct pair {
	struct sockaddr_in here, there;
	uint32_t sent, received;
	unsigned int sent_place, received_place, pending, unacked;
};

static struct {
	uint32_t depth, request_bytes, ack_bytes, seconds, local, remote;
	unsigned int port, tasks, verify, one_way, tos;
	bool active;
} with = { .depth = 1, .request_bytes = 1024, .ack_bytes = HEADER, .port = 4000, .tasks = 1, .seconds = 1 };
static struct pair pairs[MAX_TASKS][MAX_TASKS];
static int fds[MAX_TASKS];
static unsigned char pattern[MAX_BYTES];
static unsigned long requests_in, acks_in;

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(1);
}

static void put(unsigned char **to, uint64_t value, unsigned int bytes)
{
	while (bytes--)
		*(*to)++ = (unsigned char)(value >> 8 * bytes);
}

static uint64_t take(const unsigned char **from, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *(*from)++;
	return value;
}

static void read_all(int fd, void *to, size_t size)
{
	while (size) {
		ssize_t got = read(fd, to, size);

		if (got <= 0)
			fail("the control connection has ended early");
		to = (char *)to + got;
		size -= (size_t)got;
	}
}

/* ---- Options ---- */

static void send_options(int fd)
{
	unsigned char wire[16 + 59 + 2] = "2.0.7", *at = wire + 16;

	put(&at, with.depth, 4);
	put(&at, with.request_bytes, 4);
	put(&at, with.ack_bytes, 4);
	put(&at, 0, 4);
	put(&at, with.remote, 4);
	put(&at, with.local, 4);
	put(&at, with.port, 2);
	put(&at, with.tasks, 2);
	put(&at, with.seconds, 4);
	put(&at, 0, 3);
	put(&at, with.verify, 1);
	put(&at, 0, 2);
	put(&at, 1, 1); /* monitors congestion */
	put(&at, 0, 2);
	put(&at, 1, 1); /* fences */
	put(&at, 0, 3);
	put(&at, with.one_way, 1);
	put(&at, 0, 1);
	put(&at, 1, 4); /* buffers of an operation */
	put(&at, 0, 8);
	put(&at, with.tos, 1);
	put(&at, 0, 1);
	if (write(fd, with.tos ? wire : wire + 16, with.tos ? sizeof(wire) : 59) < 59)
		fail("the options are not sent");
}

static void read_options(int fd)
{
	unsigned char wire[59];
	const unsigned char *at = wire;

	read_all(fd, wire, sizeof(wire));
	with.depth = (uint32_t)take(&at, 4);
	with.request_bytes = (uint32_t)take(&at, 4);
	with.ack_bytes = (uint32_t)take(&at, 4);
	if (take(&at, 4))
		fail("operations of RDMA are wanted");
	take(&at, 4);
	with.remote = (uint32_t)take(&at, 4);
	with.port = (unsigned int)take(&at, 2);
	with.tasks = (unsigned int)take(&at, 2);
	take(&at, 4 + 3);
	with.verify = (unsigned int)take(&at, 1);
	take(&at, 9);
	with.one_way = (unsigned int)take(&at, 1);
	if (with.depth > MAX_DEPTH || with.tasks > MAX_TASKS || with.request_bytes > MAX_BYTES || with.ack_bytes > MAX_BYTES ||
	    with.request_bytes < HEADER || with.ack_bytes < HEADER)
		fail("depth %u, tasks %u, requests of %u and acknowledgements of %u bytes", with.depth, with.tasks,
		     with.request_bytes, with.ack_bytes);
}

static struct sockaddr_in address(uint32_t host, unsigned int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = htons((uint16_t)port) };
}

static int meet(void)
{
	struct sockaddr_in to = address(with.active ? with.remote : with.local, with.port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, tries;

	if (with.active) {
		for (tries = 0; connect(fd, (struct sockaddr *)&to, sizeof(to)); tries++) {
			if (tries == 20)
				fail("no connection: %s", strerror(errno));
			close(fd);
			sleep(1);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
		send_options(fd);
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) || listen(fd, 1))
		fail("port %u: %s", with.port, strerror(errno));
	fd = accept(fd, NULL, NULL);
	read_options(fd);
	return fd;
}

/* ---- Messages ---- */

static void open_tasks(void)
{
	unsigned int i, j, byte = 11;

	for (i = 0; i < MAX_BYTES; i++, byte = 41 * (byte + 3) + (i >> 8))
		pattern[i] = (unsigned char)byte;
	for (i = 0; i < with.tasks; i++) {
		struct sockaddr_in here = address(with.local, with.port + 1 + i);

		fds[i] = socket(AF_RDS, SOCK_SEQPACKET, 0);
		if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&here, sizeof(here)))
			fail("task %u: %s", i, strerror(errno));
		for (j = 0; j < with.tasks; j++) {
			pairs[i][j].here = here;
			pairs[i][j].there = address(with.remote, with.port + 1 + j);
		}
	}
}

static bool send_one(int fd, struct pair *pair, int kind, unsigned int place)
{
	unsigned char message[MAX_BYTES] = { 0 }, *at = message;
	size_t bytes = kind == REQUEST ? with.request_bytes : with.ack_bytes;
	struct iovec part = { message, bytes };
	struct msghdr header = {
		.msg_name = &pair->there, .msg_namelen = sizeof(pair->there), .msg_iov = &part, .msg_iovlen = 1
	};

	put(&at, pair->sent, 4);
	put(&at, ntohl(pair->here.sin_addr.s_addr), 4);
	put(&at, ntohl(pair->there.sin_addr.s_addr), 4);
	put(&at, ntohs(pair->here.sin_port), 2);
	put(&at, ntohs(pair->there.sin_port), 2);
	put(&at, place, 2);
	put(&at, (uint64_t)kind, 1);
	if (with.verify)
		memcpy(message + HEADER, pattern, bytes - HEADER);
	if (sendmsg(fd, &header, MSG_DONTWAIT) < 0) {
		if (errno != EAGAIN && errno != ENOBUFS)
			fail("sending: %s", strerror(errno));
		return false;
	}
	pair->sent++;
	return true;
}

static void receive_one(struct pair *pair, const unsigned char *message, size_t bytes)
{
	const unsigned char *at = message;
	uint32_t number = (uint32_t)take(&at, 4), from = (uint32_t)take(&at, 4), to = (uint32_t)take(&at, 4);
	unsigned int from_port = (unsigned int)take(&at, 2), to_port = (unsigned int)take(&at, 2);
	unsigned int place = (unsigned int)take(&at, 2), kind = (unsigned int)take(&at, 1);
	unsigned int wanted = kind == REQUEST ? pair->received_place :
				       (pair->sent_place - pair->pending + with.depth) % with.depth;

	if (kind != REQUEST && kind != ACK)
		fail("a message of kind %u", kind);
	if (bytes != (kind == REQUEST ? with.request_bytes : with.ack_bytes))
		fail("a message of %zu bytes and kind %u", bytes, kind);
	if (number != pair->received || from != ntohl(pair->there.sin_addr.s_addr) || to != ntohl(pair->here.sin_addr.s_addr) ||
	    from_port != ntohs(pair->there.sin_port) || to_port != ntohs(pair->here.sin_port) || place != wanted)
		fail("message %u from %x:%u to %x:%u of kind %u, place %u: number %u and place %u are next", number, from,
		     from_port, to, to_port, kind, place, pair->received, wanted);
	if (with.verify && memcmp(message + HEADER, pattern, bytes - HEADER))
		fail("a damaged message");
	pair->received++;
	if (kind == ACK) {
		if (!pair->pending)
			fail("an acknowledgement of nothing");
		pair->pending--;
		acks_in++;
		return;
	}
	requests_in++;
	pair->unacked++;
	pair->received_place = (pair->received_place + 1) % with.depth;
}

static void receive_all(unsigned int task)
{
	unsigned char message[MAX_BYTES];

	for (;;) {
		struct sockaddr_in from = { 0 };
		struct iovec part = { message, sizeof(message) };
		char control[256];
		struct msghdr header = {
			.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};
		ssize_t bytes = recvmsg(fds[task], &header, MSG_DONTWAIT);
		unsigned int of = ntohs(from.sin_port) - with.port - 1;

		if (bytes < 0)
			return;
		if (!bytes) /* a notification alone */
			continue;
		if (bytes < HEADER || of >= with.tasks)
			fail("%zd bytes from port %u", bytes, ntohs(from.sin_port));
		receive_one(&pairs[task][of], message, (size_t)bytes);
	}
}

static void send_all(unsigned int task)
{
	unsigned int i;

	for (i = 0; i < with.tasks; i++) {
		struct pair *pair = &pairs[task][i];

		while (pair->unacked) {
			unsigned int place = (pair->received_place - pair->unacked + with.depth) % with.depth;

			if (!send_one(fds[task], pair, ACK, place))
				break;
			pair->unacked--;
		}
		while ((with.active || !with.one_way) && !pair->unacked && pair->pending < with.depth) {
			if (!send_one(fds[task], pair, REQUEST, pair->sent_place))
				break;
			pair->sent_place = (pair->sent_place + 1) % with.depth;
			pair->pending++;
		}
	}
}

static void run(int control)
{
	time_t end = time(NULL) + (time_t)with.seconds;
	bool stops = false;

	for (;;) {
		struct pollfd polled[MAX_TASKS + 1] = { { .fd = control, .events = POLLIN } };
		unsigned int i;

		for (i = 0; i < with.tasks; i++)
			polled[i + 1] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		poll(polled, with.tasks + 1, 10);
		for (i = 0; i < with.tasks; i++)
			receive_all(i);
		for (i = 0; !stops && i < with.tasks; i++)
			send_all(i);
		if (stops && time(NULL) >= end)
			return;
		if (stops || !(with.active ? time(NULL) >= end : polled[0].revents))
			continue;
		stops = true;
		close(control);
		control = -1;
		end = time(NULL) + 2;
	}
}

int main(int argc, char **argv)
{
	int option, control;
	char byte = 0;

	while ((option = getopt(argc, argv, "r:s:p:t:d:q:a:T:Q:ov")) != -1) {
		switch (option) {
		case 'r': with.local = ntohl(inet_addr(optarg)); break;
		case 's': with.remote = ntohl(inet_addr(optarg)); with.active = true; break;
		case 'p': with.port = (unsigned int)atoi(optarg); break;
		case 't': with.tasks = (unsigned int)atoi(optarg); break;
		case 'd': with.depth = (uint32_t)atoi(optarg); break;
		case 'q': with.request_bytes = (uint32_t)atoi(optarg); break;
		case 'a': with.ack_bytes = (uint32_t)atoi(optarg); break;
		case 'T': with.seconds = (uint32_t)atoi(optarg); break;
		case 'Q': with.tos = (unsigned int)atoi(optarg); break;
		case 'o': with.one_way = 1; break;
		case 'v': with.verify = 1; break;
		default: return 2;
		}
	}
	control = meet();
	open_tasks();
	if (with.active && write(control, &byte, 1) != 1)
		fail("the control connection has ended early");
	read_all(control, &byte, 1);
	if (!with.active && write(control, &byte, 1) != 1)
		fail("the control connection has ended early");
	sleep(2);
	run(control);
	printf("requests %lu acks %lu\n", requests_in, acks_in);
	return 0;
}
