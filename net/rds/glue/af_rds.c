// SPDX-License-Identifier: GPL-2.0
/*
 * The socket family. Each function unpacks what the kernel passes, calls core and packs the result.
 *
 * struct sock owns the core object and frees it in its destructor: what still holds a reference to the sock
 * after close() (a message on its way, a delivery in progress) finds a closed core object, never a freed one.
 * Until that destructor has run the module is pinned, by the proto that the sock was allocated from.
 */
#include <linux/compat.h>
#include <linux/errqueue.h>
#include <linux/in.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/version.h>
#include <net/sock.h>

#include <kapi/linux.h>
#include <kapi/socket.h>

#include "glue.h"
#include "rds_core.h"

/* An address of any length, which is given beside it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
typedef struct sockaddr_unsized rds_any_address;
#else
typedef struct sockaddr rds_any_address;
#endif

struct rds_sock {
	struct sock sk; /* first: the kernel allocates it as a sock */
	struct rds_socket *core;
};

static struct rds_socket *rds_core_of(struct socket *sock)
{
	return container_of(sock->sk, struct rds_sock, sk)->core;
}

static void rds_sock_destruct(struct sock *sk)
{
	struct rds_sock *rs = container_of(sk, struct rds_sock, sk);

	skb_queue_purge(&sk->sk_error_queue);
	/* NULL: the core refused to make one. */
	if (rs->core)
		rds_socket_destroy(rs->core);
	kapi_sk_remove_payer(sk);
}

static int rds_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (!sk)
		return 0;
	rds_socket_release(rds_core_of(sock));
	sock_orphan(sk);
	sock->sk = NULL;
	sock_put(sk);
	return 0;
}

static int rds_bind(struct socket *sock, rds_any_address *name, int length)
{
	return rds_socket_bind(rds_core_of(sock), name, length);
}

static int rds_connect(struct socket *sock, rds_any_address *name, int length, int flags)
{
	return rds_socket_connect(rds_core_of(sock), name, length);
}

static int rds_getname(struct socket *sock, struct sockaddr *name, int peer)
{
	return rds_socket_getname(rds_core_of(sock), name, peer);
}

static __poll_t rds_poll(struct file *file, struct socket *sock, poll_table *table)
{
	struct kapi_poll poll = { .file = file, .table = table };

	return (__force __poll_t)rds_socket_poll(rds_core_of(sock), &poll);
}

static int rds_ioctl(struct socket *sock, unsigned int command, unsigned long argument)
{
	struct kapi_optval value = { .value = USER_SOCKPTR((void __user *)argument) };

	return rds_socket_ioctl(rds_core_of(sock), command, &value);
}

#ifdef CONFIG_COMPAT
static int rds_compat_ioctl(struct socket *sock, unsigned int command, unsigned long argument)
{
	return rds_ioctl(sock, command, (unsigned long)compat_ptr(argument));
}
#endif

static int rds_setsockopt(struct socket *sock, int level, int name, sockptr_t user, unsigned int length)
{
	struct kapi_optval value = { .value = user };

	if (level != SOL_RDS)
		return -ENOPROTOOPT;
	return rds_socket_setsockopt(rds_core_of(sock), name, &value, length);
}

static int rds_getsockopt(struct socket *sock, int level, int name, char __user *user,
			  int __user *user_length)
{
	struct kapi_optval value = { .value = USER_SOCKPTR(user) };
	int length, result, report = 0;

	if (level != SOL_RDS)
		return -ENOPROTOOPT;
	if (get_user(length, user_length))
		return -EFAULT;
	result = rds_socket_getsockopt(rds_core_of(sock), name, &value, &length, &report);
	if (report && put_user(length, user_length))
		return -EFAULT;
	return result;
}

/*
 * Flags that the kernel adds for itself and that have no meaning for a protocol that copies. Control data of a
 * 32-bit program arrives translated; MSG_CMSG_COMPAT stays in msg_flags, where put_cmsg() looks for it.
 */
#ifdef MSG_SPLICE_PAGES
#define RDS_INTERNAL_FLAGS (MSG_CMSG_COMPAT | MSG_SPLICE_PAGES)
#else
#define RDS_INTERNAL_FLAGS (MSG_CMSG_COMPAT | MSG_SENDPAGE_NOTLAST)
#endif

static int rds_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	struct rds_send send = {
		.msg = kapi_msg_of(msg),
		.size = size,
		.name = msg->msg_name,
		.name_length = msg->msg_name ? msg->msg_namelen : 0,
		.control = msg->msg_control,
		.control_length = msg->msg_control ? msg->msg_controllen : 0,
		.flags = msg->msg_flags & ~RDS_INTERNAL_FLAGS,
	};

	return kapi_msg_sent(msg, size, rds_socket_sendmsg(rds_core_of(sock), &send));
}

static int rds_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct rds_receive receive = {
		.msg = kapi_msg_of(msg),
		.size = size,
		.flags = flags & ~RDS_INTERNAL_FLAGS,
	};
	s64 result;

	if (flags & MSG_ERRQUEUE)
		return sock_recv_errqueue(sock->sk, msg, size, SOL_IP, IP_RECVERR);
	result = rds_socket_recvmsg(rds_core_of(sock), &receive);
	if (result < 0)
		return result;
	msg->msg_flags |= receive.out_flags;
	if (msg->msg_name) {
		memcpy(msg->msg_name, receive.name, receive.name_length);
		msg->msg_namelen = receive.name_length;
	}
	return result;
}

static const struct proto_ops rds_proto_ops = {
	.family = PF_RDS,
	.owner = THIS_MODULE,
	.release = rds_release,
	.bind = rds_bind,
	.connect = rds_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = rds_getname,
	.poll = rds_poll,
	.ioctl = rds_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = rds_compat_ioctl,
#endif
	.listen = sock_no_listen,
	.shutdown = sock_no_shutdown,
	.setsockopt = rds_setsockopt,
	.getsockopt = rds_getsockopt,
	.sendmsg = rds_sendmsg,
	.recvmsg = rds_recvmsg,
	.mmap = sock_no_mmap,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	.sendpage = sock_no_sendpage,
#endif
};

static struct proto rds_proto = {
	.name = "RDS",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct rds_sock),
};

/* SO_SNDBUF was set: nothing else calls this, as no buffer of the network is charged to these sockets. */
static void rds_write_space(struct sock *sk)
{
	rds_socket_send_limit_changed(container_of(sk, struct rds_sock, sk)->core);
}

static int rds_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	struct rds_sock *rs;
	struct sock *sk;
	int err;

	err = rds_socket_check(sock->type, protocol);
	if (err)
		return err;
	sk = sk_alloc(net, AF_RDS, GFP_KERNEL, &rds_proto, kern);
	if (!sk)
		return -ENOMEM;
	rs = container_of(sk, struct rds_sock, sk);
	rs->core = NULL;
	sock_init_data(sock, sk);
	sock->ops = &rds_proto_ops;
	sk->sk_protocol = protocol;
	sk->sk_destruct = rds_sock_destruct;
	err = kapi_sk_add_payer(sk);
	if (!err)
		err = rds_socket_create(rds_glue_net(net), kapi_sk_of(sk), &rs->core);
	if (err) {
		rs->core = NULL;
		sock_orphan(sk);
		sock->sk = NULL;
		sock_put(sk);
		return err;
	}
	sk->sk_write_space = rds_write_space;
	return 0;
}

static const struct net_proto_family rds_family = {
	.family = PF_RDS,
	.create = rds_create,
	.owner = THIS_MODULE,
};

int rds_glue_family_register(void)
{
	int err;

	err = proto_register(&rds_proto, 1);
	if (err)
		return err;
	err = sock_register(&rds_family);
	if (err)
		proto_unregister(&rds_proto);
	return err;
}

void rds_glue_family_unregister(void)
{
	sock_unregister(PF_RDS);
	proto_unregister(&rds_proto);
}
