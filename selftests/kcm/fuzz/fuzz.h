/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Any call on any of a few KCM sockets and TCP connections, by many threads, while connections, namespaces and memory come
 * and go under them.
 *
 * There are two worlds. In the polite one all that is sent, by peers and through KCM, are whole frames that say what they
 * are: so whatever is received there must be one of them, whole, and once. In the wild one anything is said by anybody.
 * The descriptors of the two are different numbers for good, so that no race takes anything from one into the other.
 */
#ifndef SELFTESTS_KCM_FUZZ_H
#define SELFTESTS_KCM_FUZZ_H

#include "fuzz/calls.h"
#include "fuzz/memory.h"
#include "fuzz/storm.h"
#include "hawser_kcm.h"
#include "kcm.h"

#include "kinds.h"

/* By then a closed socket has sent what it had, or given it up: its peer may be one that nobody reads from any more. */
#define DRAINED_MS stretched(70000)

/* pool.c: what all share. A slot is a number that nothing else gets, whatever is closed and opened. */
enum pool { WILD, DGRAM, SEQPACKET, NEAR, FAR, POLITE_NEAR, POOLS };
void pool_open(struct caller *c);
void pool_close(void);
/** some - a slot's descriptor, open or not */
int some(struct caller *c, enum pool pool);
/** into - @fd into a slot of @pool, under whoever uses what is there; @fd itself is closed */
void into(struct caller *c, enum pool pool, int fd);
struct shared {
	int fd;
	enum pool pool; /* WILD, DGRAM or SEQPACKET */
	bool polite;
};
struct shared some_kcm(struct caller *c);
/** any_descriptor - of the wild world, of none, or of no socket */
int any_descriptor(struct caller *c);
/** pool_evict - close the wild sockets of a namespace; @all closes all of KCM's, which may hold connections of it */
void pool_evict(uint64_t cookie, bool all);
void call_socket(struct caller *c);
void call_connection(struct caller *c);
/** make_link - a connection, whatever signals come meanwhile */
struct link make_link(struct caller *c, int ns);

/* attach.c */
void programs_open(void);
void attach(struct caller *c, struct shared s);
void call_attach(struct caller *c);

/* frame.c: what the polite send */
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
/** frame_copy - as so many bytes one behind the other */
size_t frame_copy(const struct frame *f, char *out);
/** frame_length - of the whole frame whose first bytes these are, 0 when they are none's */
size_t frame_length(const char *data, size_t size, enum sender sender);
/** frame_check - are these the first @size bytes of a frame, and is it seen for the first time? */
bool frame_check(const char *data, size_t size, enum sender sender, bool counts);
/** piece_check - can it be from the middle of a frame? */
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
/** janitor - world.c: namespaces come and go; world_was_changed - at least once */
void janitor(struct caller *c);
bool world_was_changed(void);
bool all_is_well(void);

#endif
