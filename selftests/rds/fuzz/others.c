// SPDX-License-Identifier: GPL-2.0
/* poll and epoll, ioctl, fcntl, and what RDS does not have. */
#include "fuzz.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int epoll;

void others_open(void)
{
	epoll = epoll_create1(EPOLL_CLOEXEC);
	NEED(epoll >= 0);
}

void call_wait(struct caller *c)
{
	struct pollfd polled[6];
	struct epoll_event events[8], event = { .events = random_next(&c->random) };

	switch (pick(c, 3)) {
	case 0:
		for (size_t i = 0; i < ARRAY_SIZE(polled); i++)
			polled[i] = (struct pollfd){ some_socket(c).fd, random_next(&c->random) };
		CALL(c, K_POLL, poll(polled, 1 + pick(c, ARRAY_SIZE(polled)), pick(c, 8)));
		return;
	case 1:
		event.events &= ~(EPOLLEXCLUSIVE | EPOLLWAKEUP);
		CALL(c, K_EPOLL_CTL, epoll_ctl(epoll, ANY_OF(c, ((int[]){ EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL })),
					       some_socket(c).fd, &event));
		return;
	default:
		CALL(c, K_EPOLL_WAIT, epoll_wait(epoll, events, ARRAY_SIZE(events), pick(c, 8)));
	}
}

static void controls(struct caller *c, int fd)
{
	static const unsigned int some[] = { FIONREAD, SIOCOUTQ, FIONBIO, FIOASYNC, SIOCGSTAMP_OLD, SIOCATMARK };
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
		/* Of sockets in general, and of the range that is a protocol's own; devices' wait for others than us. */
		memset(c->scratch, 0, 8);
		CALL(c, K_IOCTL_OTHER, ioctl(fd, chance(c, 2) ? ANY_OF(c, some) : 0x89e2 + (unsigned int)pick(c, 14), where));
	}
}

/* What belongs to connections. */
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
