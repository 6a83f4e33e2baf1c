/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random operations on another host's memory, by many threads on shared sockets of two hosts, while devices, memory and settings
 * come and go. The other host runs the same program.
 */
#ifndef SELFTESTS_RDS_RDMA_FUZZ_H
#define SELFTESTS_RDS_RDMA_FUZZ_H

#include "fuzz/calls.h"
#include "fuzz/memory.h"
#include "fuzz/storm.h"
#include "rds.h"

#define FUZZ_KINDS(X)                                   \
	X(SOCKET, "socket", MUST)                       \
	X(BIND, "bind", MUST)                           \
	X(CLOSE, "close", MUST)                         \
	X(SEND, "send", MUST)                           \
	X(GET_MR, "RDS_GET_MR", MUST)                   \
	X(GET_MR_DEST, "RDS_GET_MR_FOR_DEST", MUST)     \
	X(GET_MR_ODD, "RDS_GET_MR, odd memory", MAY)    \
	X(FREE_MR, "RDS_FREE_MR", MUST)                 \
	X(FREE_MR_ODD, "RDS_FREE_MR, odd key", MAY)     \
	X(SEND_DEST, "send a key", MUST)                \
	X(SEND_MAP, "send a new key", MUST)             \
	X(READ, "read from the peer", MUST)             \
	X(WRITE, "write to the peer", MUST)             \
	X(ATOMIC, "count at the peer", MUST)            \
	X(SEND_ODD, "send, any RDMA control", MAY)      \
	X(RECEIVE, "receive", MUST)                     \
	X(WAIT, "receive, blocking", MUST)              \
	X(POLL, "poll", MUST)                           \
	X(CANCEL, "RDS_CANCEL_SENT_TO", MUST)           \
	X(INFO, "RDS_INFO_IB_CONNECTIONS", MUST)        \
	X(FORK, "fork", MUST)                           \
	X(SYSCTL, "sysctl", MUST)                       \
	X(DEVICE, "devices removed, added", MUST)       \
	X(GOT_KEY, "(got a key)", MUST)                 \
	X(GOT_SUCCESS, "(got notice: success)", MUST)   \
	X(GOT_FAILURE, "(got notice: another)", MUST)   \
	X(GOT_CONTENT, "(content checked)", MUST)

#define FUZZ_ENUM(id, name, expected) K_##id,
enum { FUZZ_KINDS(FUZZ_ENUM) KINDS };
#undef FUZZ_ENUM

/* pool.c: the shared sockets, and those of the peer, which have the same ports */
extern const char *own_ip, *peer_ip;
void pool_open(struct caller *c);
void pool_close(void);
int some_socket(struct caller *c);
struct addr some_peer(struct caller *c);
void call_socket(struct caller *c);

/**
 * is_calm - true half of the time: then nothing odd is done and nothing ends, because one bad operation ends the connection, and
 * all that is on it
 */
bool is_calm(void);
/** odd - true for one call in so many, in wild times */
static inline bool odd(struct caller *c, unsigned int one_in)
{
	return !is_calm() && chance(c, one_in);
}

/* regions.c: memory that peers may use, and their keys */
struct region {
	uint64_t cookie, size;
	int socket;        /* an own one's: no other may send it */
	unsigned int slot; /* where it is kept */
};
/* What a key's message contains, so that the peer knows how much memory it is of. */
struct offer {
	uint64_t tag, size;
};
#define OFFER 0x4f46464552000000ULL
void regions_open(void);
/** regions_hold - false if a byte around the memory for peers was changed */
bool regions_hold(void);
/** any_range - mostly of the memory for peers */
struct rds_iovec any_range(struct caller *c, bool is_odd);
/** own_region, peers_region - one that was known once; the cookie is 0 if none was. Others may be replacing it */
struct region own_region(struct caller *c);
struct region peers_region(struct caller *c);
void keep_own(struct caller *c, struct region r);
void keep_peers(struct caller *c, struct region r);
/** forget_own, forget_peers - one that does not work; stale ones would end connection after connection */
void forget_own(unsigned int slot);
void forget_peers(unsigned int slot);
/** forget_all - what was freed in wild times would end one connection after the other in calm ones */
void forget_all(void);
/**
 * connection_ended - all keys have ended with it, also those in messages that are now sent again: one of them would end the next
 * connection, and so on
 */
void connection_ended(void);
void call_get_mr(struct caller *c);
void call_free_mr(struct caller *c);

void call_send(struct caller *c); /* send.c */
void call_operation(struct caller *c);
void call_receive(struct caller *c); /* receive.c */
/** janitor - the thread that removes the device and changes settings; devices_came - true after some turns of it */
void janitor(struct caller *c); /* janitor.c */
bool devices_came(void);

#endif
