// SPDX-License-Identifier: GPL-2.0
/* connect() only remembers a peer: nothing is sent, nothing is looked up. */
#include "api.h"

static int try_connect(const char *text)
{
	struct addr a = addr(text, 4000);
	int fd = rds_socket(HERE);
	int ret = rds_connect(fd, &a), saved = errno;

	close(fd);
	errno = saved;
	return ret;
}

static int try_length(const char *text, socklen_t len)
{
	struct addr a = addr(text, 4000);
	int fd = rds_socket(HERE);
	int ret = connect(fd, &a.sa, len), saved = errno;

	close(fd);
	errno = saved;
	return ret;
}

static void addresses(void)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "0.0.0.0", EDESTADDRREQ },
		{ "255.255.255.255", EINVAL },
		{ "224.0.0.1", EINVAL },
		{ "::", EPROTOTYPE },
		{ "ff02::1", EPROTOTYPE },
		{ "::ffff:0.0.0.0", EPROTOTYPE },
		{ "::ffff:255.255.255.255", EPROTOTYPE },
		{ "::ffff:224.0.0.1", EPROTOTYPE },
		{ "fe80::1", EINVAL },
		{ "fe80::1%1", 0 },
		{ NOBODY4, 0 },
		{ NOBODY6, 0 },
		{ "::ffff:" NOBODY4, 0 },
		{ "127.0.0.1", 0 },
		{ "::1", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_ERRNO(try_connect(cases[i].text), cases[i].want, "connect: %s %s", cases[i].text,
			     cases[i].want ? "is refused" : "is remembered");
}

static void lengths(void)
{
	struct addr other = addr("127.0.0.1", 4000);
	int fd = rds_socket(HERE);

	EXPECT_ERRNO(try_length("127.0.0.1", 1), EINVAL, "connect: shorter than a family");
	EXPECT_ERRNO(try_length("127.0.0.1", sizeof(struct sockaddr_in) - 1), EINVAL, "connect: short IPv4");
	EXPECT_ERRNO(try_length("::1", sizeof(struct sockaddr_in6) - 1), EINVAL, "connect: short IPv6");
	other.sa.sa_family = AF_UNIX;
	EXPECT_ERRNO(rds_connect(fd, &other), EAFNOSUPPORT, "connect: another family");
	other.sa.sa_family = AF_UNSPEC;
	EXPECT_ERRNO(rds_connect(fd, &other), EAFNOSUPPORT, "connect: no family");
	EXPECT_ERRNO(connect(fd, bad_pointer(), sizeof(struct sockaddr_in)), EFAULT, "connect: bad pointer");
	close(fd);
}

static void again(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0), one = rds_bound(HERE, "127.0.0.1", 0);
	int two = rds_bound(HERE, "127.0.0.1", 0);
	struct addr first = addr_of(one), second = addr_of(two), nowhere = addr("0.0.0.0", 1), peer;
	char byte;

	NEED(rds_connect(fd, &first) == 0);
	EXPECT_OK(rds_connect(fd, &second), "connect: to another peer");
	NEED(rds_send(fd, "x", 1, NULL, 0) == 1);
	EXPECT_EQ(rds_recv_soon(two, &byte, 1, NULL), 1, "connect: the latest peer counts");
	NEED(rds_connect(fd, &nowhere) == -1);
	peer.len = sizeof(peer.in6);
	check(getpeername(fd, &peer.sa, &peer.len) == 0 && addr_same(&peer, &second),
	      "connect: one that fails keeps the peer");
	close(fd);
	close(one);
	close(two);
}

/* Both ends of a link-local connection must be on the same link. */
static void scopes(void)
{
	struct addr there = addr("fe80::2%1", 4000), elsewhere = addr("fe80::2%7", 4000);
	struct addr own = addr("fe80::78%1", 0);
	int fd = rds_socket(HERE);

	net_address(HERE, "lo", "fe80::78/64", true);
	NEED(net_index(HERE, "lo") == 1);
	EXPECT_OK(rds_bind(fd, &own), "bind: a link-local address with its scope");
	EXPECT_OK(rds_connect(fd, &there), "connect: a peer on the same link");
	EXPECT_ERRNO(rds_connect(fd, &elsewhere), EINVAL, "connect: a peer on another link");
	close(fd);
	fd = rds_socket(HERE);
	NEED(rds_connect(fd, &elsewhere) == 0);
	EXPECT_ERRNO(rds_bind(fd, &own), EINVAL, "bind: on another link than the peer");
	close(fd);
	net_address(HERE, "lo", "fe80::78/64", false);
}

void api_connect(void)
{
	addresses();
	lengths();
	again();
	scopes();
}
