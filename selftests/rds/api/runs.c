// SPDX-License-Identifier: GPL-2.0
/* Many messages in a call: RDS_RECV_LENGTHS and RDS_CMSG_LENGTHS, also by io_uring. */
#include "api.h"

#include <hawser_rds.h>
#include <poll.h>

#include "uring/pool.h"

#define SMALL 20
#define MANY 500

static char out[RDS_MOST_LENGTHS * SMALL], in[sizeof(out)];

/* Messages that differ, as many as @size bytes are. */
static void fill(size_t size)
{
	for (size_t i = 0; i < size; i++)
		out[i] = (char)(i / SMALL * 31 + i);
}

struct lengths_msg {
	char control[CMSG_SPACE(RDS_MOST_LENGTHS * sizeof(uint32_t))] __attribute__((aligned(8)));
	struct iovec io;
	struct msghdr msg;
};

/* The first @count messages of the contents, in one call. */
static void lengths_msg(struct lengths_msg *m, const struct addr *to, size_t count)
{
	uint32_t lengths[RDS_MOST_LENGTHS];
	struct cmsghdr *h = (void *)m->control;

	for (size_t i = 0; i < count; i++)
		lengths[i] = SMALL;
	m->io = (struct iovec){ out, count * SMALL };
	m->msg = (struct msghdr){ .msg_name = (void *)to, .msg_namelen = to->len, .msg_iov = &m->io, .msg_iovlen = 1,
				  .msg_control = m->control, .msg_controllen = CMSG_SPACE(count * sizeof(lengths[0])) };
	*h = (struct cmsghdr){ CMSG_LEN(count * sizeof(lengths[0])), SOL_RDS, RDS_CMSG_LENGTHS };
	memcpy(CMSG_DATA(h), lengths, count * sizeof(lengths[0]));
}

static ssize_t send_lengths(int fd, const struct addr *to, size_t count, int flags)
{
	struct lengths_msg m;

	lengths_msg(&m, to, count);
	return sendmsg(fd, &m.msg, flags);
}

/* The number of messages that a received control message names; 0: there is none, or a length is wrong. */
static size_t counted(struct control *c)
{
	struct msghdr msg = { .msg_control = c->data, .msg_controllen = c->len };
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	const uint32_t *lengths = h ? (void *)CMSG_DATA(h) : NULL;
	size_t count = h ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths) : 0;

	if (!h || h->cmsg_level != SOL_RDS || h->cmsg_type != RDS_CMSG_LENGTHS)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (lengths[i] != SMALL)
			return 0;
	return count;
}

/*
 * Takes @count messages; returns the number of calls, or 0 when something is wrong. A worker may deliver them, one after the
 * other.
 */
static unsigned takes_all(int fd, size_t count)
{
	unsigned calls = 0;
	struct control c;

	for (size_t at = 0; at < count * SMALL; calls++) {
		ssize_t n;

		NEED(polled(fd, POLLIN, SOON_MS));
		n = recv_control(fd, in + at, sizeof(in) - at, &c, MSG_DONTWAIT, NULL);
		if (n <= 0 || counted(&c) * SMALL != (size_t)n)
			return 0;
		at += (size_t)n;
	}
	return memcmp(in, out, count * SMALL) ? 0 : calls;
}

static void option(int fd)
{
	EXPECT_EQ(get_int(fd, SOL_RDS, RDS_RECV_LENGTHS), 0, "RDS_RECV_LENGTHS: off at first");
	EXPECT_ERRNO(set_int(fd, SOL_RDS, RDS_RECV_LENGTHS, 2), EINVAL, "RDS_RECV_LENGTHS: neither 0 nor 1");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_RECV_LENGTHS, out, 3), EINVAL, "RDS_RECV_LENGTHS: too short");
	EXPECT_OK(set_int(fd, SOL_RDS, RDS_RECV_LENGTHS, 1), "RDS_RECV_LENGTHS: on");
	EXPECT_EQ(get_int(fd, SOL_RDS, RDS_RECV_LENGTHS), 1, "RDS_RECV_LENGTHS: is on");
}

static void calls(int fd, const struct addr *self, const char *where)
{
	struct control c;
	unsigned taken_by;
	char *edge;

	fill(sizeof(out));
	EXPECT_EQ(send_lengths(fd, self, MANY, 0), MANY * SMALL, "lengths: many messages are sent by one call, %s", where);
	taken_by = takes_all(fd, MANY);
	check(taken_by > 0 && taken_by < MANY / 8, "lengths: they are received by few, %s", where);
	for (size_t i = 0; i < 5; i++)
		NEED(rds_send(fd, out + i * SMALL, SMALL, self, 0) == SMALL);
	check(takes_all(fd, 5) > 0, "lengths: as those that were sent singly, %s", where);
	NEED(send_lengths(fd, self, 5, 0) == 5 * SMALL);
	edge = before_hole(2 * SMALL + 5);
	EXPECT_EQ(recv_control(fd, edge, 5 * SMALL, &c, 0, NULL), 2 * SMALL, "lengths: memory that ends early, %s", where);
	EXPECT_EQ(counted(&c), 2, "lengths: those before its end are returned, %s", where);
	EXPECT_EQ(recv(fd, in, SMALL, 0), SMALL, "lengths: recv() returns one message, %s", where);
	check(!memcmp(in, out + 2 * SMALL, SMALL), "lengths: it is the next one, %s", where);
	NEED(recv(fd, in, sizeof(in), 0) == SMALL && recv(fd, in, sizeof(in), 0) == SMALL);
	EXPECT_EQ(send_lengths(fd, self, RDS_MOST_LENGTHS, 0), RDS_MOST_LENGTHS * SMALL, "lengths: the most of a call, %s",
		  where);
	check(takes_all(fd, RDS_MOST_LENGTHS) > 0, "lengths: all of them arrive, %s", where);
}

static void bad_lengths(int fd, const struct addr *self)
{
	static const struct {
		const char *what;
		uint32_t lengths[3];
		size_t bytes;
	} bad[] = { { "less than the data", { 3, 2 }, 8 },    { "more than the data", { 3, 4 }, 8 },
		    { "an empty message", { 6, 0 }, 8 },      { "a sum that wraps", { 0xfffffffe, 8 }, 8 },
		    { "none", { 0 }, 0 },                     { "half of one", { 6, 0 }, 6 } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct control c = { .len = 0 };

		control_add(&c, SOL_RDS, RDS_CMSG_LENGTHS, bad[i].lengths, bad[i].bytes);
		EXPECT_ERRNO(send_control(fd, "onetwo", 6, self, &c, 0), EINVAL, "lengths: %s", bad[i].what);
	}
	EXPECT_ERRNO(recv(fd, in, 1, MSG_DONTWAIT), EAGAIN, "lengths: nothing was sent");
}

static void uring_receives(int fd, const struct addr *self)
{
	struct __kernel_timespec soon = { .tv_sec = SOON_MS / 1000 };
	unsigned got = 0, completions = 0;
	struct io_uring_cqe *cqe;
	struct pool pool;

	pool_open(&pool, sizeof(self->in6));
	pool_arm(&pool, fd);
	NEED(send_lengths(fd, self, MANY, 0) == MANY * SMALL);
	while (got < MANY && !io_uring_wait_cqe_timeout(&pool.ring, &cqe, &soon)) {
		struct pool_run run = { .count = 0 };
		bool right = pool_read(&pool, cqe, SOL_RDS, RDS_CMSG_LENGTHS, &run) &&
			     !memcmp(run.bytes, out + got * SMALL, run.count * SMALL);

		if (!right && cqe->res != -ENOBUFS)
			break;
		got += run.count;
		completions++;
		if (!pool_seen(&pool, cqe))
			pool_arm(&pool, fd);
	}
	EXPECT_EQ(got, MANY, "io_uring: all messages arrive whole and in order");
	check(completions < MANY / 4, "io_uring: many in a completion");
	note("io_uring: %u messages in %u completions", got, completions);
	pool_close(&pool);
}

/* A send that waits for room is repeated by io_uring when there is some, and must still have all of its data. */
static void uring_sends(bool many)
{
	int fd = rds_bound(HERE, HERE4, 0);
	struct addr nobody = addr(NOBODY4, 4000);
	struct __kernel_timespec soon = { .tv_sec = SOON_MS / 1000 };
	struct lengths_msg m;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	const char *how = many ? "of many messages" : "of one message";

	lengths_msg(&m, &nobody, MANY);
	if (!many)
		m.msg.msg_controllen = 0;
	NEED(!io_uring_queue_init(4, &ring, 0));
	while (rds_send(fd, out, 5000, &nobody, MSG_DONTWAIT) == 5000)
		;
	EXPECT_EQ(errno, EAGAIN, "io_uring: the send buffer is full, %s", how);
	io_uring_prep_sendmsg(io_uring_get_sqe(&ring), fd, &m.msg, 0);
	NEED(io_uring_submit(&ring) == 1);
	check(io_uring_peek_cqe(&ring, &cqe) == -EAGAIN, "io_uring: a send waits for room, %s", how);
	EXPECT_OK(setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &nobody, nobody.len), "io_uring: there is room again, %s", how);
	NEED(!io_uring_wait_cqe_timeout(&ring, &cqe, &soon));
	EXPECT_EQ(cqe->res, MANY * SMALL, "io_uring: all was sent, %s", how);
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	close(fd);
}

void api_runs(void)
{
	if (ktap_suite() == SUITE_KERNEL)
		return;
	for (size_t i = 0; i < PLACES; i++) {
		int fd = rds_bound(HERE, places[i].text, 0);
		struct addr self = addr_of(fd);

		if (!i)
			option(fd);
		NEED(set_int(fd, SOL_RDS, RDS_RECV_LENGTHS, 1) == 0);
		NEED(set_int(fd, SOL_SOCKET, SO_RCVBUF, 200000) == 0);
		calls(fd, &self, places[i].text);
		if (!i)
			bad_lengths(fd, &self);
		if (!i)
			uring_receives(fd, &self);
		close(fd);
	}
	uring_sends(false);
	uring_sends(true);
}
