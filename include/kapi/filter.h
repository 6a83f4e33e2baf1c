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

/*
 * Bytes that a stream offers, which several runs look at one after the other. Between begin and end bottom halves are off, or the
 * caller is in a softirq: the runs have to be few. There is one view at a time, and no other run meanwhile.
 */
struct kapi_filter_view {
	void *packet;
	kapi_size offset, size; /* in what is offered */
};
/* [any] The view has size bytes at offset, at most KAPI_FILTER_VIEW. */
void kapi_filter_begin(struct kapi_filter_view *view, struct kapi_rx *rx, kapi_size offset, kapi_size size) KAPI_NOEXCEPT;
/* [softirq] As kapi_filter_run() over size bytes at offset of what is offered, all of which are in the view. */
kapi_s32 kapi_filter_run_view(const struct kapi_filter *filter, const struct kapi_filter_view *view, kapi_size offset,
			      kapi_size size) KAPI_NOEXCEPT;
void kapi_filter_end(struct kapi_filter_view *view) KAPI_NOEXCEPT; /* [softirq] */

KAPI_END
#endif
