// SPDX-License-Identifier: GPL-2.0
#include "api.h"
#include "task.h"

#include <poll.h>
#include <sys/epoll.h>

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND)

static void states(int fd, const char *where)
{
	struct addr self = addr_of(fd);
	char byte;

	/* The first poll() of a socket may also report a congestion change from before it was made. */
	polled(fd, ALL, 0);
	EXPECT_EQ(polled(fd, ALL, 0), POLLOUT | POLLWRNORM, "poll: idle is writable only, %s", where);
	NEED(rds_send(fd, "x", 1, &self, 0) == 1);
	check(WAIT_UNTIL(SOON_MS, polled(fd, POLLIN, 0) & POLLIN), "poll: readable with a message, %s",
	      where);
	EXPECT_EQ(polled(fd, POLLIN | POLLRDNORM, 0), POLLIN | POLLRDNORM, "poll: POLLRDNORM too, %s", where);
	NEED(rds_recv(fd, &byte, 1, NULL, MSG_PEEK) == 1);
	check(polled(fd, POLLIN, 0), "poll: still readable after MSG_PEEK, %s", where);
	NEED(rds_recv(fd, &byte, 1, NULL, 0) == 1);
	EXPECT_EQ(polled(fd, ALL, 0), POLLOUT | POLLWRNORM, "poll: not readable after reading, %s", where);
}

static void unbound(void)
{
	int fd = rds_socket(HERE);

	polled(fd, ALL, 0);
	EXPECT_EQ(polled(fd, ALL, 0), POLLOUT | POLLWRNORM, "poll: unbound is writable only");
	close(fd);
}

static void edges(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0), ep = epoll_create1(0);
	struct addr self = addr_of(fd);
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };

	polled(fd, ALL, 0);
	NEED(ep >= 0);
	EXPECT_OK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), "epoll: takes the socket");
	EXPECT_EQ(epoll_wait(ep, &e, 1, 0), 0, "epoll: nothing yet");
	NEED(rds_send(fd, "x", 1, &self, 0) == 1);
	EXPECT_EQ(epoll_wait(ep, &e, 1, SOON_MS), 1, "epoll: a message");
	EXPECT_EQ(epoll_wait(ep, &e, 1, 0), 0, "epoll: reported once");
	NEED(rds_send(fd, "y", 1, &self, 0) == 1);
	EXPECT_EQ(epoll_wait(ep, &e, 1, SOON_MS), 1, "epoll: another message is reported again");
	close(ep);
	close(fd);
}

static long wait_exclusively(void *arg)
{
	int ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	long woken;

	NEED(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, *(int *)arg, &e) == 0);
	woken = epoll_wait(ep, &e, 1, -1);
	close(ep);
	return woken;
}

/* A message wakes one of several threads that wait exclusively. */
static void exclusive(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	struct addr self = addr_of(fd);
	struct task waiters[3];
	int woken = 0;

	polled(fd, ALL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
		task_start(&waiters[i], wait_exclusively, &fd);
		NEED(task_blocked(&waiters[i]));
	}
	NEED(rds_send(fd, "x", 1, &self, 0) == 1);
	check(WAIT_UNTIL(SOON_MS, task_finished(&waiters[0], 0) || task_finished(&waiters[1], 0) ||
					  task_finished(&waiters[2], 0)),
	      "EPOLLEXCLUSIVE: a message wakes a thread");
	for (size_t i = 0; i < ARRAY_SIZE(waiters); i++)
		woken += !task_blocked(&waiters[i]);
	may_differ(woken == 1, "exclusive-wakes", "EPOLLEXCLUSIVE: and only one");
	for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
		while (!task_finished(&waiters[i], 100))
			NEED(rds_send(fd, "x", 1, &self, 0) == 1);
		task_join(&waiters[i]);
	}
	close(fd);
}

void api_poll(void)
{
	unbound();
	for (size_t i = 0; i < PLACES; i++) {
		int fd = rds_bound(HERE, places[i].text, 0);

		states(fd, places[i].text);
		close(fd);
	}
	edges();
	exclusive();
}
