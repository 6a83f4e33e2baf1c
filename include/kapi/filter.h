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

/* Messages that lie one behind the other in what a stream offers. */
struct kapi_filter_found {
	kapi_u32 *lengths;    /* of those that are whole */
	kapi_u32 count, most; /* so many; at most */
	kapi_u32 longest;     /* that a message may be */
	kapi_s32 said;        /* behind the whole ones the program said this, */
	kapi_u32 stopped;    /* if this is set: no length, or that of a message which is not whole, or too long */
};
/*
 * [any] Runs the program for one message after the other, from offset to end at most. Each is shown as kapi_filter_run() does, by
 * KAPI_FILTER_FIRST_VIEW bytes, or what is there. Returns where the whole ones end. It may end before any other condition is met,
 * behind one message, because others wait for the processor or the turn of the callback is over (kapi_rx_turn_is_over()).
 */
kapi_size kapi_filter_find(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset, kapi_size end,
			   struct kapi_filter_found *found) KAPI_NOEXCEPT;

KAPI_END
#endif
