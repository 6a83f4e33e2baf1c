// SPDX-License-Identifier: GPL-2.0
/* poll and epoll, ioctl, fcntl, and calls that RDS does not support. */
#include "fuzz.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int some_fd(struct caller *c)
{
	return some_socket(c).fd;
}

void call_wait(struct caller *c)
{
	static const int epolls[] = { K_EPOLL_CTL, K_EPOLL_WAIT };

	if (chance(c, 3))
		poll_any(c, K_POLL, some_fd);
	else
		epoll_any(c, epolls, some_fd);
}

static void controls(struct caller *c, int fd)
{
	size_t size = 8;
	char *where = chance(c, 6) ? sink(c, &size) : c->scratch;
	uint8_t type = any_number(c);

	switch (pick(c, 3)) {
	case 0:
		CALL(c, K_IOCTL_SETTOS, ioctl(fd, SIOCRDSSETTOS, chance(c, 8) ? where : (char *)&type));
		return;
	case 1:
		CALL(c, K_IOCTL_GETTOS, ioctl(fd, SIOCRDSGETTOS, where));
		return;
	default:
		return ioctl_any(c, K_IOCTL_OTHER, fd, 0x89e2, 14);
	}
}

/* Calls for stream connections. */
static void not_there(struct caller *c, int fd)
{
	switch (pick(c, 4)) {
	case 0:
		CALL(c, K_LISTEN, listen(fd, pick(c, 10)));
		return;
	case 1:
		CALL(c, K_ACCEPT, accept4(fd, NULL, NULL, SOCK_NONBLOCK));
		return;
	case 2:
		CALL(c, K_SHUTDOWN, shutdown(fd, pick(c, 4)));
		return;
	default:
		CALL(c, K_MMAP, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	}
}

void call_other(struct caller *c)
{
	int fd = some_socket(c).fd;

	switch (pick(c, 4)) {
	case 0:
	case 1:
		return controls(c, fd);
	case 2:
		return not_there(c, fd);
	default:
		CALL(c, K_FCNTL, fcntl(fd, F_SETFL, chance(c, 2) ? O_NONBLOCK : 0));
	}
}
