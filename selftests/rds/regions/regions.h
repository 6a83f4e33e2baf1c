/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two hosts that use each other's memory over RDMA: the one whose memory it is names a region in a message, and the other
 * one says when it is done with it.
 */
#ifndef SELFTESTS_RDS_REGIONS_H
#define SELFTESTS_RDS_REGIONS_H

#include <string.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define GUARD 8192
#define MEMORY (MAX_MESSAGE + 2 * GUARD)
#define TEXT(p) ((uintptr_t)(p))

enum { HELLO, REGION, DONE }; /* a region is to be used; what was to be done with it is done */

/* What goes between the hosts. Cookies go by control messages. */
struct word {
	uint32_t what;
	uint32_t has_regions;
	uint64_t size, seed;
};

/* The next message, or a notice: which of both comes first is open. */
struct event {
	struct word word;
	uint64_t cookie;
	int status;
};

extern int fd;
extern struct addr peer;
extern char memory[MEMORY];

/** next_status - of the next notice. Messages that come meanwhile wait: one at most is under way */
int next_status(void);
struct event next_word(uint32_t what);
void say(uint32_t what, size_t size, uint64_t seed);

/**
 * give - names a region to the peer, made before or with_message: size bytes of memory from GUARD + skew on, filled with the
 * pattern of seed, with 0xee around it. Returns the cookie.
 */
uint64_t give(size_t skew, size_t size, uint64_t seed, bool with_message);
int free_mr(uint64_t cookie);
bool all_are(const char *from, size_t len, char value);

/* Atomic operations, of the host whose memory it is and of the other one. */
void own_atomics(void);
void use_atomics(void);

#endif
