// SPDX-License-Identifier: GPL-2.0
/*
 * A message whose copying stalls repeatedly, while another on the same processor uses up the pages that both are
 * copied into: each time only one byte is left for it.
 */
#include "hostile.h"

#include <sched.h>

#include "trap.h"

#define STALLS 6
#define SLOW_SIZE 4000		   /* more than fits the message's own memory, less than a page */
#define LARGE_PAGE 32768	   /* that parts are taken from */
#define STEPS (LARGE_PAGE / TRAP_PAGE)

struct slow {
	int fd;
	struct addr to;
	struct trap traps[STALLS];
	char rest[SLOW_SIZE - STALLS];
};

static long send_slow(void *arg)
{
	struct slow *s = arg;
	struct iovec parts[STALLS + 1];
	struct msghdr msg = { .msg_name = &s->to, .msg_namelen = s->to.len, .msg_iov = parts, .msg_iovlen = STALLS + 1 };

	for (int i = 0; i < STALLS; i++)
		parts[i] = (struct iovec){ s->traps[i].memory + TRAP_PAGE, 1 };
	parts[STALLS] = (struct iovec){ s->rest, sizeof(s->rest) };
	return sendmsg(s->fd, &msg, 0);
}

static char buf[LARGE_PAGE];

static bool pass_by(int fd, const struct addr *to, size_t size)
{
	return rds_send(fd, buf, size, to, 0) == (ssize_t)size && rds_recv_soon(fd, buf, sizeof(buf), NULL) == (ssize_t)size;
}

static bool is_whole(const char *bytes)
{
	for (int i = 0; i < SLOW_SIZE; i++)
		if (bytes[i] != (i < STALLS ? 0 : 'r'))
			return false;
	return true;
}

static bool one_message(int fd, const struct addr *to)
{
	struct slow slow = { .fd = rds_bound(HERE, "127.0.0.1", 0) };
	struct task t;
	bool well = true;

	slow.to = addr_of(slow.fd);
	memset(slow.rest, 'r', sizeof(slow.rest));
	for (int i = 0; i < STALLS; i++)
		slow.traps[i] = trap_new();
	task_start(&t, send_slow, &slow);
	for (int i = 0; i < STALLS; i++) {
		NEED(trap_sprung(&slow.traps[i]));
		well = well && pass_by(fd, to, LARGE_PAGE - 1);
		trap_release(&slow.traps[i]);
	}
	well = well && task_finished(&t, SOON_MS) && task_join(&t) == SLOW_SIZE;
	well = well && rds_recv_soon(slow.fd, buf, sizeof(buf), NULL) == SLOW_SIZE && is_whole(buf);
	for (int i = 0; i < STALLS; i++)
		trap_delete(&slow.traps[i]);
	close(slow.fd);
	return well;
}

void user_pieces(void)
{
	cpu_set_t before, one;
	struct addr to;
	int fd = rds_bound(HERE, "127.0.0.1", 0);
	bool well = true;

	to = addr_of(fd);
	NEED(sched_getaffinity(0, sizeof(before), &before) == 0);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	NEED(sched_setaffinity(0, sizeof(one), &one) == 0);
	/* The first part's offset in its page is unknown. Each round moves by three small pages, so one fits. */
	for (int i = 0; i < STEPS; i++)
		well = well && pass_by(fd, &to, TRAP_PAGE) && pass_by(fd, &to, TRAP_PAGE) &&
		       pass_by(fd, &to, LARGE_PAGE - 1) && one_message(fd, &to);
	NEED(sched_setaffinity(0, sizeof(before), &before) == 0);
	check(well, "pieces: a message that is copied a byte at a time arrives whole");
	close(fd);
	check(all_is_well(), "pieces: all is well afterwards");
}
