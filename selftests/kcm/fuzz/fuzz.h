/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random calls on a few KCM sockets and TCP connections by many threads, while connections, namespaces and memory come
 * and go at the same time.
 *
 * There are two worlds. In the polite one peers and KCM sockets send only whole frames that identify
 * themselves: so each received message must be one of them, whole, and once. In the wild one all send anything.
 * The descriptors of the two are disjoint numbers, so that no race moves a descriptor between them.
 */
#ifndef SELFTESTS_KCM_FUZZ_H
#define SELFTESTS_KCM_FUZZ_H

#include "fuzz/calls.h"
#include "fuzz/memory.h"
#include "fuzz/storm.h"
#include "hawser_kcm.h"
#include "kcm.h"

#include "kinds.h"

/* Time for a closed socket to send its data or give up: its peer may have no reader. */
#define DRAINED_MS stretched(70000)

/* pool.c: shared descriptors. A slot's number is reserved, and survives close and reopen. */
enum pool { WILD, DGRAM, SEQPACKET, NEAR, FAR, POLITE_NEAR, POOLS };
void pool_open(struct caller *c);
void pool_close(void);
/** some - a slot's descriptor, open or not */
int some(struct caller *c, enum pool pool);
/** into - moves @fd into a slot of @pool, also while its old descriptor is in use */
void into(struct caller *c, enum pool pool, int fd);
struct shared {
	int fd;
	enum pool pool; /* WILD, DGRAM or SEQPACKET */
	bool polite;
};
struct shared some_kcm(struct caller *c);
/** any_descriptor - of the wild world, closed, or not a socket */
int any_descriptor(struct caller *c);
/** pool_evict - close the wild sockets of a namespace; @all closes all of KCM's, which may hold connections of it */
void pool_evict(uint64_t cookie, bool all);
void call_socket(struct caller *c);
void call_connection(struct caller *c);
/** make_link - a connection, also when signals interrupt */
struct link make_link(struct caller *c, int ns);

/* attach.c */
void programs_open(void);
void attach(struct caller *c, struct shared s);
void call_attach(struct caller *c);

/* frame.c: messages of the polite world */
#define FRAME_LEAST 12
#define FRAME_MOST 40000
enum sender { BY_PEER, BY_KCM };
struct frame {
	uint32_t head[FRAME_LEAST / 4];
	struct iovec pieces[1 + PIECES]; /* the head and content */
	size_t count, size;
};
void frames_open(void);
/** frame_make - a frame that was never sent, of at most @limit bytes */
void frame_make(struct caller *c, struct frame *f, enum sender sender, size_t limit);
/** frame_copy - as contiguous bytes; returns the size */
size_t frame_copy(const struct frame *f, char *out);
/** frame_length - of the whole frame whose first bytes these are, 0 when they are not a frame */
size_t frame_length(const char *data, size_t size, enum sender sender);
/** frame_check - true for the first @size bytes of a frame that is seen for the first time */
bool frame_check(const char *data, size_t size, enum sender sender, bool counts);
/** piece_check - true if it can be from the middle of a frame */
bool piece_check(const char *data, size_t size);

void call_send(struct caller *c); /* send.c */
void call_receive(struct caller *c); /* receive.c */
void call_option(struct caller *c); /* options.c */
void call_wait(struct caller *c); /* others.c */
void call_other(struct caller *c);
void call_tcp(struct caller *c); /* tcp.c: the attached connection's own calls */
void call_peer(struct caller *c); /* peers.c: the far ends of wild connections */
/** polite_peers - the far ends of polite connections */
void polite_peers(struct caller *c);
/** janitor - world.c: makes and removes namespaces */
void janitor(struct caller *c);
bool all_is_well(void);

#endif
