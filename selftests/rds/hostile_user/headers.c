// SPDX-License-Identifier: GPL-2.0
/* Invalid message headers and option arguments. */
#include "hostile.h"

#include <limits.h>
#include <sys/uio.h>

static char memory[4096];

static void vectors(int fd, const struct addr *to)
{
	static struct iovec many[1025];
	struct iovec huge[2] = { { memory, SSIZE_MAX }, { memory, SSIZE_MAX } };
	struct iovec negative = { memory, (size_t)-1 };
	struct msghdr msg = { .msg_name = (void *)&to->sa, .msg_namelen = to->len, .msg_iovlen = 1 };

	msg.msg_iov = bad_pointer();
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EFAULT, "header: bad vector pointer, send");
	EXPECT_ERRNO(recvmsg(fd, &msg, MSG_DONTWAIT), EFAULT, "header: bad vector pointer, receive");
	msg.msg_iov = many;
	msg.msg_iovlen = ARRAY_SIZE(many);
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EMSGSIZE, "header: too many vectors, send");
	EXPECT_ERRNO(recvmsg(fd, &msg, MSG_DONTWAIT), EMSGSIZE, "header: too many vectors, receive");
	msg.msg_iovlen = (size_t)-1;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EMSGSIZE, "header: the greatest number of vectors");
	msg.msg_iov = &negative;
	msg.msg_iovlen = 1;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EINVAL, "header: a vector of negative length");
	msg.msg_iov = huge;
	msg.msg_iovlen = 2;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EFAULT, "header: vectors of the greatest length");
	EXPECT_ERRNO(sendto(fd, memory, INT_MAX, 0, &to->sa, to->len), EMSGSIZE,
		     "header: a message of 2 GiB");
	EXPECT_ERRNO(sendmsg(fd, bad_pointer(), 0), EFAULT, "header: bad header pointer");
	EXPECT_ERRNO(sendmsg(fd, kernel_pointer(), 0), EFAULT, "header: kernel pointer");
}

static void names(int fd, const struct addr *to)
{
	struct iovec io = { memory, 1 };
	struct msghdr msg = { .msg_name = (void *)&to->sa, .msg_iov = &io, .msg_iovlen = 1 };

	msg.msg_namelen = (socklen_t)-1;
	EXPECT_ERRNO(sendmsg(fd, &msg, 0), EINVAL, "header: a name of negative length");
	for (socklen_t len = 1; len < 16; len++) {
		msg.msg_namelen = len;
		if (!GIVES(sendmsg(fd, &msg, 0), EINVAL))
			break;
		if (len == 15)
			check(true, "header: names of 1 to 15 bytes are refused");
	}
	/* Longer than any address is cut to the longest, which is fine. */
	msg.msg_namelen = 100000;
	EXPECT_OK(sendmsg(fd, &msg, 0), "header: a name far too long");
}

static void options(int fd)
{
	struct random r = { seed };
	bool answered = true;

	/* Any option, any length, any pointer: a valid errno each time. */
	for (int i = 0; i < 20000; i++) {
		void *where[] = { memory, bad_pointer(), kernel_pointer(), NULL, memory + 4090, (void *)-1L };
		int option =
			random_below(&r, 4) ? (int)random_below(&r, 70) : 9990 + (int)random_below(&r, 40);
		void *value = where[random_below(&r, 6)];
		socklen_t len = random_below(&r, 3) ? random_below(&r, 300) : (socklen_t)random_next(&r);
		int ret;

		errno = 0;
		if (random_below(&r, 2))
			ret = setsockopt(fd, SOL_RDS, option, value, len);
		else
			ret = getsockopt(fd, SOL_RDS, option, value == memory + 4090 ? memory : value, &len);
		answered = answered && (ret >= 0 || (errno > 0 && errno < 200));
	}
	check(answered, "options: any option with any argument is answered");
}

void user_headers(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);

	vectors(fd, &self);
	names(fd, &self);
	close(fd);
	fd = rds_bound(HERE, HERE4, 0);
	options(fd);
	close(fd);
	check(all_is_well(), "headers: all is well afterwards");
}
