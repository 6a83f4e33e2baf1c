// SPDX-License-Identifier: GPL-2.0
#include "rds.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

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

/* The port stands at the same place in both families. */
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

int rds_socket(int ns)
{
	int fd = socket_in(ns, AF_RDS, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	NEED(fd >= 0);
	return fd;
}

int rds_bind(int fd, const struct addr *a)
{
	return bind(fd, &a->sa, a->len);
}

int rds_connect(int fd, const struct addr *a)
{
	return connect(fd, &a->sa, a->len);
}

int rds_bound(int ns, const char *text, uint16_t port)
{
	struct addr a = addr(text, port);
	int fd = rds_socket(ns);

	if (rds_bind(fd, &a)) {
		note("cannot bind to %s port %u", text, port);
		NEED(!"bind");
	}
	return fd;
}

ssize_t rds_send(int fd, const void *buf, size_t len, const struct addr *to, int flags)
{
	return sendto(fd, buf, len, flags, to ? &to->sa : NULL, to ? to->len : 0);
}

ssize_t rds_recv(int fd, void *buf, size_t len, struct addr *from, int flags)
{
	struct addr dummy;

	if (!from)
		from = &dummy;
	memset(from, 0, sizeof(*from));
	from->len = sizeof(from->in6);
	return recvfrom(fd, buf, len, flags, &from->sa, &from->len);
}

ssize_t rds_recv_soon(int fd, void *buf, size_t len, struct addr *from)
{
	ssize_t n = -1;

	/* poll() also tells of congestion changes, so readable need not mean that a message is there. */
	WAIT_UNTIL(SOON_MS, (n = rds_recv(fd, buf, len, from, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
	return n;
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

ssize_t rds_send_control(int fd, const void *buf, size_t len, const struct addr *to, const struct control *c,
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

ssize_t rds_recv_control(int fd, void *buf, size_t len, struct control *c, int flags, int *msg_flags)
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

static bool find_counter(int ns, const char *name, uint64_t *value)
{
	static struct rds_info_counter counters[256];
	socklen_t len = sizeof(counters);
	int fd = rds_socket(ns);
	int ret = getsockopt(fd, SOL_RDS, RDS_INFO_COUNTERS, counters, &len);

	NEED(ret == sizeof(counters[0]));
	close(fd);
	for (size_t i = 0; i < len / sizeof(counters[0]); i++) {
		if (!strncmp((char *)counters[i].name, name, sizeof(counters[i].name))) {
			*value = counters[i].value;
			return true;
		}
	}
	return false;
}

uint64_t rds_counter(int ns, const char *name)
{
	uint64_t value;

	if (!find_counter(ns, name, &value)) {
		note("there is no counter %s", name);
		NEED(!"counter");
	}
	return value;
}

bool rds_has_counter(int ns, const char *name)
{
	uint64_t value;

	return find_counter(ns, name, &value);
}

struct pair pair_new(void)
{
	struct pair p = { .a = netns_new(), .b = netns_new() };

	net_veth(p.a, "pair", p.b, "pair");
	net_address(p.a, "pair", PAIR_A4 "/24", true);
	net_address(p.b, "pair", PAIR_B4 "/24", true);
	net_address(p.a, "pair", PAIR_A6 "/64", true);
	net_address(p.b, "pair", PAIR_B6 "/64", true);
	return p;
}

void pair_delete(struct pair *p)
{
	net_delete(p->a, "pair");
	close(p->a);
	close(p->b);
}

void here_addresses(void)
{
	net_set_up(HERE, "lo", true);
	net_address(HERE, "lo", HERE4 "/32", true);
	net_address(HERE, "lo", HERE6 "/128", true);
}
