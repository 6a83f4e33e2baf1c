// SPDX-License-Identifier: GPL-2.0
/* sendmsg(): destinations, flags, sizes, memory. */
#include "api.h"

#include <sys/uio.h>

static char big[MAX_MESSAGE + 4096];

static void flags(void)
{
	static const struct {
		int flag;
		const char *name;
	} unknown[] = {
		{ MSG_OOB, "MSG_OOB" },
		{ MSG_PEEK, "MSG_PEEK" },
		{ MSG_DONTROUTE, "MSG_DONTROUTE" },
		{ MSG_TRUNC, "MSG_TRUNC" },
		{ MSG_EOR, "MSG_EOR" },
		{ MSG_CONFIRM, "MSG_CONFIRM" },
		{ MSG_MORE, "MSG_MORE" },
		{ MSG_FASTOPEN, "MSG_FASTOPEN" },
		{ MSG_WAITALL, "MSG_WAITALL" },
		{ MSG_PROXY, "MSG_PROXY" },
	};
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		EXPECT_ERRNO(rds_send(fd, "x", 1, &self, unknown[i].flag), EOPNOTSUPP, "send: %s is refused",
			     unknown[i].name);
	EXPECT_OK(rds_send(fd, "x", 1, &self, MSG_DONTWAIT), "send: MSG_DONTWAIT");
	NEED(rds_recv_soon(fd, &byte, 1, NULL) == 1);
	differs(GIVES(rds_send(fd, "x", 1, &self, MSG_NOSIGNAL), 0), "io_uring", "send: MSG_NOSIGNAL");
	close(fd);
}

/* sendmmsg() marks all but the last message with a flag of its own. */
static void several_at_once(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);
	struct iovec io = { "x", 1 };
	struct mmsghdr two[2];

	for (int i = 0; i < 2; i++)
		two[i] = (struct mmsghdr){ .msg_hdr = { .msg_name = &self.sa,
							.msg_namelen = self.len,
							.msg_iov = &io,
							.msg_iovlen = 1 } };
	differs(GIVES(sendmmsg(fd, two, 2, 0), 0), "sendmmsg", "sendmmsg() sends several messages");
	close(fd);
}

static void destinations(void)
{
	static const char *const wrong4[] = { "0.0.0.0", "255.255.255.255", "224.0.0.1" };
	static const char *const wrong6[] = { "ff02::1", "::ffff:0.0.0.0", "::ffff:255.255.255.255",
					      "::ffff:224.0.0.1", "fe80::1" };
	int v4 = rds_bound(HERE, "127.0.0.1", 0), v6 = rds_bound(HERE, "::1", 0);
	struct addr to4 = addr("127.0.0.1", 4000), to6 = addr("::1", 4000), short4 = to4, short6 = to6,
		    odd = to4;

	for (size_t i = 0; i < ARRAY_SIZE(wrong4); i++) {
		struct addr to = addr(wrong4[i], 4000);

		EXPECT_ERRNO(rds_send(v4, "x", 1, &to, 0), EINVAL, "send: to %s", wrong4[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong6); i++) {
		struct addr to = addr(wrong6[i], 4000);

		EXPECT_ERRNO(rds_send(v6, "x", 1, &to, 0), EINVAL, "send: to %s", wrong6[i]);
	}
	short4.len--;
	EXPECT_ERRNO(rds_send(v4, "x", 1, &short4, 0), EINVAL, "send: short IPv4 address");
	short6.len--;
	EXPECT_ERRNO(rds_send(v6, "x", 1, &short6, 0), EINVAL, "send: short IPv6 address");
	odd.sa.sa_family = AF_UNIX;
	EXPECT_ERRNO(rds_send(v4, "x", 1, &odd, 0), EINVAL, "send: another family");
	EXPECT_ERRNO(rds_send(v4, "x", 1, &to6, 0), EOPNOTSUPP, "send: from IPv4 to IPv6");
	EXPECT_ERRNO(rds_send(v6, "x", 1, &to4, 0), EOPNOTSUPP, "send: from IPv6 to IPv4");
	EXPECT_ERRNO(sendto(v4, "x", 1, 0, bad_pointer(), to4.len), EFAULT, "send: bad address pointer");
	NEED(rds_connect(v4, &to6) == 0);
	differs(GIVES(rds_send(v4, "x", 1, NULL, 0), EOPNOTSUPP), "mixed-families",
		"send: from IPv4 to IPv6 on a connected socket");
	close(v4);
	close(v6);
}

static void unbound(void)
{
	struct addr to = addr("127.0.0.1", 4000);
	int loose = rds_socket(HERE), fixed = rds_bound(HERE, "127.0.0.1", 0);

	EXPECT_ERRNO(rds_send(loose, "x", 1, &to, 0), ENOTCONN, "send: from an unbound socket");
	NEED(rds_connect(loose, &to) == 0);
	EXPECT_ERRNO(rds_send(loose, "x", 1, NULL, 0), ENOTCONN, "send: from a connected, unbound socket");
	EXPECT_ERRNO(rds_send(fixed, "x", 1, NULL, 0), ENOTCONN, "send: without a destination");
	EXPECT_OK(rds_send(fixed, "x", 1, &to, 0), "send: to an unbound port");
	close(loose);
	close(fixed);
}

static void sizes(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0), sink = rds_bound(HERE, "127.0.0.1", 0);
	struct addr to = addr_of(sink);

	EXPECT_EQ(rds_send(fd, big, 0, &to, 0), 0, "send: nothing");
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUF, 20000) == 0);
	EXPECT_EQ(rds_send(fd, big, 20000, &to, 0), 20000, "send: as much as the send buffer takes");
	EXPECT_ERRNO(rds_send(fd, big, 20001, &to, 0), EMSGSIZE, "send: more than the send buffer takes");
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20) == 0);
	EXPECT_EQ(rds_send(fd, big, MAX_MESSAGE, &to, 0), MAX_MESSAGE, "send: 1 MiB");
	EXPECT_ERRNO(rds_send(fd, big, MAX_MESSAGE + 1, &to, 0), EMSGSIZE, "send: more than 1 MiB");
	close(fd);
	close(sink);
}

static void memory(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);
	struct iovec io[2] = { { big, 100 }, { bad_pointer(), 100 } };
	struct msghdr msg = { .msg_name = &self.sa, .msg_namelen = self.len, .msg_iov = io, .msg_iovlen = 2 };
	char *edge = before_hole(5000);

	EXPECT_ERRNO(rds_send(fd, bad_pointer(), 100, &self, 0), EFAULT, "send: bad pointer");
	EXPECT_ERRNO(rds_send(fd, kernel_pointer(), 100, &self, 0), EFAULT, "send: kernel pointer");
	EXPECT_ERRNO(rds_send(fd, edge, 5001, &self, 0), EFAULT, "send: memory that ends one byte early");
	EXPECT_OK(sendmsg(fd, &(struct msghdr){ .msg_name = &self.sa, .msg_namelen = self.len }, 0),
		  "send: no vector at all is an empty message");
	NEED(rds_recv_soon(fd, big, 1, NULL) == 0);
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EFAULT, "send: bad second vector");
	EXPECT_ERRNO(rds_recv(fd, big, sizeof(big), NULL, MSG_DONTWAIT), EAGAIN,
		     "send: nothing of a failed one arrives");
	EXPECT_EQ(rds_send(fd, edge, 5000, &self, 0), 5000, "send: memory that ends exactly there");
	close(fd);
}

void api_send(void)
{
	flags();
	several_at_once();
	destinations();
	unbound();
	sizes();
	memory();
}
