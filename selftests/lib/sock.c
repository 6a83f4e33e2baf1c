// SPDX-License-Identifier: GPL-2.0
#include "sock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>

#include "ktap.h"

struct addr addr(const char *text, uint16_t port)
{
	struct addr a = { .len = sizeof(a.in4) };
	char host[64];
	char *scope;

	NEED(snprintf(host, sizeof(host), "%s", text) < (int)sizeof(host));
	scope = strchr(host, '%');
	if (scope)
		*scope++ = '\0';
	if (strchr(host, ':')) {
		a.len = sizeof(a.in6);
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
		a.in6.sin6_scope_id = scope ? atoi(scope) : 0;
		NEED(inet_pton(AF_INET6, host, &a.in6.sin6_addr) == 1);
	} else {
		a.in4.sin_family = AF_INET;
		a.in4.sin_port = htons(port);
		NEED(inet_pton(AF_INET, host, &a.in4.sin_addr) == 1);
	}
	return a;
}

/* The port has the same offset in both families. */
uint16_t addr_port(const struct addr *a)
{
	return ntohs(a->in4.sin_port);
}

void addr_set_port(struct addr *a, uint16_t port)
{
	a->in4.sin_port = htons(port);
}

bool addr_same(const struct addr *a, const struct addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || a->in4.sin_port != b->in4.sin_port)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

struct addr addr_of(int fd)
{
	struct addr a = { .len = sizeof(a.in6) };

	NEED(getsockname(fd, &a.sa, &a.len) == 0);
	return a;
}

int polled(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, ms);

	NEED(n >= 0 || errno == EINTR);
	return n > 0 ? p.revents : 0;
}

int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

int get_int(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	NEED(getsockopt(fd, level, option, &value, &len) == 0);
	return value;
}

void set_timeout_ms(int fd, int option, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	NEED(setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)) == 0);
}

void *control_add(struct control *c, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *h = (struct cmsghdr *)(c->data + c->len);

	NEED(c->len + CMSG_SPACE(len) <= sizeof(c->data));
	memset(h, 0, CMSG_SPACE(len));
	h->cmsg_level = level;
	h->cmsg_type = type;
	h->cmsg_len = CMSG_LEN(len);
	if (len)
		memcpy(CMSG_DATA(h), data, len);
	c->len += CMSG_SPACE(len);
	return CMSG_DATA(h);
}

ssize_t send_control(int fd, const void *buf, size_t len, const struct addr *to, const struct control *c,
			 int flags)
{
	struct iovec io = { (void *)buf, len };
	struct msghdr msg = {
		.msg_name = to ? (void *)&to->sa : NULL,
		.msg_namelen = to ? to->len : 0,
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = (void *)c->data,
		.msg_controllen = c->len,
	};

	return sendmsg(fd, &msg, flags);
}

ssize_t recv_control(int fd, void *buf, size_t len, struct control *c, int flags, int *msg_flags)
{
	struct iovec io = { buf, len };
	struct msghdr msg = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = c->data,
		.msg_controllen = sizeof(c->data),
	};
	ssize_t n = recvmsg(fd, &msg, flags);

	c->len = n < 0 ? 0 : msg.msg_controllen;
	if (msg_flags)
		*msg_flags = msg.msg_flags;
	return n;
}

void *control_find(struct control *c, int level, int type, size_t len)
{
	struct msghdr msg = { .msg_control = c->data, .msg_controllen = c->len };

	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h))
		if (h->cmsg_level == level && h->cmsg_type == type && h->cmsg_len >= CMSG_LEN(len))
			return CMSG_DATA(h);
	return NULL;
}
