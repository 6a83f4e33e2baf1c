// SPDX-License-Identifier: GPL-2.0
#include "api.h"

#include <sys/epoll.h>

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDHUP)

static void states(const struct type *type)
{
	struct rig r = { .kcm = kcm_socket(HERE, type->value) };
	struct link l = tcp_link(HERE, AF_INET);

	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLOUT, "poll: fresh, %s", type->name);
	NEED(kcm_attach(r.kcm, l.near, parser_framed()) == 0);
	r.tcp = l.near;
	r.peer = l.far;
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLOUT, "poll: idle, %s", type->name);
	peer_send_frame(r.peer, MEDIUM, 1);
	check(polled(r.kcm, POLLIN, SOON_MS), "poll: a message comes, %s", type->name);
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLIN | POLLOUT, "poll: with a message, %s", type->name);
	EXPECT_EQ(polled(r.kcm, POLLRDNORM | POLLWRNORM, 0), POLLRDNORM | POLLWRNORM, "poll: the other names, %s",
		  type->name);
	NEED(kcm_recv(r.kcm, buf, 10, &(int){ MSG_PEEK }) == 10);
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLIN | POLLOUT, "poll: after MSG_PEEK, %s", type->name);
	NEED(kcm_takes(r.kcm, MEDIUM, 1));
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLOUT, "poll: after reading, %s", type->name);
	NEED(send(r.kcm, "x", 1, MSG_BATCH | MSG_EOR) == 1);
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLOUT, "poll: with a batch that is held, %s", type->name);
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	EXPECT_EQ(polled(r.kcm, ALL, 0), POLLOUT, "poll: with no connection any more, %s", type->name);
	rig_close(&r);
}

static void edges(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	NEED(ep >= 0);
	EXPECT_OK(epoll_ctl(ep, EPOLL_CTL_ADD, r.kcm, &e), "epoll: takes the socket");
	EXPECT_EQ(epoll_wait(ep, &e, 1, 0), 0, "epoll: nothing yet");
	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(epoll_wait(ep, &e, 1, SOON_MS), 1, "epoll: a message");
	EXPECT_EQ(epoll_wait(ep, &e, 1, stretched(50)), 0, "epoll: reported once");
	peer_send_frame(r.peer, MEDIUM, 2);
	EXPECT_EQ(epoll_wait(ep, &e, 1, SOON_MS), 1, "epoll: another message is reported again");
	close(ep);
	rig_close(&r);
}

static long wait_for_message(void *arg)
{
	return polled(*(int *)arg, POLLIN, SOON_MS);
}

static void waking(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct task t;

	task_start(&t, wait_for_message, &r.kcm);
	NEED(task_blocked(&t));
	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(task_finished(&t, 2 * SOON_MS));
	EXPECT_EQ(task_join(&t), POLLIN, "poll: a message wakes a waiting task");
	rig_close(&r);
}

void api_poll(void)
{
	for (size_t i = 0; i < TYPES; i++)
		states(&types[i]);
	edges();
	waking();
}
