/* SPDX-License-Identifier: GPL-2.0 */
/* Calls for sockets of any family. */
#ifndef SELFTESTS_LIB_FUZZ_CALLS_H
#define SELFTESTS_LIB_FUZZ_CALLS_H

#include "caller.h"

void calls_open(void);
/** set_of_socket - any option of any socket; sizes are bounded, because limits of privileged programs are not tested */
void set_of_socket(struct caller *c, int kind, int fd);
/** get_any - any room, anywhere, for the value of an option */
void get_any(struct caller *c, int kind, int fd, int level, int option);
/** poll_any - some descriptors of @some; epoll_any - one epoll for all, @kinds are those of epoll_ctl and epoll_wait */
void poll_any(struct caller *c, int kind, int (*some)(struct caller *c));
void epoll_any(struct caller *c, const int kinds[2], int (*some)(struct caller *c));
/** cookie_of - the kernel's cookie of a socket's namespace */
uint64_t cookie_of(int fd);
/** any_flags - one or two flags for sending or receiving */
int any_flags(struct caller *c);
/** receive_to_sink - into memory that is mapped and unmapped; receive_bad_header - with an invalid msghdr */
void receive_to_sink(struct caller *c, int kind, int fd);
void receive_bad_header(struct caller *c, int kind, int fd);
/** ioctl_any - those of all sockets, and @count from @first on; none of devices, which may wait for others */
void ioctl_any(struct caller *c, int kind, int fd, unsigned int first, unsigned int count);

#endif
