/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer of RTRS in user space that follows the protocol as far as a test wants: connections of the RDMA connection manager
 * with a queue pair each, and the messages of RTRS 2.0 (facts: drivers/infiniband/ulp/rtrs/rtrs-pri.h of Linux 6.1 and 6.12).
 */
#ifndef SELFTESTS_RTRS_HOSTILE_H
#define SELFTESTS_RTRS_HOSTILE_H

#define RDMA_STATIC_PROVIDERS rxe
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ktap.h"
#include "util.h"

#define MAGIC 0x1bbd
#define VERSION 0x0200
#define SERVER_PORT 1234  /* of rnbd-server */
#define HOSTILE_PORT 4321 /* of the server here */

enum { INFO_REQUEST, INFO_RESPONSE, WRITE_REQUEST, READ_REQUEST, KEY_RESPONSE };
enum { IMM_REQUEST, IMM_RESPONSE, IMM_RESPONSE_INVALIDATED, IMM_HEARTBEAT = 8, IMM_HEARTBEAT_ACK };

/* Integers are little-endian, as is the machine. */
struct connect_request {
	uint8_t cm[2];
	uint16_t magic, version, number, count, reconnects;
	uint8_t path[16], session[16];
	uint8_t first, reserved[11];
} __attribute__((packed));

struct connect_response {
	uint16_t magic, version, error, queue_depth;
	uint32_t max_io, max_header, flags;
	uint8_t reserved[36];
} __attribute__((packed));

struct descriptor {
	uint64_t address;
	uint32_t key, length;
} __attribute__((packed));

struct info_request {
	uint16_t type;
	char name[255], reserved[15];
} __attribute__((packed));

struct info_response {
	uint16_t type, count;
	uint8_t reserved[4];
	struct descriptor chunks[];
} __attribute__((packed));

struct request_header {
	uint16_t type, user_bytes;
	uint16_t flags, count; /* of a read, and a descriptor */
	struct descriptor target;
} __attribute__((packed));

struct key_response {
	uint16_t type, chunk;
	uint32_t key;
} __attribute__((packed));

/* Where a connection is. */
enum state { WAITING, ASKED, ESTABLISHED, REJECTED, ENDED };

#define SLOTS 32
#define SLOT_BYTES 4096
#define SCRATCH_BYTES 16384

struct link {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory, *scratch; /* SLOTS to receive into, then SCRATCH_BYTES */
	enum state state;
	int posted;          /* requests whose completion is expected */
	int failed;          /* requests that failed */
	int received;        /* messages and immediates */
	uint32_t imm;        /* the last, with its type */
	uint32_t length;     /* of the last message */
	uint8_t last[SLOT_BYTES];
	uint8_t offered[256]; /* private data of what was asked for, accepted or rejected */
	size_t offered_bytes;
};

void link_start(void);

/* As a client: asks for a connection, with that private data. Gives its state: ESTABLISHED, or what else it has become. */
enum state link_ask(struct link *link, uint16_t port, const void *data, size_t length);

/* As a server. */
void link_listen(uint16_t port);
/* The next connection that was asked for within ms: false if there is none. */
bool link_next(struct link *link, int ms);
bool link_accept(struct link *link, const void *data, size_t length);
void link_reject(struct link *link, const void *data, size_t length);

/* Handles what has happened. */
void link_pump(struct link *link);
/* Posts a request: from is in the link's memory. */
bool link_send(struct link *link, const void *from, uint32_t length);
bool link_write(struct link *link, const void *from, uint32_t length, uint64_t to, uint32_t key, int64_t imm);
bool link_send_invalidate(struct link *link, uint32_t key);
bool link_send_imm(struct link *link, const void *from, uint32_t length, uint32_t imm);

/* Waits until the link has ended, a message has arrived (count of all), or all that was posted has completed. */
bool link_ends(struct link *link, int ms);
bool link_receives(struct link *link, int count, int ms);
bool link_completes(struct link *link, int ms);
/* Disconnects, if polite, and destroys it. */
void link_close(struct link *link, bool polite);

static inline uint32_t immediate(unsigned type, uint32_t payload)
{
	return type << 28 | (payload & 0xfffffff);
}

/* The address of both sides, and the command that runs an honest client, which must succeed after each case. */
extern const char *address, *honest;
void honest_works(const char *what);

void hostile_clients(void);
void hostile_servers(void);

#endif
