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

/* [init] Runs all; 0, or -EIO when a test failed. */
int kapi_test_run(struct kapi_net *net) KAPI_NOEXCEPT;
/* [init] Reads one byte behind an allocation, which only a sanitizer notices. */
int kapi_test_out_of_bounds(void) KAPI_NOEXCEPT;
/* [init] Counts in two contexts at the same time without any lock, which only a race detector notices. */
int kapi_test_race(void) KAPI_NOEXCEPT;
/* [any] Lines of KTAP, in the kernel's log. */
void kapi_test_plan(unsigned long tests) KAPI_NOEXCEPT;
void kapi_test_report(int ok, int number, const char *name) KAPI_NOEXCEPT;

/* [task] From now until it is called with 0, the calling task looks as if a signal were pending for it. */
void kapi_test_signal(int pending) KAPI_NOEXCEPT;

/*
 * [task] Calls use() with a message whose memory is the size bytes at memory, to be read (or written to, into
 * != 0).
 */
int kapi_test_with_msg(void *memory, kapi_size size, int into, int (*use)(struct kapi_msg *msg, void *context),
		       void *context) KAPI_NOEXCEPT;

KAPI_END
#endif
