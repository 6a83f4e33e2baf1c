// SPDX-License-Identifier: GPL-2.0
/* Control messages of sendmsg(): their framing, their kinds, and zerocopy's cookie. RDMA's are in rdma.c. */
#include "api.h"

static void kinds(int fd, const struct addr *to)
{
	static const int unknown[] = { 0,
				       RDS_CMSG_RDMA_STATUS,
				       RDS_CMSG_CONG_UPDATE,
				       10,
				       RDS_CMSG_RXPATH_LATENCY,
				       RDS_CMSG_ZCOPY_COMPLETION,
				       14,
				       99,
				       -1 };

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		struct control c = { .len = 0 };

		control_add(&c, SOL_RDS, unknown[i], "12345678", 8);
		EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: type %d cannot be sent",
			     unknown[i]);
	}
}

/* Control messages of other levels are skipped. */
static void levels(int fd, const struct addr *to)
{
	static const int other[] = { SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, 12345 };

	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		struct control c = { .len = 0 };

		control_add(&c, other[i], 99, "12345678", 8);
		EXPECT_OK(send_control(fd, "x", 1, to, &c, 0), "cmsg: level %d is skipped", other[i]);
	}
}

static void framing(int fd, const struct addr *to)
{
	struct control c = { .len = 0 };
	struct cmsghdr *h = (struct cmsghdr *)c.data;
	struct iovec io = { "x", 1 };
	struct msghdr msg = {
		.msg_name = (void *)&to->sa, .msg_namelen = to->len, .msg_iov = &io, .msg_iovlen = 1
	};

	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, "12345678", 8);
	h->cmsg_len = sizeof(*h) - 1;
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: shorter than its header");
	h->cmsg_len = 0;
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: of length zero");
	h->cmsg_len = c.len + 1;
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: longer than the buffer");
	h->cmsg_len = (size_t)-1;
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: of the greatest length");
	h->cmsg_level = SOL_SOCKET;
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL, "cmsg: malformed of another level");
	c.len = sizeof(*h) - 1;
	EXPECT_OK(send_control(fd, "x", 1, to, &c, 0), "cmsg: a buffer too short for any is none");
	msg.msg_control = bad_pointer();
	msg.msg_controllen = 64;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EFAULT, "cmsg: bad pointer");
	msg.msg_control = c.data;
	msg.msg_controllen = 1 << 28;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), ENOBUFS, "cmsg: a huge buffer");
}

/* A second one must be checked like the first. */
static void second(int fd, const struct addr *to)
{
	struct control c = { .len = 0 };

	control_add(&c, SOL_SOCKET, 99, "1234", 4);
	control_add(&c, SOL_RDS, 99, "1234", 4);
	EXPECT_ERRNO(send_control(fd, "x", 1, to, &c, 0), EINVAL,
		     "cmsg: an unknown one after one skipped");
}

static struct control cookie_of(size_t len)
{
	struct control c = { .len = 0 };
	static const uint32_t cookie[2] = { 7, 7 };

	control_add(&c, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, cookie, len);
	return c;
}

static void zerocopy(void)
{
	int loop = rds_bound(HERE, "127.0.0.1", 0), tcp = rds_bound(HERE, HERE4, 0);
	struct addr to_loop = addr_of(loop), to_tcp = addr_of(tcp);
	struct control good = cookie_of(4), small = cookie_of(3), none = { .len = 0 };

	EXPECT_ERRNO(send_control(tcp, "x", 1, &to_tcp, &good, MSG_ZEROCOPY), EINVAL,
		     "zerocopy: SO_ZEROCOPY was not set");
	EXPECT_ERRNO(set_int(tcp, SOL_SOCKET, SO_ZEROCOPY, 2), EINVAL, "SO_ZEROCOPY: 2 is no choice");
	EXPECT_OK(set_int(tcp, SOL_SOCKET, SO_ZEROCOPY, 1), "SO_ZEROCOPY: is known to RDS");
	NEED(set_int(loop, SOL_SOCKET, SO_ZEROCOPY, 1) == 0);
	EXPECT_ERRNO(send_control(loop, "x", 1, &to_loop, &good, MSG_ZEROCOPY), EOPNOTSUPP,
		     "zerocopy: not from a loopback address");
	EXPECT_ERRNO(send_control(tcp, "x", 1, &to_tcp, &none, MSG_ZEROCOPY), EINVAL,
		     "zerocopy: without a cookie");
	EXPECT_ERRNO(send_control(tcp, "x", 1, &to_tcp, &small, MSG_ZEROCOPY), EINVAL,
		     "zerocopy: with a short cookie");
	EXPECT_ERRNO(send_control(tcp, "x", 1, &to_tcp, &good, 0), EINVAL,
		     "zerocopy: a cookie without it");
	EXPECT_ERRNO(send_control(tcp, bad_pointer(), 1000, &to_tcp, &good, MSG_ZEROCOPY), EFAULT,
		     "zerocopy: bad pointer");
	EXPECT_ERRNO(send_control(tcp, before_hole(9000), 9001, &to_tcp, &good, MSG_ZEROCOPY), EFAULT,
		     "zerocopy: memory that ends one byte early");
	EXPECT_OK(send_control(tcp, "x", 1, &to_tcp, &good, MSG_ZEROCOPY), "zerocopy: as it should be");
	close(loop);
	close(tcp);
}

void api_send_control(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);

	kinds(fd, &self);
	levels(fd, &self);
	framing(fd, &self);
	second(fd, &self);
	close(fd);
	zerocopy();
}
