// SPDX-License-Identifier: GPL-2.0
#include "rds.h"

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

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

	/* poll() also reports congestion changes, so POLLIN need not mean a message. */
	WAIT_UNTIL(SOON_MS, (n = rds_recv(fd, buf, len, from, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
	return n;
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
