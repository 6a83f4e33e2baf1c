// SPDX-License-Identifier: GPL-2.0
/* Malformed control messages of every kind, made from a seed. */
#include "hostile.h"

#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define ROUNDS 20000

static char memory[3 * 4096];

static uint64_t some_number(struct random *r)
{
	static const uint64_t likely[] = { 0,	       1,	4095,	       4096,
					   4097,       1 << 20, (1 << 20) + 1, 1ULL << 31,
					   1ULL << 32, ~0ULL,	~0ULL - 4095,  1ULL << 63 };

	switch (random_below(r, 4)) {
	case 0:
		return random_next(r);
	case 1:
		return (uintptr_t)memory + random_below(r, sizeof(memory));
	case 2:
		return (uintptr_t)bad_pointer();
	default:
		return likely[random_below(r, ARRAY_SIZE(likely))];
	}
}

/* Appends a control message to @c, valid or malformed in any way. */
static void append_any(struct random *r, struct control *c)
{
	static const size_t right[] = { 0,
					4,
					8,
					sizeof(struct rds_get_mr_args),
					sizeof(struct rds_rdma_args),
					sizeof(struct rds_atomic_args) };
	size_t len = random_below(r, 4) ? right[random_below(r, ARRAY_SIZE(right))] : random_below(r, 200);
	uint64_t payload[32];
	struct cmsghdr *h;
	void *data;

	if (c->len + CMSG_SPACE(len) > sizeof(c->data))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(payload); i++)
		payload[i] = some_number(r);
	/* Sometimes a plausible count of vectors, or the other fields are never checked. */
	if (len == sizeof(struct rds_rdma_args) && random_below(r, 2))
		payload[offsetof(struct rds_rdma_args, nr_local) / 8] = random_below(r, 4);
	data = control_add(c, random_below(r, 8) ? SOL_RDS : (int)random_below(r, 300), random_below(r, 16),
			   payload, len);
	h = (struct cmsghdr *)((char *)data - CMSG_LEN(0));
	if (!random_below(r, 8))
		h->cmsg_len = some_number(r);
}

static void storm(int fd)
{
	struct addr self = addr_of(fd);
	struct random r = { seed + 1 };
	int sent = 0, refused = 0;
	bool known = true;

	for (int i = 0; i < ROUNDS; i++) {
		struct control c = { .len = 0 };
		int flags = MSG_DONTWAIT | (random_below(&r, 4) ? 0 : MSG_ZEROCOPY);

		for (int n = random_below(&r, 5); n >= 0; n--)
			append_any(&r, &c);
		if (!random_below(&r, 8))
			c.len -= random_below(&r, 8);
		if (send_control(fd, memory, random_below(&r, 5000), &self, &c, flags) >= 0) {
			sent++;
			while (rds_recv(fd, memory, sizeof(memory), NULL, MSG_DONTWAIT) >= 0)
				;
		} else {
			refused++;
			known = known && (errno == EINVAL || errno == EFAULT || errno == EMSGSIZE ||
					  errno == EOPNOTSUPP || errno == ENOMEM || errno == EAGAIN ||
					  errno == ENOBUFS);
		}
	}
	note("%d sent, %d refused", sent, refused);
	check(known && sent > 0 && refused > ROUNDS / 2, "control: %d random messages are sent or refused",
	      ROUNDS);
}

static void very_many(int fd)
{
	struct addr self = addr_of(fd);
	struct rds_iovec vec = { (uintptr_t)memory, 100 };
	struct rds_rdma_args args = { .remote_vec = { 0, 100 },
				      .local_vec_addr = (uintptr_t)&vec,
				      .nr_local = 1 };
	struct control c = { .len = 0 };

	for (int i = 0; i < 25; i++)
		control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	check(send_control(fd, "x", 1, &self, &c, 0) < 0,
	      "control: 25 transfers in a message are refused");
}

#define PIECES 1000
#define LOCKED_MAX (16 * 4096)

/* @count pieces of a byte each, every one of which pins a page. */
static ssize_t send_pieces(int fd, const struct addr *to, unsigned int count)
{
	static struct iovec pieces[PIECES];
	uint32_t cookie = count;
	struct control c = { .len = 0 };
	struct msghdr msg = { .msg_name = (void *)&to->sa, .msg_namelen = to->len, .msg_iov = pieces, .msg_iovlen = count };

	control_add(&c, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, &cookie, sizeof(cookie));
	msg.msg_control = c.data;
	msg.msg_controllen = c.len;
	for (unsigned int i = 0; i < count; i++)
		pieces[i] = (struct iovec){ memory + i, 1 };
	return sendmsg(fd, &msg, MSG_ZEROCOPY | MSG_DONTWAIT);
}

/* A user without privileges who may lock 16 pages. */
static int pins_what_it_may(int fd, const struct addr *to)
{
	struct rlimit limit = { LOCKED_MAX, LOCKED_MAX };

	NEED(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setresuid(4711, 4711, 4711) == 0);
	if (send_pieces(fd, to, PIECES) >= 0 || errno != ENOMEM)
		return 1;
	return send_pieces(fd, to, 10) == 10 ? 0 : 2;
}

static void pinned_pages(int fd)
{
	struct addr self = addr_of(fd);
	int status = -1;
	pid_t child = fork();

	NEED(child >= 0);
	if (!child)
		_exit(pins_what_it_may(fd, &self));
	NEED(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0, "MSG_ZEROCOPY: pages are charged, not bytes; too many are ENOMEM");
	EXPECT_EQ(rds_recv_soon(fd, memory, sizeof(memory), NULL), 10, "MSG_ZEROCOPY: a message within the limit arrives");
}

void user_control(void)
{
	int loop = rds_bound(HERE, "127.0.0.1", 0), tcp = rds_bound(HERE, HERE4, 0);

	NEED(set_int(tcp, SOL_SOCKET, SO_ZEROCOPY, 1) == 0);
	storm(loop);
	storm(tcp);
	very_many(tcp);
	pinned_pages(tcp);
	close(loop);
	close(tcp);
	check(all_is_well(), "control: all is well afterwards");
}
