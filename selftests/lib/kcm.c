// SPDX-License-Identifier: GPL-2.0
#include "kcm.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

int kcm_socket(int ns, int type)
{
	int fd = socket_in(ns, AF_KCM, type, KCMPROTO_CONNECTED);

	NEED(fd >= 0);
	return fd;
}

int kcm_clone(int kcm)
{
	struct kcm_clone info = { .fd = -1 };

	return ioctl(kcm, SIOCKCMCLONE, &info) ? -1 : info.fd;
}

int kcm_attach(int kcm, int tcp, int program)
{
	struct kcm_attach info = { .fd = tcp, .bpf_fd = program };

	return ioctl(kcm, SIOCKCMATTACH, &info);
}

int kcm_unattach(int kcm, int tcp)
{
	struct kcm_unattach info = { .fd = tcp };

	return ioctl(kcm, SIOCKCMUNATTACH, &info);
}

int kcm_disable(int kcm, int on)
{
	return set_int(kcm, SOL_KCM, KCM_RECV_DISABLE, on);
}

int tcp_listener(int ns, int family)
{
	struct addr any = addr(family == AF_INET6 ? "::1" : "127.0.0.1", 0);
	int fd = socket_in(ns, family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(fd >= 0 && bind(fd, &any.sa, any.len) == 0 && listen(fd, 1) == 0);
	return fd;
}

struct link tcp_link(int ns, int family)
{
	int listener = tcp_listener(ns, family);
	struct addr to = addr_of(listener);
	struct link l = { .near = socket_in(ns, family, SOCK_STREAM | SOCK_CLOEXEC, 0) };

	NEED(l.near >= 0 && connect(l.near, &to.sa, to.len) == 0);
	l.far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	NEED(l.far >= 0);
	NEED(set_int(l.near, IPPROTO_TCP, TCP_NODELAY, 1) == 0 && set_int(l.far, IPPROTO_TCP, TCP_NODELAY, 1) == 0);
	close(listener);
	return l;
}

void tcp_link_close(struct link *l)
{
	close(l->near);
	close(l->far);
}

void tcp_reset(int fd)
{
	struct linger at_once = { .l_onoff = 1 };

	NEED(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
	close(fd);
}

struct rig rig_open(int type, int program)
{
	struct link l = tcp_link(HERE, AF_INET);
	struct rig r = { kcm_socket(HERE, type), l.near, l.far };

	NEED(kcm_attach(r.kcm, r.tcp, program) == 0);
	return r;
}

struct link rig_link(struct rig *r, int program)
{
	struct link l = tcp_link(HERE, AF_INET);

	NEED(kcm_attach(r->kcm, l.near, program) == 0);
	return l;
}

void rig_close(struct rig *r)
{
	close(r->kcm);
	close(r->tcp);
	close(r->peer);
}

void frame_fill(void *buf, size_t len, uint64_t seed)
{
	uint32_t header = htonl(len - FRAME_HEADER);

	NEED(len >= FRAME_HEADER && len <= FRAME_MAX);
	memcpy(buf, &header, FRAME_HEADER);
	pattern_fill((char *)buf + FRAME_HEADER, len - FRAME_HEADER, seed);
}

bool frame_is(const void *buf, ssize_t n, size_t len, uint64_t seed)
{
	uint32_t header = htonl(len - FRAME_HEADER);

	if (n != (ssize_t)len) {
		note("%zd bytes, expected %zu (%s)", n, len, n < 0 ? strerror(errno) : "no error");
		return false;
	}
	if (memcmp(buf, &header, FRAME_HEADER)) {
		note("the header of a frame of %zu bytes is wrong", len);
		return false;
	}
	return pattern_matches((const char *)buf + FRAME_HEADER, len - FRAME_HEADER, seed);
}

void peer_send(int peer, const void *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(peer, (const char *)buf + done, len - done, MSG_NOSIGNAL);

		NEED(n > 0);
		done += n;
	}
}

static char *scratch(void)
{
	static __thread char *buf;

	if (!buf)
		buf = malloc(FRAME_MAX + 1);
	NEED(buf);
	return buf;
}

void peer_send_frame(int peer, size_t len, uint64_t seed)
{
	char *buf = scratch();

	frame_fill(buf, len, seed);
	peer_send(peer, buf, len);
}

size_t peer_reads(int peer, void *buf, size_t len)
{
	int64_t until = now_ms() + SOON_MS;
	size_t done = 0;

	while (done < len && now_ms() < until) {
		ssize_t n;

		if (!polled(peer, POLLIN, 100))
			continue;
		n = recv(peer, (char *)buf + done, len - done, MSG_DONTWAIT);
		if (n <= 0)
			break;
		done += n;
	}
	return done;
}

bool peer_takes(int peer, size_t len, uint64_t seed)
{
	char *buf = scratch();

	return frame_is(buf, peer_reads(peer, buf, len), len, seed);
}

ssize_t kcm_recv(int kcm, void *buf, size_t len, int *flags)
{
	struct iovec io = { buf, len };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };
	ssize_t n = recvmsg(kcm, &msg, flags ? *flags : 0);

	if (flags)
		*flags = msg.msg_flags;
	return n;
}

ssize_t kcm_recv_soon(int kcm, void *buf, size_t len, int *flags)
{
	int asked = (flags ? *flags : 0) | MSG_DONTWAIT, result;
	ssize_t n = -1;

	WAIT_UNTIL(SOON_MS, (result = asked, n = kcm_recv(kcm, buf, len, &result)) >= 0 || errno != EAGAIN);
	if (flags)
		*flags = result;
	return n;
}

bool kcm_takes(int kcm, size_t len, uint64_t seed)
{
	char *buf = scratch();
	int flags = 0;
	ssize_t n = kcm_recv_soon(kcm, buf, FRAME_MAX + 1, &flags);

	if (n >= 0 && flags != MSG_EOR)
		note("flags %#x with a message", flags);
	return frame_is(buf, n, len, seed) && flags == MSG_EOR;
}

bool kcm_sends(int kcm, size_t len, uint64_t seed)
{
	char *buf = scratch();
	ssize_t n;

	frame_fill(buf, len, seed);
	n = send(kcm, buf, len, MSG_EOR);
	if (n != (ssize_t)len)
		note("sending %zu bytes gave %zd (%s)", len, n, n < 0 ? strerror(errno) : "no error");
	return n == (ssize_t)len;
}

bool stays_quiet(int fd)
{
	return !(polled(fd, POLLIN, 50) & POLLIN);
}

int sock_error(int fd)
{
	return get_int(fd, SOL_SOCKET, SO_ERROR);
}

int sock_error_soon(int fd)
{
	int error = 0;

	WAIT_UNTIL(SOON_MS, (error = sock_error(fd)));
	return error;
}
