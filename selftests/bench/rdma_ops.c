// SPDX-License-Identifier: GPL-2.0
//
// Cost of reading and writing another program's memory over RDS, without messages, so many operations being under way as raw
// verbs have in selftests/bench/rdma_counted.sh.
//
//   rdma_ops owner MINE PORT          gives its memory to the user that asks, until that one ends it
//   rdma_ops user MINE PORT PEER      runs all cells, and prints for each what selftests/bench/bench.c prints
//
// Before those, "get_mr ERRNO" says how RDS_GET_MR_FOR_DEST ended. Where it fails, as with the kernel's own where devices only
// register by requests (FRMR), nothing else is measured. The region itself is made by RDS_CMSG_RDMA_MAP.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rds.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum {
	LARGEST = 1 << 20,
	BUFFER = 8 << 20,
	DEPTH = 16, // operations under way
	WARM_UP = 2 * DEPTH,
	CELL_SECONDS = 60, // one that takes longer is stuck
	EXIT_STUCK = 3,
	QUIT = 1,
};

static const struct cell {
	uint32_t size, operations;
} cells[] = { { 4096, 1000 }, { 65536, 200 }, { LARGEST, 40 } };

static int fd = -1;
static struct sockaddr_in peer;
static char *memory; // the owner's is read and written, the user's is what that is copied to and from
static char now_running[64];

static void die(const char *what)
{
	fprintf(stderr, "rdma_ops: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address_of(const char *ip, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, ip, &address.sin_addr) != 1)
		die(ip);
	return address;
}

static void fill(uint32_t seed)
{
	for (uint32_t i = 0; i < LARGEST / sizeof(seed); i++)
		((uint32_t *)memory)[i] = i * 2654435761u + seed;
}

static bool is_filled(uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size / sizeof(seed); i++)
		if (((uint32_t *)memory)[i] != i * 2654435761u + seed)
			return false;
	return true;
}

static void send_with(const void *data, size_t size, int type, const void *control, size_t length)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct rds_rdma_args))];
	} c = { .align = { .cmsg_level = SOL_RDS, .cmsg_type = type, .cmsg_len = CMSG_LEN(length) } };
	struct iovec piece = { (void *)data, size };
	struct msghdr msg = { .msg_name = &peer, .msg_namelen = sizeof(peer), .msg_iov = &piece, .msg_iovlen = 1,
			      .msg_control = length ? &c : NULL, .msg_controllen = length ? CMSG_SPACE(length) : 0 };

	memcpy(CMSG_DATA(&c.align), control, length);
	if (sendmsg(fd, &msg, 0) != (ssize_t)size)
		die("sendmsg");
}

// The number of notices, all of which are of success; or 0 and a word, and the key that came with it.
static unsigned int receive(uint32_t *word, rds_rdma_cookie_t *cookie)
{
	_Alignas(struct cmsghdr) char control[1024];
	struct iovec piece = { word, sizeof(*word) };
	socklen_t length = sizeof(peer);
	struct msghdr msg = { .msg_name = &peer, .msg_namelen = length, .msg_iov = &piece, .msg_iovlen = 1,
			      .msg_control = control, .msg_controllen = sizeof(control) };
	unsigned int notices = 0;

	if (recvmsg(fd, &msg, 0) < 0)
		die("recvmsg");
	for (struct cmsghdr *at = CMSG_FIRSTHDR(&msg); at; at = CMSG_NXTHDR(&msg, at)) {
		struct rds_rdma_notify notice;

		if (at->cmsg_type == RDS_CMSG_RDMA_DEST && cookie)
			memcpy(cookie, CMSG_DATA(at), sizeof(*cookie));
		if (at->cmsg_type != RDS_CMSG_RDMA_STATUS)
			continue;
		memcpy(&notice, CMSG_DATA(at), sizeof(notice));
		errno = notice.status;
		if (notice.status != RDS_RDMA_SUCCESS)
			die("status of an operation");
		notices++;
	}
	return notices;
}

// ---- the owner

static uint32_t try_get_mr(void)
{
	rds_rdma_cookie_t cookie;
	struct rds_get_mr_for_dest_args args = { .vec = { (uintptr_t)memory, 4096 }, .cookie_addr = (uintptr_t)&cookie };
	struct rds_free_mr_args freed = { 0 };

	memcpy(&args.dest_addr, &peer, sizeof(peer));
	if (setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args)))
		return errno;
	freed.cookie = cookie;
	if (setsockopt(fd, SOL_RDS, RDS_FREE_MR, &freed, sizeof(freed)))
		die("RDS_FREE_MR");
	return 0;
}

static void own(void)
{
	rds_rdma_cookie_t cookie;
	struct rds_get_mr_args map = { .vec = { (uintptr_t)memory, LARGEST }, .cookie_addr = (uintptr_t)&cookie,
				       .flags = RDS_RDMA_READWRITE };
	uint32_t word;

	receive(&word, NULL);
	word = try_get_mr();
	send_with(&word, sizeof(word), RDS_CMSG_RDMA_MAP, &map, word ? 0 : sizeof(map));
	do
		receive(&word, NULL);
	while (word != QUIT);
}

// ---- its user

static void begin(rds_rdma_cookie_t cookie, uint32_t size, bool writes)
{
	struct rds_iovec local = { (uintptr_t)memory, size };
	struct rds_rdma_args args = { .cookie = cookie, .remote_vec = { 0, size }, .local_vec_addr = (uintptr_t)&local,
				      .nr_local = 1, .flags = RDS_RDMA_NOTIFY_ME | RDS_RDMA_SILENT };

	if (writes)
		args.flags |= RDS_RDMA_READWRITE;
	send_with(NULL, 0, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
}

static void operate(rds_rdma_cookie_t cookie, uint32_t size, bool writes, uint32_t count)
{
	uint32_t begun = 0, ended = 0, none;

	while (ended < count) {
		while (begun < count && begun - ended < DEPTH) {
			begin(cookie, size, writes);
			begun++;
		}
		ended += receive(&none, NULL);
	}
}

static void run_cell(rds_rdma_cookie_t cookie, const struct cell *cell, bool writes)
{
	const char *mode = writes ? "write" : "read";
	uint64_t ns, idle;

	snprintf(now_running, sizeof(now_running), "stuck rds %s %u 1\n", mode, cell->size);
	alarm(CELL_SECONDS);
	operate(cookie, cell->size, writes, WARM_UP);
	idle = idle_ns();
	ns = now_ns();
	MARK_BEGIN();
	operate(cookie, cell->size, writes, cell->operations);
	MARK_END();
	ns = now_ns() - ns;
	idle = idle_ns() - idle;
	alarm(0);
	printf("cell rds %s %u 1 %u %llu %llu 0 0\n", mode, cell->size, cell->operations, (unsigned long long)ns,
	       (unsigned long long)idle);
	fflush(stdout);
}

static void stuck(int signal)
{
	(void)signal;
	if (write(STDOUT_FILENO, now_running, strlen(now_running)) < 0)
		_exit(1);
	_exit(EXIT_STUCK);
}

static void use(void)
{
	uint32_t word = 0, owner_seed = 1, user_seed = 2;
	rds_rdma_cookie_t cookie = 0;

	signal(SIGALRM, stuck);
	send_with(&word, sizeof(word), 0, NULL, 0);
	receive(&word, &cookie);
	printf("get_mr %u\n", word);
	if (!word && !cookie)
		die("no key");
	for (size_t i = 0; cookie && i < ARRAY_SIZE(cells); i++) {
		run_cell(cookie, &cells[i], false);
		if (!is_filled(cells[i].size, owner_seed))
			die("what was read");
		// Written, and read again after it.
		fill(user_seed);
		run_cell(cookie, &cells[i], true);
		fill(0);
		operate(cookie, cells[i].size, false, 1);
		if (!is_filled(cells[i].size, user_seed++))
			die("what was written");
		fill(owner_seed);
		operate(cookie, LARGEST, true, 1);
		fill(0);
	}
	word = QUIT;
	send_with(&word, sizeof(word), 0, NULL, 0);
	usleep(100000); // closing would cancel it
}

int main(int argc, char **argv)
{
	bool owner = argc == 4 && !strcmp(argv[1], "owner");
	struct sockaddr_in mine;
	int size = BUFFER;

	if (!owner && (argc != 5 || strcmp(argv[1], "user"))) {
		fprintf(stderr, "usage: rdma_ops owner MINE PORT | rdma_ops user MINE PORT PEER\n");
		return 2;
	}
	// A page behind the other, not one large page: as raw verbs have it.
	memory = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	fill(owner ? 1 : 0);
	fd = socket(AF_RDS, SOCK_SEQPACKET, 0);
	mine = address_of(argv[2], argv[3]);
	if (fd < 0 || bind(fd, (struct sockaddr *)&mine, sizeof(mine)))
		die("socket, bind");
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		die("SO_SNDBUFFORCE");
	if (owner) {
		own();
		return 0;
	}
	peer = address_of(argv[4], argv[3]);
	use();
	return 0;
}
