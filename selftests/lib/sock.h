/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets of any family: addresses, options, time-outs, poll() and control messages. */
#ifndef SELFTESTS_LIB_SOCK_H
#define SELFTESTS_LIB_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	};
	socklen_t len;
};

/** addr - from text: IPv4, IPv6, or IPv6 with a scope as in "fe80::1%2" (an index) */
struct addr addr(const char *text, uint16_t port);
uint16_t addr_port(const struct addr *a);
void addr_set_port(struct addr *a, uint16_t port);
bool addr_same(const struct addr *a, const struct addr *b);
/** addr_of - the address that @fd is bound to */
struct addr addr_of(int fd);

/** polled - the events of poll() within @ms, 0 for none */
int polled(int fd, short events, int ms);

int set_int(int fd, int level, int option, int value);
/** get_int - the value of an option that must be readable and an int */
int get_int(int fd, int level, int option);
void set_timeout_ms(int fd, int option, int ms);

/* A message with control data under construction, or just received. */
struct control {
	char data[2048] __attribute__((aligned(8)));
	size_t len;
};

/** control_add - append one control message; returns its payload */
void *control_add(struct control *c, int level, int type, const void *data, size_t len);
/** send_control - a message of @len bytes with @c */
ssize_t send_control(int fd, const void *buf, size_t len, const struct addr *to, const struct control *c,
			 int flags);
/** recv_control - receive with room for control messages; @msg_flags may be NULL */
ssize_t recv_control(int fd, void *buf, size_t len, struct control *c, int flags, int *msg_flags);
/** control_find - the payload of a control message of at least @len bytes, or NULL */
void *control_find(struct control *c, int level, int type, size_t len);

#endif
