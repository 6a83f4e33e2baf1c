// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of rds-tools' rds-stress, as strictly as that program has it: the peer in tests of hawser's rds-stress. Each
 * message must be the next one, with the addresses, ports and place that are expected, or this fails.
 *
 *   rds-tools-stress -r local [-s remote -t tasks -d depth -q bytes -a bytes -T seconds -o -v -Q tos
 *                              -D bytes -I buffers -M mode -U -G -C] -p port
 *
 * -U, -G and -C are its --rdma-use-once, --rdma-use-get-mr and --rdma-cache-mrs.
 */
#include "rds-tools-stress.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef AF_RDS
#define AF_RDS 21
#endif

enum { REQUEST = 1, ACK = 2 };

/* What a local task and a remote one have exchanged. */
struct pair {
	struct sockaddr_in here, there;
	uint32_t sent, received;
	unsigned int sent_place, received_place, pending, unacked;
	struct rdma_place rdma[MAX_DEPTH];
};

struct settings with = {
	.depth = 1, .request_bytes = 1024, .ack_bytes = HEADER, .port = 4000, .tasks = 1, .seconds = 1, .rdma_buffers = 1,
	.rdma_use_fence = 1,
};
static struct pair pairs[MAX_TASKS][MAX_TASKS];
static int fds[MAX_TASKS];
static unsigned char pattern[MAX_BYTES];
static unsigned long requests_in, acks_in;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(1);
}

/* ---- Start ---- */

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

static void put_fields(unsigned char **at, const struct rdma_fields *fields)
{
	put(at, fields->operation, 1);
	put(at, fields->address, 8);
	put(at, fields->physical_address, 8);
	put(at, fields->pattern, 8);
	put(at, fields->key, 8);
	put(at, fields->bytes, 4);
	put(at, fields->buffers, 4);
}

static void take_fields(const unsigned char **at, struct rdma_fields *fields)
{
	memset(fields, 0, sizeof(*fields));
	fields->operation = (unsigned int)take(at, 1);
	fields->address = take(at, 8);
	fields->physical_address = take(at, 8);
	fields->pattern = take(at, 8);
	fields->key = take(at, 8);
	fields->bytes = (uint32_t)take(at, 4);
	fields->buffers = (uint32_t)take(at, 4);
}

static bool send_one(int fd, struct pair *pair, int kind, unsigned int place)
{
	unsigned char message[MAX_BYTES] = { 0 }, *at = message;
	size_t bytes = kind == REQUEST ? with.request_bytes : with.ack_bytes;
	struct rdma_fields fields = { 0 };
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
	if (kind == REQUEST)
		rdma_ask(fd, &pair->rdma[place], pair->sent, &fields, &header);
	else if (!rdma_serve(&pair->rdma[place], &header))
		return false;
	put_fields(&at, kind == REQUEST ? &fields : &pair->rdma[place].served);
	if (with.verify)
		memcpy(message + HEADER, pattern, bytes - HEADER);
	if (sendmsg(fd, &header, MSG_DONTWAIT) < 0) {
		if (errno != EAGAIN && errno != ENOBUFS)
			fail("sending: %s", strerror(errno));
		return false;
	}
	pair->sent++;
	if (kind == REQUEST)
		rdma_asked(&pair->rdma[place], &fields);
	else
		rdma_served(&pair->rdma[place]);
	return true;
}

static void receive_one(int fd, struct pair *pair, const unsigned char *message, size_t bytes, uint64_t key)
{
	struct rdma_fields fields;
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
	take_fields(&at, &fields);
	pair->received++;
	if (kind == ACK) {
		if (!pair->pending)
			fail("an acknowledgement of nothing");
		rdma_done(fd, &pair->rdma[place], &fields);
		pair->pending--;
		acks_in++;
		return;
	}
	rdma_take(&pair->rdma[place], &fields, key);
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
		uint64_t key;

		if (bytes < 0)
			return;
		key = rdma_take_control(&header);
		if (!bytes) /* a notification alone */
			continue;
		if (bytes < HEADER || of >= with.tasks)
			fail("%zd bytes from port %u", bytes, ntohs(from.sin_port));
		receive_one(fds[task], &pairs[task][of], message, (size_t)bytes, key);
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

/* The control connection; -1: this side has ended the run. */
static int control;

/* The other side ends at once, as rds-tools' does, and with it what is under way. */
bool run_is_over(void)
{
	struct pollfd polled = { .fd = control, .events = POLLIN };

	return control < 0 || poll(&polled, 1, 1000) > 0;
}

static void run(void)
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
		if (with.active) /* its tasks are killed */
			return;
		end = time(NULL) + 2;
	}
}

int main(int argc, char **argv)
{
	int option;
	char byte = 0;

	while ((option = getopt(argc, argv, "r:s:p:t:d:q:a:T:Q:D:I:M:UGCov")) != -1) {
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
		case 'D': with.rdma_bytes = (uint32_t)atoi(optarg); break;
		case 'I': with.rdma_buffers = (uint32_t)atoi(optarg); break;
		case 'M': with.rdma_mode = (unsigned int)atoi(optarg); break;
		case 'U': with.rdma_use_once = 1; break;
		case 'G': with.rdma_use_get_mr = 1; break;
		case 'C': with.rdma_cache_mrs = 1; break;
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
	run();
	printf("requests %lu acks %lu operations %lu\n", requests_in, acks_in, rdma_operations);
	return 0;
}
