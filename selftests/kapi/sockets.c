// SPDX-License-Identifier: GPL-2.0
/* Program-like calls of the tests: TCP sockets behind descriptors of the task that loads the module. */

#include <linux/bvec.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/uio.h>
#include <linux/version.h>
#include <net/tcp.h>

#include "../../kapi/linux/stream.h"
#include "kapi_test.h"

/* A call that waits longer than this fails, and so does its test. */
#define TIMEOUT (10 * HZ)
#define SHARED_ORDER PAGE_ALLOC_COSTLY_ORDER

static int make_socket(struct socket **sock)
{
	int error = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, sock);

	if (!error)
		(*sock)->sk->sk_rcvtimeo = (*sock)->sk->sk_sndtimeo = TIMEOUT;
	return error;
}

/* Consumes the socket. */
static int descriptor_of(struct socket *sock)
{
	int fd = get_unused_fd_flags(0);
	struct file *file;

	if (fd < 0) {
		sock_release(sock);
		return fd;
	}
	file = sock_alloc_file(sock, 0, NULL);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
}

/* Connects sock to a new socket; returns the descriptor of that. */
static int connect_to_new(struct socket *sock)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct socket *listener, *peer;
	int error = make_socket(&listener);

	if (error)
		return error;
	error = kernel_bind(listener, (void *)&name, sizeof(name));
	if (!error)
		error = kernel_listen(listener, 1);
	if (!error)
		error = kernel_getsockname(listener, (void *)&name);
	if (error >= 0)
		error = kernel_connect(sock, (void *)&name, sizeof(name), 0);
	if (!error)
		error = kernel_accept(listener, &peer, 0);
	sock_release(listener);
	if (error)
		return error;
	peer->sk->sk_rcvtimeo = peer->sk->sk_sndtimeo = TIMEOUT;
	return descriptor_of(peer);
}

int kapi_test_socket_pair(int *fds)
{
	struct socket *sock;
	int error = make_socket(&sock);

	if (error)
		return error;
	fds[1] = connect_to_new(sock);
	if (fds[1] < 0) {
		sock_release(sock);
		return fds[1];
	}
	fds[0] = descriptor_of(sock);
	if (fds[0] < 0)
		close_fd(fds[1]);
	return min(fds[0], 0);
}

void kapi_test_close(int fd)
{
	close_fd(fd);
}

static int disconnect(struct socket *sock)
{
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	return kernel_connect(sock, (void *)&nowhere, sizeof(nowhere), 0);
}

int kapi_test_disconnect(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (!sock)
		return error;
	error = disconnect(sock);
	sockfd_put(sock);
	return error;
}

int kapi_test_reconnect(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (!sock)
		return error;
	error = disconnect(sock);
	if (!error)
		error = connect_to_new(sock);
	sockfd_put(sock);
	return error;
}

void kapi_test_no_scatter_gather(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (!sock)
		return;
	lock_sock(sock->sk);
	sock->sk->sk_route_caps &= ~NETIF_F_SG;
	release_sock(sock->sk);
	sockfd_put(sock);
}

void kapi_test_no_delay(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (!sock)
		return;
	tcp_sock_set_nodelay(sock->sk);
	sockfd_put(sock);
}

void kapi_test_lock(int fd, int locked)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (!sock)
		return;
	if (locked)
		lock_sock(sock->sk);
	else
		release_sock(sock->sk);
	sockfd_put(sock);
}

int kapi_test_add_rmem(int fd, int size)
{
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	result = atomic_add_return(size, &sock->sk->sk_rmem_alloc);
	sockfd_put(sock);
	return result;
}

long kapi_test_write(int fd, const void *bytes, kapi_size size)
{
	struct kvec vector = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr msg = {};
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	result = kernel_sendmsg(sock, &msg, &vector, 1, size);
	sockfd_put(sock);
	return result;
}

static int send_page(struct socket *sock, struct page *page, size_t size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	struct msghdr msg = { .msg_flags = MSG_SPLICE_PAGES | MSG_MORE };
	struct bio_vec vector;

	bvec_set_page(&vector, page, size, 0);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &vector, 1, size);
	return sock_sendmsg(sock, &msg);
#else
	return kernel_sendpage(sock, page, 0, size, MSG_MORE);
#endif
}

int kapi_test_write_shared(int fd, const void *bytes, kapi_size size)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);
	size_t done, part;

	if (!sock)
		return error;
	for (done = 0; !error && done < size; done += part) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_COMP, SHARED_ORDER);

		part = min_t(size_t, size - done, PAGE_SIZE << SHARED_ORDER);
		if (!page) {
			error = -ENOMEM;
			break;
		}
		memcpy(page_address(page), bytes + done, part);
		error = send_page(sock, page, part) == part ? 0 : -EIO;
		put_page(page);
	}
	sockfd_put(sock);
	return error ? error : LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0);
}

long kapi_test_read(int fd, void *bytes, kapi_size size)
{
	struct kvec vector = { .iov_base = bytes, .iov_len = size };
	struct msghdr msg = {};
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	result = kernel_recvmsg(sock, &msg, &vector, 1, size, MSG_WAITALL);
	sockfd_put(sock);
	return result;
}

long kapi_test_unread(int fd)
{
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	lock_sock(sock->sk);
	result = tcp_inq(sock->sk);
	release_sock(sock->sk);
	sockfd_put(sock);
	return result;
}

int kapi_test_buffers(int fd)
{
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	result = skb_queue_len_lockless(&sock->sk->sk_receive_queue);
	sockfd_put(sock);
	return result;
}

int kapi_test_take_error(int fd)
{
	int result;
	struct socket *sock = sockfd_lookup(fd, &result);

	if (!sock)
		return result;
	result = -sock_error(sock->sk);
	sockfd_put(sock);
	return result;
}

/* Of kapi_test_send_when_given_back(). */
static struct {
	struct socket *peer;
	void (*write_space)(struct sock *sk), (*data_ready)(struct sock *sk);
	struct work_struct work; /* the two sockets' locks are of one class, which one task may not have twice */
	struct completion done;
	bool asked, readable;
} late;

static void send_late(struct work_struct *work)
{
	struct kvec vector = { .iov_base = "late", .iov_len = 4 };
	struct msghdr msg = { .msg_flags = MSG_NOSIGNAL };

	if (kernel_sendmsg(late.peer, &msg, &vector, 1, 4) == -ECONNRESET)
		WRITE_ONCE(late.peer->sk->sk_err, ECONNRESET); /* which the test is to find */
	complete(&late.done);
}

static void on_write_space(struct sock *sk)
{
	if (!late.asked && sk->sk_write_space == on_write_space) { /* not as the program's, while it is adopted */
		late.asked = true;
		queue_work(system_unbound_wq, &late.work);
		wait_for_completion(&late.done);
	}
	late.write_space(sk);
}

static void on_data_ready(struct sock *sk)
{
	if (sk->sk_state != TCP_CLOSE && !skb_queue_empty(&sk->sk_receive_queue))
		late.readable = true;
	late.data_ready(sk);
}

void kapi_test_send_when_given_back(int fd, int peer)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	late.peer = sockfd_lookup(peer, &error);
	late.asked = late.readable = false;
	INIT_WORK(&late.work, send_late);
	init_completion(&late.done);
	lock_sock(sock->sk);
	late.write_space = sock->sk->sk_write_space;
	late.data_ready = sock->sk->sk_data_ready;
	sock->sk->sk_write_space = on_write_space;
	sock->sk->sk_data_ready = on_data_ready;
	release_sock(sock->sk);
	sockfd_put(sock);
}

int kapi_test_was_readable(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	lock_sock(sock->sk);
	sock->sk->sk_write_space = late.write_space;
	sock->sk->sk_data_ready = late.data_ready;
	release_sock(sock->sk);
	sockfd_put(sock);
	sockfd_put(late.peer);
	return late.asked ? late.readable : -EIO;
}

int kapi_test_looks_in_ms(const struct kapi_stream *stream)
{
	long left = READ_ONCE(stream->look.timer.expires) - jiffies;

	return delayed_work_pending(&stream->look) ? jiffies_to_msecs(max(left, 0)) : -1;
}

void kapi_test_shut(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	if (sock) {
		kernel_sock_shutdown(sock, SHUT_WR);
		sockfd_put(sock);
	}
}
