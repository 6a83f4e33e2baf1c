// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that stalls: a page that another thread provides late (userfaultfd), within
 * the kernel's copy. Other calls must not wait for that.
 */
#include "hostile.h"

#include <signal.h>
#include <sys/wait.h>

#include "trap.h"

struct call {
	int fd;
	struct addr to;
	char *memory;
};

static long send_call(void *arg)
{
	struct call *c = arg;

	return rds_send(c->fd, c->memory, TRAP_SIZE, &c->to, 0);
}

static long receive_call(void *arg)
{
	struct call *c = arg;

	return rds_recv(c->fd, c->memory, TRAP_SIZE, NULL, 0);
}

static char buf[TRAP_SIZE];

static void sending(const char *where)
{
	struct trap trap = trap_new();
	int fd = rds_bound(HERE, where, 0);
	struct call call = { fd, addr_of(fd), trap.memory };
	struct task t;

	task_start(&t, send_call, &call);
	NEED(trap_sprung(&trap));
	EXPECT_EQ(rds_send(fd, "hello", 5, &call.to, MSG_DONTWAIT), 5, "stall: %s, another send overtakes",
		  where);
	EXPECT_EQ(rds_recv_soon(fd, buf, sizeof(buf), NULL), 5, "stall: %s, and is received", where);
	check(!task_finished(&t, 50), "stall: %s, the first one is still stalled", where);
	trap_release(&trap);
	check(task_finished(&t, SOON_MS) && task_join(&t) == TRAP_SIZE, "stall: %s, it continues", where);
	EXPECT_EQ(rds_recv_soon(fd, buf, sizeof(buf), NULL), TRAP_SIZE, "stall: %s, and arrives", where);
	check(buf[TRAP_PAGE - 1] == 1 && buf[TRAP_PAGE] == 0 && buf[2 * TRAP_PAGE] == 3, "stall: %s, with its content",
	      where);
	close(fd);
	trap_delete(&trap);
}

/* Two receivers, one of them stalled: each message goes to one of them, whole, and none is lost. */
static void receiving(const char *where)
{
	struct trap trap = trap_new();
	int fd = rds_bound(HERE, where, 0);
	struct addr self = addr_of(fd);
	struct call call = { fd, self, trap.memory };
	struct task t;
	int seen = 0;

	NEED(rds_send(fd, buf, TRAP_SIZE, &self, 0) == TRAP_SIZE);
	task_start(&t, receive_call, &call);
	NEED(trap_sprung(&trap));
	NEED(rds_send(fd, "second", 6, &self, 0) == 6);
	/* The other receiver gets the first or the second message; the stalled one has the other. */
	seen += rds_recv_soon(fd, buf, sizeof(buf), NULL);
	check(seen == 6 || seen == TRAP_SIZE, "stall: %s, another receiver is not stalled", where);
	trap_release(&trap);
	check(task_finished(&t, SOON_MS), "stall: %s, the receiver continues", where);
	seen += task_join(&t);
	EXPECT_EQ(seen, TRAP_SIZE + 6, "stall: %s, each message is received once", where);
	EXPECT_ERRNO(rds_recv(fd, buf, 1, NULL, MSG_DONTWAIT), EAGAIN, "stall: %s, none is left", where);
	close(fd);
	trap_delete(&trap);
}

static long transport_call(void *arg)
{
	struct call *c = arg;

	/* Half of the value is on the page before the trap. */
	return setsockopt(c->fd, SOL_RDS, SO_RDS_TRANSPORT, c->memory + TRAP_PAGE - 2, 4);
}

static long connect_call(void *arg)
{
	struct call *c = arg;

	return rds_connect(c->fd, &c->to);
}

static void option(void)
{
	struct trap trap = trap_new();
	struct call call = { rds_socket(HERE), addr("127.0.0.1", 9), trap.memory };
	struct task stalled, other;
	bool free_to_go;

	task_start(&stalled, transport_call, &call);
	NEED(trap_sprung(&trap));
	task_start(&other, connect_call, &call);
	free_to_go = task_finished(&other, ktap_suite() == SUITE_OURS ? SOON_MS : 1000);
	trap_release(&trap);
	NEED(task_finished(&stalled, SOON_MS) && task_finished(&other, SOON_MS));
	task_join(&stalled);
	EXPECT_OK(task_join(&other), "stall: connect() works in the end");
	differs(free_to_go, "option-stall", "stall: an option whose value stalls does not stall other calls");
	close(call.fd);
	trap_delete(&trap);
}

/* The stalled program can be killed, and its socket is closed. */
static void killed(void)
{
	int ready[2], status;
	pid_t child;
	char byte;

	NEED(pipe(ready) == 0);
	child = fork();
	NEED(child >= 0);
	if (!child) {
		struct trap trap = trap_new();
		int fd = rds_bound(HERE, "127.0.0.1", 4801);
		struct call call = { fd, addr_of(fd), trap.memory };
		struct task t;

		task_start(&t, send_call, &call);
		if (trap_sprung(&trap))
			NEED(write(ready[1], "r", 1) == 1);
		pause();
	}
	NEED(read(ready[0], &byte, 1) == 1);
	NEED(kill(child, SIGKILL) == 0);
	check(WAIT_UNTIL(SOON_MS, waitpid(child, &status, WNOHANG) == child),
	      "stall: a stalled program can be killed");
	close(rds_bound(HERE, "127.0.0.1", 4801));
	check(true, "stall: its port is free again");
	close(ready[0]);
	close(ready[1]);
}

void user_stalls(void)
{
	sending("127.0.0.1");
	sending(HERE4);
	receiving("127.0.0.1");
	receiving(HERE4);
	option();
	killed();
	check(all_is_well(), "stalls: all is well afterwards");
}
