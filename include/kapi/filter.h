/* SPDX-License-Identifier: GPL-2.0 */
/* BPF programs, given by descriptor, that find the length of a message in its bytes. */
#ifndef KAPI_FILTER_H
#define KAPI_FILTER_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_filter;
struct kapi_rx;

/*
 * What a program is shown of a message that has so many bytes: first this many, which are enough for most headers, and
 * when its result is not a length, the most that it is ever shown. Programs can see the difference, so both are ABI.
 */
#define KAPI_FILTER_FIRST_VIEW 64
#define KAPI_FILTER_VIEW 4096

/* [task] A reference to the program (of type SOCKET_FILTER) behind fd. -EBADF: fd is nothing; -EINVAL: something else.
 */
int kapi_filter_get(int fd, struct kapi_filter **filter) KAPI_NOEXCEPT;
void kapi_filter_put(struct kapi_filter *filter) KAPI_NOEXCEPT; /* [any] NULL allowed */
/*
 * [any] Runs the program over size bytes, at most KAPI_FILTER_VIEW, which it sees as a packet of that length that
 * begins at bytes. Returns what the program returned.
 */
kapi_s32 kapi_filter_run(const struct kapi_filter *filter, const void *bytes, kapi_size size) KAPI_NOEXCEPT;
/* [any] The same over size bytes at offset of what a stream offers. */
kapi_s32 kapi_filter_run_rx(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset,
			    kapi_size size) KAPI_NOEXCEPT;

KAPI_END
#endif
