/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's side of a socket, and the message argument of its calls. */
#ifndef KAPI_SOCKET_H
#define KAPI_SOCKET_H

#include <kapi/types.h>

KAPI_BEGIN

/* [any] References. The last put runs the destructor, which frees the core object. */
void kapi_sk_hold(struct kapi_sk *sk) KAPI_NOEXCEPT;
int kapi_sk_hold_unless_dead(struct kapi_sk *sk) KAPI_NOEXCEPT; /* 0: no reference left, sk is dying */
void kapi_sk_put(struct kapi_sk *sk) KAPI_NOEXCEPT;

/* [any] SOL_SOCKET values as the kernel keeps them (that is twice the value that the user set). */
kapi_u32 kapi_sk_sndbuf(struct kapi_sk *sk) KAPI_NOEXCEPT;
kapi_u32 kapi_sk_rcvbuf(struct kapi_sk *sk) KAPI_NOEXCEPT;
int kapi_sk_sndbuf_is_set(struct kapi_sk *sk) KAPI_NOEXCEPT; /* [any] the program set SO_SNDBUF: not the default */
int kapi_sk_rcvbuf_is_set(struct kapi_sk *sk) KAPI_NOEXCEPT;
/* [any] SO_SNDTIMEO and SO_RCVTIMEO, in ns; KAPI_FOREVER when unset. */
kapi_u64 kapi_sk_sndtimeo_ns(struct kapi_sk *sk) KAPI_NOEXCEPT;
kapi_u64 kapi_sk_rcvtimeo_ns(struct kapi_sk *sk) KAPI_NOEXCEPT;
int kapi_sk_has_error(struct kapi_sk *sk) KAPI_NOEXCEPT;  /* [any] sk_err or a queued error: poll reports ERR */
/* [any] The error (positive) that SO_ERROR, the next call and poll are going to report, once. */
void kapi_sk_set_error(struct kapi_sk *sk, int error) KAPI_NOEXCEPT;
/* [any] What is new, KAPI_IN or KAPI_OUT: SIGIO for programs that enabled it (O_ASYNC). */
void kapi_sk_signal(struct kapi_sk *sk, unsigned int event) KAPI_NOEXCEPT;
int kapi_sk_take_error(struct kapi_sk *sk) KAPI_NOEXCEPT; /* [any] 0 or the negative errno, which is gone then */
int kapi_sk_zerocopy(struct kapi_sk *sk) KAPI_NOEXCEPT;   /* [any] SO_ZEROCOPY is set */
int kapi_sk_timestamps(struct kapi_sk *sk) KAPI_NOEXCEPT; /* [any] SO_TIMESTAMP of some kind is set */
/* [task] SO_TIMESTAMP_OLD (29) or SO_TIMESTAMP_NEW (63) given at our own level. */
void kapi_sk_set_timestamps(struct kapi_sk *sk, int optname, int on) KAPI_NOEXCEPT;
int kapi_sk_ifindex(struct kapi_sk *sk) KAPI_NOEXCEPT; /* [any] SO_BINDTODEVICE, or 0 */

/*
 * [any] Charges size bytes, held for the socket's owner, to the memory cgroup and the user for whom the socket was made.
 * 0: charged. 1: charged, but little is left to it: senders should wait. -ENOMEM: nothing was charged; the cgroup has no more
 * and the socket has what is guaranteed (KAPI_GUARANTEED), or the user has a full share of the machine's memory (kapi/share.h).
 * uncharge gives back what was charged, before the socket's destructor returns.
 */
int kapi_sk_charge(struct kapi_sk *sk, kapi_size size) KAPI_NOEXCEPT;
void kapi_sk_uncharge(struct kapi_sk *sk, kapi_size size) KAPI_NOEXCEPT;

/* [task] Bytes of user memory not yet copied. */
kapi_size kapi_msg_left(const struct kapi_msg *msg) KAPI_NOEXCEPT;
/* [task] Copies exactly size bytes from or to the user's memory and moves on. -EFAULT: then the place is undefined. */
int kapi_msg_copy_in(struct kapi_msg *msg, void *to, kapi_size size) KAPI_NOEXCEPT;
int kapi_msg_copy_out(struct kapi_msg *msg, const void *from, kapi_size size) KAPI_NOEXCEPT;
/* [task] Remembers the place in the user's memory and goes back to it. */
struct kapi_msg_mark {
	unsigned long opaque[KAPI_SIZE_MSG_MARK / sizeof(unsigned long)];
};
void kapi_msg_save(const struct kapi_msg *msg, struct kapi_msg_mark *mark) KAPI_NOEXCEPT;
void kapi_msg_restore(struct kapi_msg *msg, const struct kapi_msg_mark *mark) KAPI_NOEXCEPT;
/* [task] Appends a control message for the receiver; sets MSG_CTRUNC when there is no room. -EFAULT. */
int kapi_msg_put_cmsg(struct kapi_msg *msg, int level, int type, const void *data, kapi_size size) KAPI_NOEXCEPT;
/* [task] The most bytes of data that the next control message can have. Negative: there is no room for one. */
kapi_s64 kapi_msg_cmsg_room(const struct kapi_msg *msg) KAPI_NOEXCEPT;
/* [task] The timestamp control message in the form that sk's owner selected. */
int kapi_msg_put_timestamp(struct kapi_msg *msg, struct kapi_sk *sk, kapi_u64 real_ns) KAPI_NOEXCEPT;

/* The value argument of setsockopt, getsockopt and ioctl: user memory, or kernel memory for a BPF program. */
struct kapi_optval;
int kapi_optval_copy_in(const struct kapi_optval *optval, void *to, kapi_size size) KAPI_NOEXCEPT; /* [task] -EFAULT */
int kapi_optval_copy_out(const struct kapi_optval *optval, kapi_size offset, const void *from,
			 kapi_size size) KAPI_NOEXCEPT; /* [task] -EFAULT */

/* [task] Could all size bytes be written? -EINVAL: they wrap around the address space; -EFAULT: no. Changes nothing. */
int kapi_optval_probe_out(const struct kapi_optval *optval, kapi_size size) KAPI_NOEXCEPT;
/* [task] Copies from an address that the program passed inside of a structure. -EFAULT. */
int kapi_user_copy_in(void *to, kapi_u64 address, kapi_size size) KAPI_NOEXCEPT;
int kapi_user_copy_out(kapi_u64 address, const void *from, kapi_size size) KAPI_NOEXCEPT; /* [task] the same to there */

kapi_u64 kapi_sk_inode(struct kapi_sk *sk) KAPI_NOEXCEPT; /* [any] the inode number that names the socket in /proc */

KAPI_END
#endif
