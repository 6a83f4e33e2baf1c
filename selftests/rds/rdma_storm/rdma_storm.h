/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pairs of programs on two hosts: an owner gives its user a region of memory, which that one reads, writes and counts in, until
 * it says that it is done; then the owner looks at every byte, and the region ends. All pairs of two hosts share one connection,
 * which a bad operation of any of them ends, with what others have under way on it.
 */
#ifndef SELFTESTS_RDS_RDMA_STORM_H
#define SELFTESTS_RDS_RDMA_STORM_H

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define PAIRS 5 /* in each direction */
#define GUARD 4096
#define LARGEST (256 << 10)
#define MEMORY (LARGEST + 2 * GUARD + 4096)
#define WORD 8 /* the first bytes of a region are counted in */
#define TEXT(p) ((uintptr_t)(p))
#define PATIENCE_MS (3 * SOON_MS)

enum what { HELLO, REGION, NOTE, SEEN, DONE, END, BYE };

struct word {
	uint32_t what;
	uint32_t counts;	/* the region begins at a multiple of WORD */
	uint64_t size, seed;	/* of the region, behind its first bytes; NOTE, DONE: what was written */
	uint64_t least, most;	/* DONE: the number of additions. NOTE, SEEN: least is the number of the write */
};

struct event {
	struct word word;
	rds_rdma_cookie_t cookie;
	bool is_notice;
};

#define NOTICES 64 /* more than are ever under way */

/* What has happened on this host, of all programs. */
#define STORM_COUNTS(X)                                  \
	X(regions, "regions given, and their bytes checked") \
	X(maps, "regions made with a message")           \
	X(closes, "sockets closed with a region")        \
	X(reads, "reads, whose bytes were checked")      \
	X(writes, "writes without a message")            \
	X(notes, "writes with a message")                \
	X(adds, "additions, whose old values were checked") \
	X(dropped, "operations lost with a connection")  \
	X(refused, "bad operations, which end it")       \
	X(reopened, "sockets of users replaced")         \
	X(killed, "programs killed with operations under way")
#define STORM_COUNT(name, text) unsigned long name;
struct counts {
	STORM_COUNTS(STORM_COUNT)
	unsigned long wrong;
	int64_t refused_ms; /* when there was the last bad one */
};
#undef STORM_COUNT

extern struct counts *counts;
extern const char *own_ip, *peer_ip;
extern struct random dice;
extern int fd;
extern struct addr peer;

static inline void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}
static inline bool chance(unsigned int one_in)
{
	return random_below(&dice, one_in) == 0;
}

bool over(void);
/** wrong - reports a result that must not be */
void wrong(const char *what, unsigned long long got);
/** open_socket - fd, at @port of this host; the peer is that of @peer_port */
void open_socket(int port, int peer_port);
/** receive - a message, or notices, which are kept; false after @ms */
bool receive(struct event *event, int ms);
/** has_ended - whether a notice of the operation with this token has come */
bool has_ended(uint64_t token, int *status);
/** say - with @control, which may be null. Tries again while the connection is being made */
void say(const struct word *word, const struct control *control);
bool all_are(const char *from, size_t len, char value);

_Noreturn void owner(int number);
_Noreturn void user(int number);

#define OWNER_PORT 5600
#define USER_PORT 5700

#endif
