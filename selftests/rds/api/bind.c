// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static int try_bind(const char *text, uint16_t port)
{
	struct addr a = addr(text, port);
	int fd = rds_socket(HERE);
	int ret = rds_bind(fd, &a), saved = errno;

	close(fd);
	errno = saved;
	return ret;
}

static int try_length(const char *text, socklen_t len)
{
	struct addr a = addr(text, 4000);
	int fd = rds_socket(HERE);
	int ret = bind(fd, &a.sa, len), saved = errno;

	close(fd);
	errno = saved;
	return ret;
}

static void addresses(void)
{
	static const char *const wrong[] = {
		"0.0.0.0",
		"255.255.255.255",
		"224.0.0.1",
		"239.255.255.255",
		"::",
		"ff02::1",
		"::ffff:0.0.0.0",
		"::ffff:255.255.255.255",
		"::ffff:224.0.0.1",
		"fe80::1",
	};
	static const char *const missing[] = { NOBODY4, NOBODY6, "::ffff:" NOBODY4, "fe80::1%1",
					       "fe80::1%999" };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_ERRNO(try_bind(wrong[i], 4000), EINVAL, "bind: %s cannot be bound", wrong[i]);
	for (size_t i = 0; i < ARRAY_SIZE(missing); i++)
		EXPECT_ERRNO(try_bind(missing[i], 4000), EADDRNOTAVAIL, "bind: %s is not a local address", missing[i]);
	for (size_t i = 0; i < PLACES; i++)
		EXPECT_OK(try_bind(places[i].text, 4000), "bind: %s", places[i].text);
	EXPECT_OK(try_bind("127.200.1.9", 4000), "bind: all of 127.0.0.0/8 is loopback");
	EXPECT_OK(try_bind("::ffff:" HERE4, 4000), "bind: an IPv4 address written as IPv6");
}

static void lengths(void)
{
	struct addr unix_like = addr("127.0.0.1", 4000), unspec = addr("127.0.0.1", 4000);
	int fd = rds_socket(HERE);

	EXPECT_ERRNO(try_length("127.0.0.1", 0), EINVAL, "bind: no address at all");
	EXPECT_ERRNO(try_length("127.0.0.1", 1), EINVAL, "bind: shorter than a family");
	EXPECT_ERRNO(try_length("127.0.0.1", 2), EINVAL, "bind: an IPv4 family and nothing else");
	EXPECT_ERRNO(try_length("127.0.0.1", sizeof(struct sockaddr_in) - 1), EINVAL, "bind: short IPv4");
	EXPECT_ERRNO(try_length("::1", sizeof(struct sockaddr_in6) - 1), EINVAL, "bind: short IPv6");
	EXPECT_ERRNO(try_length("::1", sizeof(struct sockaddr_in)), EINVAL, "bind: IPv6 of IPv4's length");
	EXPECT_ERRNO(try_length("127.0.0.1", sizeof(struct sockaddr_storage) + 1), EINVAL,
		     "bind: longer than any address");
	EXPECT_OK(try_length("127.0.0.1", sizeof(struct sockaddr_in6)), "bind: IPv4 with room to spare");
	unix_like.sa.sa_family = AF_UNIX;
	EXPECT_ERRNO(rds_bind(fd, &unix_like), EINVAL, "bind: another family");
	unspec.sa.sa_family = AF_UNSPEC;
	EXPECT_ERRNO(rds_bind(fd, &unspec), EINVAL, "bind: no family");
	EXPECT_ERRNO(bind(fd, bad_pointer(), sizeof(struct sockaddr_in)), EFAULT, "bind: bad pointer");
	EXPECT_ERRNO(bind(fd, kernel_pointer(), sizeof(struct sockaddr_in)), EFAULT, "bind: kernel pointer");
	close(fd);
}

static void ports(void)
{
	EXPECT_ERRNO(try_bind("127.0.0.1", 1), EINVAL, "bind: port 1 is the probe's");
	EXPECT_OK(try_bind("127.0.0.1", 2), "bind: port 2");
	EXPECT_OK(try_bind("127.0.0.1", 65535), "bind: port 65535");
	for (size_t i = 0; i < PLACES; i++) {
		int one = rds_bound(HERE, places[i].text, 0), two = rds_bound(HERE, places[i].text, 0);
		struct addr a = addr_of(one), b = addr_of(two);

		check(addr_port(&a) >= 2 && addr_port(&b) >= 2 && addr_port(&a) != addr_port(&b),
		      "bind: %s port 0 gives a free port", places[i].text);
		close(one);
		close(two);
	}
}

static void conflicts(void)
{
	for (size_t i = 0; i < PLACES; i++) {
		struct addr same = addr(places[i].text, 4100), other = addr(places[i].text, 4101);
		int first = rds_bound(HERE, places[i].text, 4100);

		EXPECT_ERRNO(rds_bind(first, &same), EINVAL, "bind: %s bound before, to the same",
			     places[i].text);
		EXPECT_ERRNO(rds_bind(first, &other), EINVAL, "bind: %s bound before, to another",
			     places[i].text);
		EXPECT_ERRNO(try_bind(places[i].text, 4100), EADDRINUSE, "bind: %s is in use",
			     places[i].text);
		close(first);
		EXPECT_OK(try_bind(places[i].text, 4100), "bind: %s is free after close", places[i].text);
	}
}

/* Each address has its own ports. */
static void same_port_everywhere(void)
{
	int fd[PLACES];

	for (size_t i = 0; i < PLACES; i++)
		fd[i] = rds_bound(HERE, places[i].text, 4200);
	check(true, "bind: one port at several addresses");
	for (size_t i = 0; i < PLACES; i++)
		close(fd[i]);
}

static long transport_users(void)
{
	char text[32];

	NEED(read_file("/sys/module/rds_tcp/refcnt", text, sizeof(text)));
	return atol(text);
}

static void failed_bind_leaves_nothing(void)
{
	int holder = rds_bound(HERE, HERE4, 4300), fd = rds_socket(HERE);
	struct addr taken = addr(HERE4, 4300), free_one = addr(HERE4, 4301);
	long before = transport_users();

	EXPECT_ERRNO(try_bind(HERE4, 4300), EADDRINUSE, "bind: a port in use");
	differs(transport_users() == before, "bind-reference",
		"a bind that fails holds no reference on the transport's module");

	NEED(set_int(fd, SOL_RDS, SO_RDS_TRANSPORT, RDS_TRANS_TCP) == 0);
	NEED(rds_bind(fd, &taken) == -1);
	{
		int transport = 0;
		socklen_t len = sizeof(transport);

		NEED(getsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &transport, &len) == 0);
		differs(transport == RDS_TRANS_TCP, "bind-transport",
			"a bind that fails keeps the chosen transport");
	}
	EXPECT_OK(rds_bind(fd, &free_one), "bind: works after one that failed");
	close(fd);
	close(holder);
}

void api_bind(void)
{
	addresses();
	lengths();
	ports();
	conflicts();
	same_port_everywhere();
	failed_bind_leaves_nothing();
}
