/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For C glue: the kernel's objects behind kapi's opaque ones. A kapi pointer to a socket, message, namespace
 * or module is the kernel's pointer under another name; the poll in progress is a struct that the glue makes
 * on its stack.
 */
#ifndef KAPI_LINUX_H
#define KAPI_LINUX_H

#include <linux/module.h>
#include <linux/poll.h>
#include <linux/socket.h>
#include <linux/sockptr.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include <kapi/types.h>
#include <kapi/wait.h>

/* Named after a hash of kapi's headers: a module built with others finds no such symbol and is refused. */
extern const int KAPI_ABI;
static const int *const kapi_abi_needed __used = &KAPI_ABI;

struct kapi_poll {
	struct file *file;
	poll_table *table; /* NULL: the caller does not wait */
};

/* The value argument of setsockopt, getsockopt or ioctl, made by the glue on its stack. */
struct kapi_optval {
	sockptr_t value;
};

/*
 * What kapi_sk_charge() needs of a socket: from before it is used (may sleep; -ENOMEM) to its destructor. The
 * running task is charged. Kept in sk_user_data.
 */
int kapi_sk_add_payer(struct sock *sk);
void kapi_sk_remove_payer(struct sock *sk);

static inline struct kapi_sk *kapi_sk_of(struct sock *sk)
{
	return (struct kapi_sk *)sk;
}

static inline struct sock *kapi_sk_to_sock(const struct kapi_sk *sk)
{
	return (struct sock *)sk;
}

static inline struct kapi_msg *kapi_msg_of(struct msghdr *msg)
{
	return (struct kapi_msg *)msg;
}

/*
 * The end of a sendmsg(): core may have copied more than it took, when it found no room for that. io_uring calls again with what
 * is left, which therefore has to begin behind what was taken. before: msg_data_left() at the beginning.
 */
static inline s64 kapi_msg_sent(struct msghdr *msg, size_t before, s64 result)
{
	size_t copied = before - msg_data_left(msg), taken = result > 0 ? result : 0;

	if (unlikely(copied > taken))
		iov_iter_revert(&msg->msg_iter, copied - taken);
	return result;
}

static inline struct msghdr *kapi_msg_to_msghdr(const struct kapi_msg *msg)
{
	return (struct msghdr *)msg;
}

static inline struct kapi_net *kapi_net_of(struct net *net)
{
	return (struct kapi_net *)net;
}

static inline struct net *kapi_net_to_net(const struct kapi_net *net)
{
	return (struct net *)net;
}

static inline struct kapi_module *kapi_module_of(struct module *module)
{
	return (struct kapi_module *)module;
}

static inline struct module *kapi_module_to_module(const struct kapi_module *module)
{
	return (struct module *)module;
}

#endif
