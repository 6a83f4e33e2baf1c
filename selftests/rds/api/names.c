// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static struct addr name_of(int fd, bool peer)
{
	struct addr a;

	memset(&a, 0xff, sizeof(a));
	a.len = sizeof(a.in6);
	NEED((peer ? getpeername : getsockname)(fd, &a.sa, &a.len) == 0);
	return a;
}

static bool is_nothing(const struct addr *a, sa_family_t family, socklen_t len)
{
	static const char zeroes[sizeof(a->in6)];

	return a->len == len && a->sa.sa_family == family && !memcmp(&a->in4.sin_port, zeroes, len - 2);
}

static void unbound(void)
{
	struct addr v4 = addr(NOBODY4, 9), v6 = addr(NOBODY6, 9), name, dummy = { .len = sizeof(dummy.in6) };
	int fd = rds_socket(HERE);

	name = name_of(fd, false);
	check(is_nothing(&name, AF_UNSPEC, sizeof(name.in4)), "getsockname: unbound is AF_UNSPEC and zero");
	EXPECT_ERRNO(getpeername(fd, &dummy.sa, &dummy.len), ENOTCONN, "getpeername: not connected");
	NEED(rds_connect(fd, &v4) == 0);
	name = name_of(fd, false);
	check(is_nothing(&name, AF_INET, sizeof(name.in4)),
	      "getsockname: connected to IPv4 is AF_INET and zero");
	NEED(rds_connect(fd, &v6) == 0);
	name = name_of(fd, false);
	check(is_nothing(&name, AF_INET6, sizeof(name.in6)),
	      "getsockname: connected to IPv6 is AF_INET6 and zero");
	close(fd);
}

static void bound(void)
{
	for (size_t i = 0; i < PLACES; i++) {
		struct addr want = addr(places[i].text, 4400), name;
		int fd = rds_bound(HERE, places[i].text, 4400);

		name = name_of(fd, false);
		check(addr_same(&name, &want) && name.len == want.len, "getsockname: %s", places[i].text);
		want = addr(places[i].text, 4401);
		NEED(rds_connect(fd, &want) == 0);
		name = name_of(fd, true);
		check(addr_same(&name, &want) && name.len == want.len, "getpeername: %s", places[i].text);
		close(fd);
	}
}

static void mapped(void)
{
	struct addr want = addr(HERE4, 4400), name;
	int fd = rds_bound(HERE, "::ffff:" HERE4, 4400);

	name = name_of(fd, false);
	check(addr_same(&name, &want), "getsockname: IPv4 bound as IPv6 is returned as IPv4");
	close(fd);
}

static void buffers(void)
{
	int fd = rds_bound(HERE, "::1", 4400);
	struct addr a = { .len = 4 }, b = { .len = sizeof(b.in6) };

	check(getsockname(fd, &a.sa, &a.len) == 0 && a.len == sizeof(a.in6),
	      "getsockname: a short buffer gets the whole length");
	EXPECT_ERRNO(getsockname(fd, bad_pointer(), &b.len), EFAULT, "getsockname: bad pointer");
	EXPECT_ERRNO(getsockname(fd, &b.sa, bad_pointer()), EFAULT, "getsockname: bad length pointer");
	close(fd);
}

void api_names(void)
{
	unbound();
	bound();
	mapped();
	buffers();
}
