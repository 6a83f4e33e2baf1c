/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Any call on any of a few sockets, by many threads, while addresses, links, namespaces, settings and memory come and go
 * under them. Errors are fine; a call that never works is not, because then nothing behind it is tested.
 */
#ifndef SELFTESTS_RDS_FUZZ_H
#define SELFTESTS_RDS_FUZZ_H

#include "fuzz/calls.h"
#include "fuzz/memory.h"
#include "fuzz/storm.h"
#include "rds.h"

#include "kinds.h"

/* world.c: namespaces and what they consist of */
enum { AT_HERE, AT_A, AT_B, AT_DOOMED, HOMES };
/* At a, from where nobody speaks RDS otherwise, and at b; the smaller one, so that its connections are taken. */
#define STRANGER "10.70.0.1"
#define STRANGERS_VICTIM "10.70.0.2"
void world_open(void);
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
void janitor(struct caller *c);
bool world_was_changed(void);
/** all_is_well - does everything work with fresh sockets, in all places? */
bool all_is_well(void);

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

#endif
