// SPDX-License-Identifier: GPL-2.0
#include "fuzz/calls.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "fuzz/memory.h"

void set_of_socket(struct caller *c, int kind, int fd)
{
	static const int sizes[] = { SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE };
	int option = chance(c, 3) ? ANY_OF(c, sizes) : 1 + (int)pick(c, 84), value = pick(c, 1 << 20);
	struct timeval soon = { 0, pick(c, 50000) };

	if (option == SO_SNDBUF || option == SO_RCVBUF || option == SO_SNDBUFFORCE || option == SO_RCVBUFFORCE) {
		CALL(c, kind, setsockopt(fd, SOL_SOCKET, option, &value, odd_length(c, sizeof(value))));
	} else if (chance(c, 3)) {
		option = chance(c, 2) ? SO_SNDTIMEO : SO_RCVTIMEO;
		CALL(c, kind, setsockopt(fd, SOL_SOCKET, option, &soon, odd_length(c, sizeof(soon))));
	} else {
		value = chance(c, 2) ? pick(c, 2) : any_number(c);
		CALL(c, kind, setsockopt(fd, SOL_SOCKET, option, &value, odd_length(c, sizeof(value))));
	}
}

void get_any(struct caller *c, int kind, int fd, int level, int option)
{
	/* The stated length may exceed the memory, but written data must end within the inbox. */
	size_t all = 256;
	char *where = chance(c, 8) ? sink(c, &all) : c->inbox;
	socklen_t len = odd_length(c, sizeof(int)), room = len;

	if (CALL(c, kind, getsockopt(fd, level, option, where, &len)) >= 0 && len > room)
		wrong(c, "length of an option", len, room);
}

void poll_any(struct caller *c, int kind, int (*some)(struct caller *c))
{
	struct pollfd polled_ones[6];

	for (size_t i = 0; i < ARRAY_SIZE(polled_ones); i++)
		polled_ones[i] = (struct pollfd){ some(c), random_next(&c->random) };
	CALL(c, kind, poll(polled_ones, 1 + pick(c, ARRAY_SIZE(polled_ones)), pick(c, 8)));
}

static int epoll;

void calls_open(void)
{
	epoll = epoll_create1(EPOLL_CLOEXEC);
	NEED(epoll >= 0);
}

void epoll_any(struct caller *c, const int kinds[2], int (*some)(struct caller *c))
{
	static const int operations[] = { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL };
	struct epoll_event events[8], event = { .events = random_next(&c->random) & ~(EPOLLEXCLUSIVE | EPOLLWAKEUP) };

	if (chance(c, 2))
		CALL(c, kinds[0], epoll_ctl(epoll, ANY_OF(c, operations), some(c), &event));
	else
		CALL(c, kinds[1], epoll_wait(epoll, events, ARRAY_SIZE(events), pick(c, 8)));
}

uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len);
	return cookie;
}

/* ---- receiving */

void receive_to_sink(struct caller *c, int kind, int fd)
{
	size_t size = any_size(c, 200000), control_size = pick(c, 200);
	struct iovec io = { sink(c, &size), 0 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	io.iov_len = size;
	if (chance(c, 4)) {
		msg.msg_control = sink(c, &control_size);
		msg.msg_controllen = control_size;
	}
	if (chance(c, 8))
		io.iov_base = read_only_page();
	CALL(c, kind, recvmsg(fd, &msg, chance(c, 6) ? 0 : MSG_DONTWAIT));
}

void receive_bad_header(struct caller *c, int kind, int fd)
{
	struct iovec io = { c->inbox, 100 };
	struct msghdr msg = { .msg_iov = chance(c, 2) ? bad_pointer() : &io, .msg_iovlen = 1 };

	if (msg.msg_iov == &io)
		msg.msg_iovlen = 1025 + any_number(c) / 2;
	CALL(c, kind, recvmsg(fd, chance(c, 3) ? kernel_pointer() : &msg, MSG_DONTWAIT));
}

int any_flags(struct caller *c)
{
	return 1 << pick(c, 32) | (chance(c, 2) ? 0 : 1 << pick(c, 32));
}

/* ---- ioctl */

void ioctl_any(struct caller *c, int kind, int fd, unsigned int first, unsigned int count)
{
	static const unsigned int general[] = { FIONREAD, SIOCOUTQ, FIONBIO, FIOASYNC, SIOCGSTAMP_OLD, SIOCATMARK };
	unsigned int command = chance(c, 2) ? ANY_OF(c, general) : first + (unsigned int)pick(c, count);
	size_t size = 8;
	char *where = chance(c, 6) ? sink(c, &size) : c->scratch;

	memset(c->scratch, 0, 8);
	CALL(c, kind, ioctl(fd, command, where));
}
