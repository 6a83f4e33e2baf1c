// SPDX-License-Identifier: GPL-2.0
/* Sockets shared by several processes. */
#include "hostile.h"

#include <sys/wait.h>

static void inherited(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 4810), tx = rds_bound(HERE, "127.0.0.1", 0), status;
	struct addr to = addr_of(fd);
	char buf[8];
	pid_t child = fork();

	NEED(child >= 0);
	if (!child)
		_exit(rds_recv_soon(fd, buf, sizeof(buf), NULL) == 5 ? 0 : 1);
	close(fd);
	NEED(rds_send(tx, "hello", 5, &to, 0) == 5);
	NEED(waitpid(child, &status, 0) == child);
	check(WIFEXITED(status) && !WEXITSTATUS(status),
	      "fork: the child receives on the parent's closed socket");
	close(rds_bound(HERE, "127.0.0.1", 4810));
	check(true, "fork: the port is free when the last one goes");
	close(tx);
}

/* Several processes take from one queue; each message goes to one of them. */
static void shared_queue(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0), total = 0, status;
	struct addr self = addr_of(fd);
	pid_t child[4];
	char buf[64];

	NEED(set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, 1 << 20) == 0);
	for (int i = 0; i < 200; i++)
		NEED(rds_send(fd, buf, sizeof(buf), &self, 0) == sizeof(buf));
	for (int i = 0; i < 4; i++) {
		child[i] = fork();
		NEED(child[i] >= 0);
		if (!child[i]) {
			int got = 0;

			while (rds_recv(fd, buf, sizeof(buf), NULL, MSG_DONTWAIT) == sizeof(buf))
				got++;
			_exit(got);
		}
	}
	for (int i = 0; i < 4; i++) {
		NEED(waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status));
		total += WEXITSTATUS(status);
	}
	EXPECT_EQ(total, 200, "fork: four processes take each message once");
	close(fd);
}

void user_processes(void)
{
	inherited();
	shared_queue();
}
