/* SPDX-License-Identifier: GPL-2.0 */
/* Calls that sockets of any family have. */
#ifndef SELFTESTS_LIB_FUZZ_CALLS_H
#define SELFTESTS_LIB_FUZZ_CALLS_H

#include "caller.h"

void calls_open(void);
/** set_of_socket - any option of any socket; sizes are bounded: what a privileged program may take is not the subject */
void set_of_socket(struct caller *c, int kind, int fd);
/** get_any - any room, anywhere, for the value of an option */
void get_any(struct caller *c, int kind, int fd, int level, int option);
/** poll_any - some of what @some gives; epoll_any - one epoll for all, @kinds are those of epoll_ctl and epoll_wait */
void poll_any(struct caller *c, int kind, int (*some)(struct caller *c));
void epoll_any(struct caller *c, const int kinds[2], int (*some)(struct caller *c));
/** cookie_of - what the kernel calls the namespace of a socket */
uint64_t cookie_of(int fd);
/** any_flags - one or two that there may be for sending or receiving */
int any_flags(struct caller *c);
/** receive_to_sink - into memory that comes and goes; receive_bad_header - with a msghdr that is none */
void receive_to_sink(struct caller *c, int kind, int fd);
void receive_bad_header(struct caller *c, int kind, int fd);
/** ioctl_any - those of sockets in general, and @count from @first on: devices' wait for others than us */
void ioctl_any(struct caller *c, int kind, int fd, unsigned int first, unsigned int count);

#endif
