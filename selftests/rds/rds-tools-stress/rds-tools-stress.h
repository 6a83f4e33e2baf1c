/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_SELFTESTS_RDS_TOOLS_STRESS_H
#define HAWSER_SELFTESTS_RDS_TOOLS_STRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define MAX_TASKS 8
#define MAX_DEPTH 64
#define MAX_BYTES 65536
#define HEADER 63

/* The options, and whether this side is the one that has sent them. */
struct settings {
	uint32_t depth, request_bytes, ack_bytes, seconds, local, remote;
	unsigned int port, tasks, verify, one_way, tos;
	uint32_t rdma_bytes, rdma_buffers;
	unsigned int rdma_mode, rdma_use_once, rdma_use_get_mr, rdma_use_fence, rdma_cache_mrs;
	bool active;
};
extern struct settings with;

_Noreturn void fail(const char *format, ...);

/* What is under way may fail. May wait for a second. */
bool run_is_over(void);

/* Big-endian. */
void put(unsigned char **to, uint64_t value, unsigned int bytes);
uint64_t take(const unsigned char **from, unsigned int bytes);

/* On the control connection. */
void read_all(int fd, void *to, size_t size);
void send_options(int fd);
void read_options(int fd);

/* What a header has about an operation. */
enum { RDMA_NONE, RDMA_READ, RDMA_WRITE };
struct rdma_fields {
	unsigned int operation;
	uint64_t address, physical_address, pattern, key;
	uint32_t bytes, buffers;
};

/* A place in the queue of one task to another: memory for the peer's operation, and for ours. */
struct rdma_place {
	uint64_t key;
	unsigned char *offered, *local;
	struct rdma_fields asked, served;
	struct rdma_fields running;	/* the operation whose end is not known; the next request may be here before that */
};

/* A request, number @number of its messages, is being sent, and was sent. */
void rdma_ask(int fd, struct rdma_place *place, uint32_t number, struct rdma_fields *fields, struct msghdr *header);
void rdma_asked(struct rdma_place *place, const struct rdma_fields *fields);
/* It is acknowledged. */
void rdma_done(int fd, struct rdma_place *place, const struct rdma_fields *fields);

/* The peer's request is received, with the key that RDS had with it or 0. */
void rdma_take(struct rdma_place *place, const struct rdma_fields *fields, uint64_t key);
/* Its acknowledgement is being sent. False: not before the operation is completed that was last at this place. */
bool rdma_serve(struct rdma_place *place, struct msghdr *header);
void rdma_served(struct rdma_place *place);
void rdma_completed(uint64_t token, int status);

/* The control messages of a message that was received: the key, or 0; the ends of operations are looked after. */
uint64_t rdma_take_control(struct msghdr *header);

/* How many operations of this side ended well. */
extern unsigned long rdma_operations;

#endif
