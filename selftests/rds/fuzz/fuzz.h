/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Any call on any of a few sockets, by many threads, while addresses, links, namespaces, settings and memory come and go
 * under them. Errors are fine; a call that never works is not, because then nothing behind it is tested.
 */
#ifndef SELFTESTS_RDS_FUZZ_H
#define SELFTESTS_RDS_FUZZ_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#include "kinds.h"

#define CALLERS 8
#define ERRNOS 134 /* greater ones are the kernel's own and no program may see them */
#define LARGEST (MAX_MESSAGE + 4096)
#define CANARY 64 /* bytes behind what a call may write */

/* A thread that makes calls. */
struct caller {
	struct random random;
	enum kind doing;
	unsigned long calls; /* read by the watch: no progress is a hang */
	unsigned int ok[KINDS], failed[KINDS][ERRNOS];
	unsigned long leaked; /* calls that failed with an errno of the kernel's own */
	unsigned long wrong; /* results that cannot be */
	char *inbox; /* LARGEST bytes for what is received, and a canary */
	char *scratch; /* LARGEST bytes that are nobody else's */
	bool is_child;
};

/** over - the time is over, and the world was changed in each way, which a slow machine gets more time for */
bool over(void);

/* kinds.c: what was called, and what came of it */
void begin(struct caller *c, enum kind kind);
void ended(struct caller *c, long result);
#define CALL(c, kind, call)              \
	({                               \
		begin(c, kind);          \
		long ret_ = (long)(call); \
		ended(c, ret_);          \
		ret_;                    \
	})
/** seen - something happened that is no call of its own */
void seen(struct caller *c, enum kind kind);
/** wrong - a result that no call may give */
void wrong(struct caller *c, const char *what, long long got, long long limit);
void tally_print(struct caller *callers, int count);
const char *kind_name(enum kind kind);

static inline bool chance(struct caller *c, unsigned int one_in)
{
	return random_below(&c->random, one_in) == 0;
}
static inline uint64_t pick(struct caller *c, uint64_t bound)
{
	return random_below(&c->random, bound);
}
#define ANY_OF(c, list) ((list)[pick(c, ARRAY_SIZE(list))])
/** any_size - small ones more often than large ones, at most @limit */
size_t any_size(struct caller *c, size_t limit);
/** any_number - one that is likely to be a bound of something */
uint64_t any_number(struct caller *c);
/** odd_length - mostly what is right */
socklen_t odd_length(struct caller *c, socklen_t right);

/* memory.c */
void memory_open(void);
/** content - memory that never changes and says of each of its words where it is; *@size is cut to what is there */
const char *content(struct caller *c, size_t *size);
/** content_holds - is this, if it is of content, content without a gap? */
bool content_holds(const char *data, size_t size);
/** source, sink - memory that is unmapped, protected and replaced all the time; to send from, to receive to */
char *source(struct caller *c, size_t *size);
char *sink(struct caller *c, size_t *size);
/** vandal - the thread that does it */
void *vandal(void *arg);

/* world.c: namespaces and what they consist of */
enum { AT_HERE, AT_A, AT_B, AT_DOOMED, HOMES };
/* At a, from where nobody speaks RDS otherwise, and at b; the smaller one, so that its connections are taken. */
#define STRANGER "10.70.0.1"
#define STRANGERS_VICTIM "10.70.0.2"
void world_open(uint64_t seed);
void world_close(void);
/** home_ns - the namespace's descriptor; the doomed one may be gone when it is used */
int home_ns(int home);
/** own_place, far_place - an address of a family that a socket of @home may be bound to, and one that it may reach */
struct addr own_place(struct caller *c, int home, bool six);
struct addr far_place(struct caller *c, int home, bool six);
/** reachable - can a socket of @home reach an address of @other? */
bool reachable(int home, int other);
/** odd_place - an address that is hardly anybody's */
struct addr odd_place(struct caller *c);
/** janitor - the thread that changes the world; world_was_changed - in each way once */
void *janitor(void *arg);
bool world_was_changed(void);
/** all_is_well - does everything work with fresh sockets, in all places? */
bool all_is_well(void);
extern struct caller janitor_tally;

/* pool.c: the sockets that all share */
void pool_open(struct caller *c);
void pool_close(void);
/* The descriptor of a slot, open or not, and what its socket probably is: another thread may just be replacing it. */
struct shared {
	int fd, home;
	bool six;
};
struct shared some_socket(struct caller *c);
/** some_target - where a message of @s may go: mostly to another socket of the pool */
struct addr some_target(struct caller *c, struct shared s);
/** cookie_of - what the kernel calls the namespace of a socket */
uint64_t cookie_of(int fd);
/** pool_evict - close all sockets of a namespace */
void pool_evict(uint64_t cookie);
void call_socket(struct caller *c);
void call_names(struct caller *c);

void call_send(struct caller *c); /* send.c */
void call_receive(struct caller *c); /* receive.c */
void call_option(struct caller *c); /* options.c */
void call_info(struct caller *c);
void call_wait(struct caller *c); /* others.c: poll and epoll */
void call_other(struct caller *c);
void call_stranger(struct caller *c); /* stranger.c: TCP to the RDS port */
/** destroy_connections - as an administrator does with ss -K: TCP connections of RDS in @ns */
void destroy_connections(struct caller *c, int ns);
void call_process(struct caller *c); /* process.c: fork */
void others_open(void);
/** any_call - one of all of these */
void any_call(struct caller *c);

#endif
