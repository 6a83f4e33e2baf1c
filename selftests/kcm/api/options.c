// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static int get(int fd, void *value, socklen_t *len)
{
	return getsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, value, len);
}

static void reading(int fd)
{
	int value[2] = { -1, -1 };
	socklen_t len = sizeof(value);

	check(get(fd, value, &len) == 0 && len == 4 && value[0] == 0, "KCM_RECV_DISABLE: 0 at first");
	check(value[1] == -1, "KCM_RECV_DISABLE: writes no more than it returns");
	len = 2;
	check(get(fd, value, &len) == 0 && len == 2, "KCM_RECV_DISABLE: a short buffer gets what fits");
	len = 0;
	check(get(fd, value, &len) == 0 && len == 0, "KCM_RECV_DISABLE: no buffer gets nothing");
	len = -1;
	EXPECT_ERRNO(get(fd, value, &len), EINVAL, "KCM_RECV_DISABLE: a negative buffer length");
	len = 4;
	EXPECT_ERRNO(get(fd, bad_pointer(), &len), EFAULT, "KCM_RECV_DISABLE: bad buffer");
	EXPECT_ERRNO(get(fd, value, bad_pointer()), EFAULT, "KCM_RECV_DISABLE: bad length pointer");
}

static void writing(int fd)
{
	long value = 1;

	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, &value, 0), EINVAL, "KCM_RECV_DISABLE: no length");
	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, &value, 3), EINVAL, "KCM_RECV_DISABLE: short");
	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, &value, -1), EINVAL,
		     "KCM_RECV_DISABLE: negative length");
	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, bad_pointer(), 4), EFAULT,
		     "KCM_RECV_DISABLE: bad pointer");
	EXPECT_EQ(get_int(fd, SOL_KCM, KCM_RECV_DISABLE), 0, "KCM_RECV_DISABLE: a refused value changes nothing");
	EXPECT_OK(setsockopt(fd, SOL_KCM, KCM_RECV_DISABLE, &value, 8), "KCM_RECV_DISABLE: longer than needed");
	EXPECT_EQ(get_int(fd, SOL_KCM, KCM_RECV_DISABLE), 1, "KCM_RECV_DISABLE: on");
	EXPECT_OK(kcm_disable(fd, 7), "KCM_RECV_DISABLE: anything but 0");
	EXPECT_EQ(get_int(fd, SOL_KCM, KCM_RECV_DISABLE), 1, "KCM_RECV_DISABLE: reads 1");
	EXPECT_OK(kcm_disable(fd, 0), "KCM_RECV_DISABLE: off");
	EXPECT_EQ(get_int(fd, SOL_KCM, KCM_RECV_DISABLE), 0, "KCM_RECV_DISABLE: reads 0");
}

static void unknown(int fd)
{
	static const struct {
		int level, option;
	} wrong[] = { { SOL_KCM, 0 },	  { SOL_KCM, 1000 },	 { SOL_KCM, -1 },
		      { IPPROTO_TCP, 1 }, { IPPROTO_IP, 1 },	 { SOL_KCM + 1, 1 } };
	int value = 1;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		socklen_t len = sizeof(value);

		EXPECT_ERRNO(setsockopt(fd, wrong[i].level, wrong[i].option, &value, len), ENOPROTOOPT,
			     "setsockopt: level %d, option %d", wrong[i].level, wrong[i].option);
		EXPECT_ERRNO(getsockopt(fd, wrong[i].level, wrong[i].option, &value, &len), ENOPROTOOPT,
			     "getsockopt: level %d, option %d", wrong[i].level, wrong[i].option);
	}
}

static void socket_level(const struct type *type)
{
	int fd = kcm_socket(HERE, type->value);

	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_DOMAIN), AF_KCM, "SO_DOMAIN: AF_KCM, %s", type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_TYPE), type->value, "SO_TYPE: %s", type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_PROTOCOL), 0, "SO_PROTOCOL: 0, %s", type->name);
	EXPECT_EQ(sock_error(fd), 0, "SO_ERROR: none, %s", type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 0, "SO_ACCEPTCONN: no, %s", type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 212992, "SO_RCVBUF: the system's default, %s", type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 212992, "SO_SNDBUF: the system's default, %s", type->name);
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUF, 30000) == 0 && set_int(fd, SOL_SOCKET, SO_RCVBUF, 40000) == 0);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 60000, "SO_SNDBUF: reads twice as large, as everywhere, %s",
		  type->name);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 80000, "SO_RCVBUF: reads twice as large, as everywhere, %s",
		  type->name);
	close(fd);
}

void api_options(void)
{
	int fd = kcm_socket(HERE, SOCK_DGRAM);

	reading(fd);
	writing(fd);
	unknown(fd);
	close(fd);
	for (size_t i = 0; i < TYPES; i++)
		socket_level(&types[i]);
}
