/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random calls on a few sockets by many threads, while addresses, links, namespaces, settings and memory come and go
 * at the same time. Errors are fine; a call that never works is not, because then the code behind it is not tested.
 */
#ifndef SELFTESTS_RDS_FUZZ_H
#define SELFTESTS_RDS_FUZZ_H

#include <hawser_rds.h>

#include "fuzz/calls.h"
#include "fuzz/memory.h"
#include "fuzz/storm.h"
#include "rds.h"

#include "kinds.h"

/* world.c: namespaces and their contents */
enum { AT_HERE, AT_A, AT_B, AT_DOOMED, HOMES };
/* At a, an address that RDS does not use, and at b; a's is smaller, so that its connections are accepted. */
#define STRANGER "10.70.0.1"
#define STRANGERS_VICTIM "10.70.0.2"
void world_open(void);
void world_close(void);
/** home_ns - the namespace's descriptor; the doomed one may be gone when it is used */
int home_ns(int home);
/** own_place, far_place - addresses for binding a socket of @home, and for its peer */
struct addr own_place(struct caller *c, int home, bool six);
struct addr far_place(struct caller *c, int home, bool six);
/** reachable - true if a socket of @home can reach an address of @other */
bool reachable(int home, int other);
/** odd_place - an address that is probably invalid or unused */
struct addr odd_place(struct caller *c);
/** janitor - the thread that changes the world; world_was_changed - true after each kind of change */
void janitor(struct caller *c);
bool world_was_changed(void);
/** all_is_well - true if everything works with fresh sockets, in all places */
bool all_is_well(void);

/* pool.c: the shared sockets */
void pool_open(struct caller *c);
void pool_close(void);
/* The descriptor of a slot, open or not, and its socket's probable kind: another thread may be replacing it. */
struct shared {
	int fd, home;
	bool six;
};
struct shared some_socket(struct caller *c);
/** some_target - a destination for @s, mostly another socket of the pool */
struct addr some_target(struct caller *c, struct shared s);
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
/** destroy_connections - like ss -K: TCP connections of RDS in @ns */
void destroy_connections(struct caller *c, int ns);

#endif
