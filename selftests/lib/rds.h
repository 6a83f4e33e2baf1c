/* SPDX-License-Identifier: GPL-2.0 */
/* RDS sockets and addresses, control messages, counters, as the test programs use them. */
#ifndef SELFTESTS_LIB_RDS_H
#define SELFTESTS_LIB_RDS_H

#include <linux/rds.h>

#include "net.h"
#include "sock.h"

#define RDS_TCP_PORT 16385
#define MAX_MESSAGE (1 << 20)

/* Literal numbers, because SO_TIMESTAMP depends on the C library's time_t. */
#define STAMP_OLD 29
#define STAMP_NEW 63

/** rds_socket - a fresh RDS socket in @ns */
int rds_socket(int ns);
/** rds_bound - an RDS socket in @ns bound to @text and @port; 0 takes any port */
int rds_bound(int ns, const char *text, uint16_t port);
int rds_bind(int fd, const struct addr *a);
int rds_connect(int fd, const struct addr *a);
/** rds_send - to @to, or to the connected peer when @to is NULL */
ssize_t rds_send(int fd, const void *buf, size_t len, const struct addr *to, int flags);
ssize_t rds_recv(int fd, void *buf, size_t len, struct addr *from, int flags);
/** rds_recv_soon - rds_recv that waits at most SOON_MS, without any socket time-out being set */
ssize_t rds_recv_soon(int fd, void *buf, size_t len, struct addr *from);
/** rds_counter - a counter of @ns by name; the test ends if there is none */
uint64_t rds_counter(int ns, const char *name);
bool rds_has_counter(int ns, const char *name);

/*
 * Two namespaces joined by a link, each with its own addresses, for tests that need real TCP between them in
 * one machine. Addresses of a are the smaller ones, which decides who connects.
 */
struct pair {
	int a, b;
};

#define PAIR_A4 "10.77.0.1"
#define PAIR_B4 "10.77.0.2"
#define PAIR_A6 "fd77::1"
#define PAIR_B6 "fd77::2"

struct pair pair_new(void);
void pair_delete(struct pair *p);

/** here_addresses - add addresses to the loopback link that RDS uses over TCP */
#define HERE4 "10.78.0.1"
#define HERE6 "fd78::1"
void here_addresses(void);

#endif
