/* SPDX-License-Identifier: GPL-2.0 */
/* Between the test module's C and C++. */
#ifndef KAPI_TEST_H
#define KAPI_TEST_H

#ifndef __cplusplus
#include <kapi/linux.h>
#endif
#include <kapi/socket.h>
#include <kapi/types.h>

KAPI_BEGIN

struct kapi_stream;

/* [init] Runs all; 0, or -EIO when a test failed. */
int kapi_test_run(struct kapi_net *net) KAPI_NOEXCEPT;
/* [init] Reads one byte behind an allocation, which only a sanitizer notices. */
int kapi_test_out_of_bounds(void) KAPI_NOEXCEPT;
/* [init] Counts in two contexts at the same time without any lock, which only a race detector notices. */
int kapi_test_race(void) KAPI_NOEXCEPT;
/* [init] Calls a function through a pointer of another type, which only a kernel with CFI notices. */
int kapi_test_wrong_type(void) KAPI_NOEXCEPT;
/* [any] Lines of KTAP, in the kernel's log. */
void kapi_test_plan(unsigned long tests) KAPI_NOEXCEPT;
void kapi_test_report(int ok, int number, const char *name) KAPI_NOEXCEPT;

/* [task] Simulates a pending signal for the calling task, until called with 0. */
void kapi_test_signal(int pending) KAPI_NOEXCEPT;

/*
 * [task] Calls use() with a message whose memory is the size bytes at memory, to be read (or written to, into
 * != 0).
 */
int kapi_test_with_msg(void *memory, kapi_size size, int into, int (*use)(struct kapi_msg *msg, void *context),
		       void *context) KAPI_NOEXCEPT;

/* [task] Does a search for messages let others run? 0, or 1 to 4: what it does not do (filters.c); or an error. */
int kapi_test_filter(void) KAPI_NOEXCEPT;
/* [task] Does the account of a processor end turns? 0, or 1 to 4: what it does not do (filters.c). */
int kapi_test_turn(void) KAPI_NOEXCEPT;

/* [task] Are accounts as before when what several calls have charged is uncharged by one? 0, or 1: no; or an error. */
int kapi_test_charges(void) KAPI_NOEXCEPT;

kapi_size kapi_test_page_size(const void *page) KAPI_NOEXCEPT; /* [any] of the page of a segment, in all */

/*
 * [task] A program's TCP sockets, by descriptors of this task. Calls wait ten seconds at most. They return what was
 * written, read or is there to be read, a new descriptor, 0, or an error.
 */
int kapi_test_socket_pair(int *fds) KAPI_NOEXCEPT; /* connected to each other */
int kapi_test_disconnect(int fd) KAPI_NOEXCEPT;
int kapi_test_reconnect(int fd) KAPI_NOEXCEPT;     /* disconnects fd, connects it to a new socket and returns that */
void kapi_test_no_scatter_gather(int fd) KAPI_NOEXCEPT; /* as if its route had none */
void kapi_test_no_delay(int fd) KAPI_NOEXCEPT; /* as TCP_NODELAY */
void kapi_test_lock(int fd, int locked) KAPI_NOEXCEPT; /* takes the socket's lock, or releases it */
int kapi_test_add_rmem(int fd, int size) KAPI_NOEXCEPT; /* to what its receive queue counts as memory; returns the sum */
long kapi_test_write(int fd, const void *bytes, kapi_size size) KAPI_NOEXCEPT;
/*
 * By reference to pages that others could still write to, 32 KiB each. 1: they arrive unchanged, many in one
 * buffer; 0: the kernel (from 6.5 on) takes them for eight pages each.
 */
int kapi_test_write_shared(int fd, const void *bytes, kapi_size size) KAPI_NOEXCEPT;
long kapi_test_read(int fd, void *bytes, kapi_size size) KAPI_NOEXCEPT; /* less than size: the end of the stream */
long kapi_test_unread(int fd) KAPI_NOEXCEPT; /* as FIONREAD */
int kapi_test_buffers(int fd) KAPI_NOEXCEPT; /* that its receive queue has */
int kapi_test_take_error(int fd) KAPI_NOEXCEPT; /* as SO_ERROR */
/*
 * Before it is attached: when fd's socket gets its own callbacks back, with the lock held, bytes are sent from its peer. The
 * second call, on the same fd, ends that: 1: bytes could be read from an open connection; 0: none; an error: there was no such
 * moment.
 */
void kapi_test_send_when_given_back(int fd, int peer) KAPI_NOEXCEPT;
int kapi_test_was_readable(int fd) KAPI_NOEXCEPT;
/* Until the stream, which was adopted and is full, looks whether it was replaced; -1: it does not. */
int kapi_test_looks_in_ms(const struct kapi_stream *stream) KAPI_NOEXCEPT;
void kapi_test_shut(int fd) KAPI_NOEXCEPT;   /* sends FIN */
void kapi_test_close(int fd) KAPI_NOEXCEPT;

KAPI_END
#endif
