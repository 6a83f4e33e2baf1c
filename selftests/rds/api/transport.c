// SPDX-License-Identifier: GPL-2.0
/* SO_RDS_TRANSPORT, and the promise that no socket call loads a module. */
#include "api.h"

#include <fcntl.h>
#include <stdio.h>

#include "modprobe.h"

static int transport_of(int fd)
{
	int value = -7;
	socklen_t len = sizeof(value);

	NEED(getsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &value, &len) == 0 && len == 4);
	return value;
}

static int set_transport(int fd, int value)
{
	return set_int(fd, SOL_RDS, SO_RDS_TRANSPORT, value);
}

static void choice(void)
{
	static const int wrong[] = { RDS_TRANS_NONE, -2, RDS_TRANS_COUNT, 4, 1 << 30, -2147483647 - 1 };
	long tcp = RDS_TRANS_TCP;
	int fd = rds_socket(HERE);

	EXPECT_EQ(transport_of(fd), RDS_TRANS_NONE, "SO_RDS_TRANSPORT: none at first");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_ERRNO(set_transport(fd, wrong[i]), EINVAL, "SO_RDS_TRANSPORT: %d is none", wrong[i]);
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &tcp, 3), EINVAL, "SO_RDS_TRANSPORT: short");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &tcp, 8), EINVAL, "SO_RDS_TRANSPORT: long");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, bad_pointer(), 4), EFAULT,
		     "SO_RDS_TRANSPORT: bad pointer");
	EXPECT_ERRNO(set_transport(fd, RDS_TRANS_GAP), ENOPROTOOPT, "SO_RDS_TRANSPORT: the unused one");
	EXPECT_OK(set_transport(fd, RDS_TRANS_TCP), "SO_RDS_TRANSPORT: TCP");
	EXPECT_EQ(transport_of(fd), RDS_TRANS_TCP, "SO_RDS_TRANSPORT: TCP is returned");
	EXPECT_ERRNO(set_transport(fd, RDS_TRANS_TCP), EOPNOTSUPP, "SO_RDS_TRANSPORT: chosen before");
	EXPECT_ERRNO(getsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &tcp, &(socklen_t){ 3 }), EINVAL,
		     "SO_RDS_TRANSPORT: short buffer");
	EXPECT_ERRNO(getsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, bad_pointer(), &(socklen_t){ 4 }), EFAULT,
		     "SO_RDS_TRANSPORT: bad buffer");
	close(fd);
}

static void with_bind(void)
{
	struct addr nobody4 = addr(NOBODY4, 0), nobody6 = addr(NOBODY6, 0), loop = addr("127.0.0.1", 0);
	int fd = rds_socket(HERE);

	NEED(set_transport(fd, RDS_TRANS_TCP) == 0);
	EXPECT_ERRNO(rds_bind(fd, &nobody4), ENOPROTOOPT, "SO_RDS_TRANSPORT: TCP has no such IPv4 address");
	EXPECT_ERRNO(rds_bind(fd, &nobody6), ENOPROTOOPT, "SO_RDS_TRANSPORT: TCP has no such IPv6 address");
	EXPECT_OK(rds_bind(fd, &loop), "SO_RDS_TRANSPORT: TCP serves loopback when it is selected");
	EXPECT_EQ(transport_of(fd), RDS_TRANS_TCP, "SO_RDS_TRANSPORT: and stays TCP");
	close(fd);
	for (size_t i = 0; i < PLACES; i++) {
		fd = rds_bound(HERE, places[i].text, 0);
		EXPECT_ERRNO(set_transport(fd, RDS_TRANS_TCP), EOPNOTSUPP, "SO_RDS_TRANSPORT: bound to %s",
			     places[i].text);
		check((transport_of(fd) == RDS_TRANS_TCP) == places[i].tcp, "SO_RDS_TRANSPORT: what %s chose",
		      places[i].text);
		close(fd);
	}
}

static void in_another_namespace(void)
{
	int ns = netns_new(), fd = rds_socket(ns);

	int err = set_transport(fd, RDS_TRANS_IB) ? errno : 0;

	/* Not loaded here. */
	differs(err == ENOPROTOOPT, "namespace-transport", "SO_RDS_TRANSPORT: IB in another namespace");
	EXPECT_OK(set_transport(fd, RDS_TRANS_TCP), "SO_RDS_TRANSPORT: TCP in another namespace");
	close(fd);
	close(ns);
}

static void loads_nothing(void)
{
	bool loaded;
	int fd = rds_socket(HERE);

	modprobe_watch();
	EXPECT_ERRNO(set_transport(fd, RDS_TRANS_IB), ENOPROTOOPT, "SO_RDS_TRANSPORT: IB is not there");
	loaded = modprobe_seen();
	differs(!loaded, "no-module-load", "SO_RDS_TRANSPORT loads no module");
	close(fd);
}

void api_transport(void)
{
	choice();
	with_bind();
	in_another_namespace();
	loads_nothing();
}
