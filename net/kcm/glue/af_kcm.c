// SPDX-License-Identifier: GPL-2.0
/*
 * The socket family. Each function unpacks what the kernel passes, calls core and packs the result.
 *
 * struct sock owns the core object and frees it in its destructor. Until that has run the module is pinned, by the proto
 * that the sock was allocated from: also while a closed socket sends what is left.
 */
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/kcm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/pipe_fs_i.h>
#include <linux/splice.h>
#include <linux/uio.h>
#include <linux/version.h>
#include <net/sock.h>

#include <kapi/linux.h>
#include <kapi/socket.h>

#include "glue.h"
#include "kcm_core.h"

struct kcm_sk {
	struct sock sk; /* first: the kernel allocates it as a sock */
	struct kcm_socket *core;
};

static const struct proto_ops kcm_proto_ops;

static struct kcm_socket *kcm_core_of(struct socket *sock)
{
	return container_of(sock->sk, struct kcm_sk, sk)->core;
}

static void kcm_sock_destruct(struct sock *sk)
{
	struct kcm_sk *ks = container_of(sk, struct kcm_sk, sk);

	/* NULL: the core refused to make one. */
	if (ks->core)
		kcm_socket_destroy(ks->core);
}

static int kcm_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (!sk)
		return 0;
	kcm_socket_release(kcm_core_of(sock));
	sock_orphan(sk);
	sock->sk = NULL;
	sock_put(sk);
	return 0;
}

static __poll_t kcm_poll(struct file *file, struct socket *sock, poll_table *table)
{
	struct kapi_poll poll = { .file = file, .table = table };

	/* The core wakes its own queue; this one the kernel, at an error. */
	poll_wait(file, sk_sleep(sock->sk), table);
	return (__force __poll_t)kcm_socket_poll(kcm_core_of(sock), &poll);
}

/* SO_SNDBUF was set: nothing else calls this, as no buffer of the network is charged to these sockets. */
static void kcm_write_space(struct sock *sk)
{
	kcm_socket_send_limit_changed(container_of(sk, struct kcm_sk, sk)->core);
}

static struct proto kcm_proto = {
	.name = "KCM",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct kcm_sk),
};

/* Gives sock its kernel and core sides. */
static int kcm_init_sock(struct net *net, struct socket *sock, struct kcm_socket *sibling, int kern)
{
	struct kcm_sk *ks;
	struct sock *sk;
	int err;

	sk = sk_alloc(net, AF_KCM, GFP_KERNEL, &kcm_proto, kern);
	if (!sk)
		return -ENOMEM;
	ks = container_of(sk, struct kcm_sk, sk);
	ks->core = NULL;
	sock_init_data(sock, sk);
	sock->ops = &kcm_proto_ops;
	sk->sk_destruct = kcm_sock_destruct;
	err = kcm_socket_create(kcm_glue_net(net), kapi_sk_of(sk), sock->type, sibling, &ks->core);
	if (err) {
		ks->core = NULL;
		sock_orphan(sk);
		sock->sk = NULL;
		sock_put(sk);
		return err;
	}
	sk->sk_write_space = kcm_write_space;
	return 0;
}

static int kcm_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	int err;

	err = kcm_socket_check(sock->type, protocol);
	return err ? err : kcm_init_sock(net, sock, NULL, kern);
}

/* The file of a new socket of old's multiplexor. */
static struct file *kcm_clone_file(struct socket *old)
{
	struct socket *sock = sock_alloc();
	int err;

	if (!sock)
		return ERR_PTR(-ENFILE);
	sock->type = old->type;
	sock->ops = old->ops;
	__module_get(sock->ops->owner);
	err = kcm_init_sock(sock_net(old->sk), sock, kcm_core_of(old), 0);
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}
	return sock_alloc_file(sock, 0, kcm_proto.name);
}

static int kcm_clone(struct socket *old, struct kcm_clone __user *user)
{
	struct kcm_clone made;
	struct file *file;

	made.fd = get_unused_fd_flags(0);
	if (made.fd < 0)
		return made.fd;
	file = kcm_clone_file(old);
	if (IS_ERR(file)) {
		put_unused_fd(made.fd);
		return PTR_ERR(file);
	}
	if (copy_to_user(user, &made, sizeof(made))) {
		put_unused_fd(made.fd);
		fput(file);
		return -EFAULT;
	}
	fd_install(made.fd, file);
	return 0;
}

static int kcm_ioctl(struct socket *sock, unsigned int command, unsigned long argument)
{
	struct kapi_optval value = { .value = USER_SOCKPTR((void __user *)argument) };

	if (command == SIOCKCMCLONE)
		return kcm_clone(sock, (struct kcm_clone __user *)argument);
	return kcm_socket_ioctl(kcm_core_of(sock), command, &value, sock->file->f_flags & O_NONBLOCK);
}

#ifdef CONFIG_COMPAT
static int kcm_compat_ioctl(struct socket *sock, unsigned int command, unsigned long argument)
{
	return kcm_ioctl(sock, command, (unsigned long)compat_ptr(argument));
}
#endif

static int kcm_setsockopt(struct socket *sock, int level, int name, sockptr_t user, unsigned int length)
{
	struct kapi_optval value = { .value = user };

	if (level != SOL_KCM)
		return -ENOPROTOOPT;
	return kcm_socket_setsockopt(kcm_core_of(sock), name, &value, length);
}

static int kcm_getsockopt(struct socket *sock, int level, int name, char __user *user, int __user *user_length)
{
	struct kapi_optval value = { .value = USER_SOCKPTR(user) };
	int length, result;

	if (level != SOL_KCM)
		return -ENOPROTOOPT;
	if (get_user(length, user_length))
		return -EFAULT;
	result = kcm_socket_getsockopt(kcm_core_of(sock), name, &value, &length);
	if ((!result || result == -ENOSPC) && put_user(length, user_length))
		return -EFAULT;
	return result;
}

/* Pages on their way from a pipe or file; the core copies what they hold. */
#ifdef MSG_SPLICE_PAGES
#define KCM_SPLICED MSG_SPLICE_PAGES
#else
#define KCM_SPLICED 0
#endif

static int kcm_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	struct kcm_send send = {
		.msg = kapi_msg_of(msg),
		.size = size,
		.control = msg->msg_control,
		.control_length = msg->msg_control ? msg->msg_controllen : 0,
		.flags = msg->msg_flags,
		.spliced = (msg->msg_flags & KCM_SPLICED) != 0,
	};

	return kapi_msg_sent(msg, size, kcm_socket_sendmsg(kcm_core_of(sock), &send));
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
static ssize_t kcm_sendpage(struct socket *sock, struct page *page, int offset, size_t size, int flags)
{
	struct bio_vec piece = { .bv_page = page, .bv_offset = offset, .bv_len = size };
	struct msghdr msg = {};
	struct kcm_send send = {
		.msg = kapi_msg_of(&msg),
		.size = size,
		.flags = flags & MSG_SENDPAGE_NOTLAST ? flags | MSG_MORE : flags,
		.spliced = 1,
	};

	iov_iter_bvec(&msg.msg_iter, WRITE, &piece, 1, size);
	return kcm_socket_sendmsg(kcm_core_of(sock), &send);
}
#else
/* The file that was spliced ended before the requested length: so does the message. */
static void kcm_splice_eof(struct socket *sock)
{
	struct msghdr msg = {};
	struct kcm_send send = { .msg = kapi_msg_of(&msg), .spliced = 1 };

	kcm_socket_sendmsg(kcm_core_of(sock), &send);
}
#endif

static int kcm_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct kcm_receive receive = { .msg = kapi_msg_of(msg), .size = size, .flags = flags };
	s64 result;

	result = kcm_socket_recvmsg(kcm_core_of(sock), &receive);
	if (result >= 0)
		msg->msg_flags |= receive.out_flags;
	return result;
}

/* Into a pipe: received into fresh pages, which the pipe gets. */

struct kcm_splice {
	struct page *pages[PIPE_DEF_BUFFERS];
	struct partial_page parts[PIPE_DEF_BUFFERS];
	struct bio_vec pieces[PIPE_DEF_BUFFERS];
	unsigned int count;
};

static void kcm_free_spliced(struct splice_pipe_desc *desc, unsigned int i)
{
	put_page(desc->pages[i]);
}

static int kcm_splice_room(struct kcm_splice *splice, struct pipe_inode_info *pipe, size_t *size)
{
	unsigned int used = pipe_occupancy(pipe->head, pipe->tail);
	unsigned int room = min_t(unsigned int, pipe->max_usage - min(used, pipe->max_usage), PIPE_DEF_BUFFERS);
	unsigned int wanted = min_t(size_t, DIV_ROUND_UP(*size, PAGE_SIZE), room);

	while (splice->count < wanted) {
		struct page *page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);

		if (!page)
			break;
		splice->pages[splice->count] = page;
		splice->pieces[splice->count++] = (struct bio_vec){ .bv_page = page, .bv_len = PAGE_SIZE };
	}
	*size = min_t(size_t, *size, splice->count * PAGE_SIZE);
	return splice->count || !wanted ? 0 : -ENOMEM;
}

static ssize_t kcm_splice_read(struct socket *sock, loff_t *position, struct pipe_inode_info *pipe, size_t size,
			       unsigned int flags)
{
	struct kcm_splice *splice = kzalloc(sizeof(*splice), GFP_KERNEL);
	struct msghdr msg = {};
	struct kcm_receive receive = { .msg = kapi_msg_of(&msg), .spliced = 1 };
	unsigned int used = 0, i;
	ssize_t got;

	if (!splice)
		return -ENOMEM;
	if (flags & SPLICE_F_NONBLOCK || sock->file->f_flags & O_NONBLOCK)
		receive.flags = MSG_DONTWAIT;
	got = kcm_splice_room(splice, pipe, &size);
	if (!got && !size)
		got = -EAGAIN; /* the pipe has no room: the caller waits for it */
	if (!got) {
		receive.size = size;
		iov_iter_bvec(&msg.msg_iter, READ, splice->pieces, splice->count, size);
		got = kcm_socket_recvmsg(kcm_core_of(sock), &receive);
	}
	if (got > 0) {
		struct splice_pipe_desc desc = {
			.pages = splice->pages,
			.partial = splice->parts,
			.nr_pages_max = PIPE_DEF_BUFFERS,
			.ops = &nosteal_pipe_buf_ops,
			.spd_release = kcm_free_spliced,
		};

		used = desc.nr_pages = DIV_ROUND_UP(got, PAGE_SIZE);
		for (i = 0; i < used; i++)
			splice->parts[i].len = min_t(size_t, got - i * PAGE_SIZE, PAGE_SIZE);
		got = splice_to_pipe(pipe, &desc);
	}
	for (i = used; i < splice->count; i++)
		put_page(splice->pages[i]);
	kfree(splice);
	return got;
}

static const struct proto_ops kcm_proto_ops = {
	.family = PF_KCM,
	.owner = THIS_MODULE,
	.release = kcm_release,
	.bind = sock_no_bind,
	.connect = sock_no_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = sock_no_getname,
	.poll = kcm_poll,
	.ioctl = kcm_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = kcm_compat_ioctl,
#endif
	.listen = sock_no_listen,
	.shutdown = sock_no_shutdown,
	.setsockopt = kcm_setsockopt,
	.getsockopt = kcm_getsockopt,
	.sendmsg = kcm_sendmsg,
	.recvmsg = kcm_recvmsg,
	.mmap = sock_no_mmap,
	.splice_read = kcm_splice_read,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	.sendpage = kcm_sendpage,
#else
	.splice_eof = kcm_splice_eof,
#endif
};

static const struct net_proto_family kcm_family = {
	.family = PF_KCM,
	.create = kcm_create,
	.owner = THIS_MODULE,
};

int kcm_glue_family_register(void)
{
	int err;

	err = proto_register(&kcm_proto, 1);
	if (err)
		return err;
	err = sock_register(&kcm_family);
	if (err)
		proto_unregister(&kcm_proto);
	return err;
}

void kcm_glue_family_unregister(void)
{
	sock_unregister(PF_KCM);
	proto_unregister(&kcm_proto);
}
