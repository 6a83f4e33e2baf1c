// SPDX-License-Identifier: GPL-2.0
/* poll and epoll, other ioctls, fcntl, calls that KCM does not support, and its files. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>

static int kcm_or_tcp(struct caller *c)
{
	return chance(c, 2) ? some_kcm(c).fd : chance(c, 2) ? some(c, NEAR) : some(c, POLITE_NEAR);
}

void call_wait(struct caller *c)
{
	static const int epolls[] = { K_EPOLL_CTL, K_EPOLL_WAIT };

	if (chance(c, 2))
		poll_any(c, K_POLL, kcm_or_tcp);
	else
		epoll_any(c, epolls, kcm_or_tcp);
}

/* Calls for other kinds of sockets. */
static void not_there(struct caller *c, int fd)
{
	struct addr a = addr("127.0.0.1", 1000), b = { .len = sizeof(b.in6) };

	CALL(c, K_LISTEN, listen(fd, pick(c, 10)));
	CALL(c, K_ACCEPT, accept4(fd, NULL, NULL, SOCK_NONBLOCK));
	CALL(c, K_SHUTDOWN, shutdown(fd, pick(c, 4)));
	CALL(c, K_BIND, bind(fd, &a.sa, odd_length(c, a.len)));
	CALL(c, K_CONNECT, connect(fd, &a.sa, odd_length(c, a.len)));
	CALL(c, K_NAMES, chance(c, 2) ? getsockname(fd, &b.sa, &b.len) : getpeername(fd, &b.sa, &b.len));
	CALL(c, K_MMAP, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
}

/* Whole, in pieces, from any offset, or into bad memory. */
static void read_files(struct caller *c)
{
	int fd = open(chance(c, 2) ? "/proc/thread-self/net/kcm" : "/proc/thread-self/net/kcm_stats", O_RDONLY | O_CLOEXEC);
	size_t size = 1 + any_size(c, 60000);
	int reads = 8;
	long got;

	if (fd < 0)
		return;
	do
		got = CALL(c, K_PROC, read(fd, chance(c, 16) ? sink(c, &size) : c->inbox, size));
	while (got > 0 && --reads);
	CALL(c, K_PROC, pread(fd, c->inbox, size, chance(c, 2) ? (off_t)pick(c, 5000) : (off_t)any_number(c)));
	close(fd);
}

void call_other(struct caller *c)
{
	int fd = some_kcm(c).fd;

	switch (pick(c, 5)) {
	case 0:
		return ioctl_any(c, K_IOCTL_OTHER, fd, SIOCKCMCLONE + 1, 13);
	case 1:
		return not_there(c, fd);
	case 2:
	case 3:
		return read_files(c);
	default:
		CALL(c, K_FCNTL, fcntl(fd, F_SETFL, chance(c, 2) ? O_NONBLOCK : 0));
	}
}
