// SPDX-License-Identifier: GPL-2.0
/* The kernel's side of a socket, and the message argument of its calls. */

#include <linux/pagemap.h>
#include <linux/module.h>
#include <linux/socket.h>
#include <linux/uio.h>
#include <net/sock.h>

#include <kapi/linux.h>
#include <kapi/socket.h>
#include <kapi/wait.h>

#include "opaque.h"
#include "timeo.h"

void kapi_sk_hold(struct kapi_sk *sk)
{
	sock_hold(kapi_sk_to_sock(sk));
}
EXPORT_SYMBOL_GPL(kapi_sk_hold);

int kapi_sk_hold_unless_dead(struct kapi_sk *sk)
{
	return refcount_inc_not_zero(&kapi_sk_to_sock(sk)->sk_refcnt);
}
EXPORT_SYMBOL_GPL(kapi_sk_hold_unless_dead);

void kapi_sk_put(struct kapi_sk *sk)
{
	sock_put(kapi_sk_to_sock(sk));
}
EXPORT_SYMBOL_GPL(kapi_sk_put);

kapi_u32 kapi_sk_sndbuf(struct kapi_sk *sk)
{
	return READ_ONCE(kapi_sk_to_sock(sk)->sk_sndbuf);
}
EXPORT_SYMBOL_GPL(kapi_sk_sndbuf);

kapi_u32 kapi_sk_rcvbuf(struct kapi_sk *sk)
{
	return READ_ONCE(kapi_sk_to_sock(sk)->sk_rcvbuf);
}
EXPORT_SYMBOL_GPL(kapi_sk_rcvbuf);

int kapi_sk_sndbuf_is_set(struct kapi_sk *sk)
{
	return !!(data_race(kapi_sk_to_sock(sk)->sk_userlocks) & SOCK_SNDBUF_LOCK);
}
EXPORT_SYMBOL_GPL(kapi_sk_sndbuf_is_set);

int kapi_sk_rcvbuf_is_set(struct kapi_sk *sk)
{
	return !!(data_race(kapi_sk_to_sock(sk)->sk_userlocks) & SOCK_RCVBUF_LOCK);
}
EXPORT_SYMBOL_GPL(kapi_sk_rcvbuf_is_set);

kapi_u64 kapi_sk_sndtimeo_ns(struct kapi_sk *sk)
{
	return kapi_timeo_ns(READ_ONCE(kapi_sk_to_sock(sk)->sk_sndtimeo));
}
EXPORT_SYMBOL_GPL(kapi_sk_sndtimeo_ns);

kapi_u64 kapi_sk_rcvtimeo_ns(struct kapi_sk *sk)
{
	return kapi_timeo_ns(READ_ONCE(kapi_sk_to_sock(sk)->sk_rcvtimeo));
}
EXPORT_SYMBOL_GPL(kapi_sk_rcvtimeo_ns);

/*
 * A recvmmsg() that a signal interrupts behind its first message leaves the code for "start it again", or EINTR, as the error of
 * the socket (net/socket.c: do_recvmmsg()), which the next call would return to the program. That call has lost nothing.
 */
static int real_error(int error)
{
	return error == ERESTARTSYS || error == EINTR ? 0 : error;
}

int kapi_sk_has_error(struct kapi_sk *kapi_sk)
{
	struct sock *sk = kapi_sk_to_sock(kapi_sk);

	/* What came before the error is seen by those who see it. */
	return real_error(smp_load_acquire(&sk->sk_err)) || !skb_queue_empty_lockless(&sk->sk_error_queue);
}
EXPORT_SYMBOL_GPL(kapi_sk_has_error);

void kapi_sk_set_error(struct kapi_sk *kapi_sk, int error)
{
	struct sock *sk = kapi_sk_to_sock(kapi_sk);

	smp_store_release(&sk->sk_err, error);
	sk_error_report(sk);
}
EXPORT_SYMBOL_GPL(kapi_sk_set_error);

void kapi_sk_signal(struct kapi_sk *sk, unsigned int event)
{
	/* SOCK_WAKE_IO always signals: core decides whether a program missed something. */
	sk_wake_async(kapi_sk_to_sock(sk), SOCK_WAKE_IO, event & KAPI_IN ? POLL_IN : POLL_OUT);
}
EXPORT_SYMBOL_GPL(kapi_sk_signal);

int kapi_sk_take_error(struct kapi_sk *sk)
{
	return -real_error(-sock_error(kapi_sk_to_sock(sk)));
}
EXPORT_SYMBOL_GPL(kapi_sk_take_error);

int kapi_sk_zerocopy(struct kapi_sk *sk)
{
	return sock_flag(kapi_sk_to_sock(sk), SOCK_ZEROCOPY);
}
EXPORT_SYMBOL_GPL(kapi_sk_zerocopy);

int kapi_sk_timestamps(struct kapi_sk *sk)
{
	return sock_flag(kapi_sk_to_sock(sk), SOCK_RCVTSTAMP);
}
EXPORT_SYMBOL_GPL(kapi_sk_timestamps);

void kapi_sk_set_timestamps(struct kapi_sk *kapi_sk, int optname, int on)
{
	struct sock *sk = kapi_sk_to_sock(kapi_sk);

	/* The flags are changed under the socket's lock everywhere. */
	lock_sock(sk);
	sock_valbool_flag(sk, SOCK_RCVTSTAMP, on);
	if (on) {
		sock_reset_flag(sk, SOCK_RCVTSTAMPNS);
		sock_valbool_flag(sk, SOCK_TSTAMP_NEW, optname == SO_TIMESTAMP_NEW);
	}
	release_sock(sk);
}
EXPORT_SYMBOL_GPL(kapi_sk_set_timestamps);

int kapi_sk_ifindex(struct kapi_sk *sk)
{
	return READ_ONCE(kapi_sk_to_sock(sk)->sk_bound_dev_if);
}
EXPORT_SYMBOL_GPL(kapi_sk_ifindex);

kapi_u64 kapi_sk_inode(struct kapi_sk *sk)
{
	return sock_i_ino(kapi_sk_to_sock(sk));
}
EXPORT_SYMBOL_GPL(kapi_sk_inode);

int kapi_optval_copy_in(const struct kapi_optval *optval, void *to, kapi_size size)
{
	might_sleep();
	return copy_from_sockptr(to, optval->value, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_optval_copy_in);

int kapi_optval_copy_out(const struct kapi_optval *optval, kapi_size offset, const void *from, kapi_size size)
{
	might_sleep();
	return copy_to_sockptr_offset(optval->value, offset, from, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_optval_copy_out);

int kapi_optval_probe_out(const struct kapi_optval *optval, kapi_size size)
{
	unsigned long start = (unsigned long)optval->value.user;

	might_sleep();
	if (optval->value.is_kernel || !size)
		return 0;
	if (start + size < start)
		return -EINVAL;
	if (!access_ok(optval->value.user, size))
		return -EFAULT;
	return fault_in_safe_writeable(optval->value.user, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_optval_probe_out);

int kapi_user_copy_in(void *to, kapi_u64 address, kapi_size size)
{
	might_sleep();
	return copy_from_user(to, u64_to_user_ptr(address), size) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_user_copy_in);

int kapi_user_copy_out(kapi_u64 address, const void *from, kapi_size size)
{
	might_sleep();
	return copy_to_user(u64_to_user_ptr(address), from, size) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_user_copy_out);

kapi_size kapi_msg_left(const struct kapi_msg *msg)
{
	return msg_data_left(kapi_msg_to_msghdr(msg));
}
EXPORT_SYMBOL_GPL(kapi_msg_left);

int kapi_msg_copy_in(struct kapi_msg *msg, void *to, kapi_size size)
{
	might_sleep();
	return copy_from_iter(to, size, &kapi_msg_to_msghdr(msg)->msg_iter) == size ? 0 : -EFAULT;
}
EXPORT_SYMBOL_GPL(kapi_msg_copy_in);

int kapi_msg_copy_out(struct kapi_msg *msg, const void *from, kapi_size size)
{
	might_sleep();
	return copy_to_iter(from, size, &kapi_msg_to_msghdr(msg)->msg_iter) == size ? 0 : -EFAULT;
}
EXPORT_SYMBOL_GPL(kapi_msg_copy_out);

void kapi_msg_save(const struct kapi_msg *msg, struct kapi_msg_mark *mark)
{
	*KAPI_INSIDE(struct iov_iter, mark) = kapi_msg_to_msghdr(msg)->msg_iter;
}
EXPORT_SYMBOL_GPL(kapi_msg_save);

void kapi_msg_restore(struct kapi_msg *msg, const struct kapi_msg_mark *mark)
{
	kapi_msg_to_msghdr(msg)->msg_iter = *KAPI_INSIDE(const struct iov_iter, mark);
}
EXPORT_SYMBOL_GPL(kapi_msg_restore);

int kapi_msg_put_cmsg(struct kapi_msg *msg, int level, int type, const void *data, kapi_size size)
{
	might_sleep();
	return put_cmsg(kapi_msg_to_msghdr(msg), level, type, size, (void *)data);
}
EXPORT_SYMBOL_GPL(kapi_msg_put_cmsg);

s64 kapi_msg_cmsg_room(const struct kapi_msg *kapi_msg)
{
	const struct msghdr *msg = kapi_msg_to_msghdr(kapi_msg);
	/* A 32-bit program's header has a length of 32 bits. */
	size_t header = msg->msg_flags & MSG_CMSG_COMPAT ? 3 * sizeof(u32) : CMSG_LEN(0);

	return msg->msg_control ? (s64)msg->msg_controllen - (s64)header : -1;
}
EXPORT_SYMBOL_GPL(kapi_msg_cmsg_room);

int kapi_msg_put_timestamp(struct kapi_msg *msg, struct kapi_sk *sk, kapi_u64 real_ns)
{
	bool nanoseconds = sock_flag(kapi_sk_to_sock(sk), SOCK_RCVTSTAMPNS);
	bool wide = sock_flag(kapi_sk_to_sock(sk), SOCK_TSTAMP_NEW);
	struct timespec64 time = ns_to_timespec64(real_ns);

	if (wide) {
		struct __kernel_timespec ns = { .tv_sec = time.tv_sec, .tv_nsec = time.tv_nsec };
		struct __kernel_sock_timeval us = { .tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / NSEC_PER_USEC };

		return nanoseconds ? kapi_msg_put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMPNS_NEW, &ns, sizeof(ns)) :
				     kapi_msg_put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMP_NEW, &us, sizeof(us));
	} else {
		struct __kernel_old_timespec ns = { .tv_sec = time.tv_sec, .tv_nsec = time.tv_nsec };
		struct __kernel_old_timeval us = { .tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / NSEC_PER_USEC };

		return nanoseconds ? kapi_msg_put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMPNS_OLD, &ns, sizeof(ns)) :
				     kapi_msg_put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMP_OLD, &us, sizeof(us));
	}
}
EXPORT_SYMBOL_GPL(kapi_msg_put_timestamp);
