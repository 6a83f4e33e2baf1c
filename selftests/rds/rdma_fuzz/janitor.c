// SPDX-License-Identifier: GPL-2.0
/* What changes around the calls: the device goes and comes, settings of the transport change. */
#include "rdma_fuzz.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static int turns;

bool devices_came(void)
{
	return __atomic_load_n(&turns, __ATOMIC_RELAXED) >= 2;
}

static int run(const char *const *argv)
{
	int status;
	pid_t child;

	if (posix_spawnp(&child, argv[0], NULL, NULL, (char *const *)argv, environ) != 0)
		return -1;
	while (waitpid(child, &status, 0) < 0)
		NEED(errno == EINTR);
	errno = EIO;
	return status ? -1 : 0;
}

static void replug(struct caller *c)
{
	static const char *const out[] = { "rdma", "link", "del", "rxe0", NULL };
	static const char *const in[] = { "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0", NULL };

	CALL(c, K_DEVICE, run(out));
	nap_us(pick(c, 500000));
	CALL(c, K_DEVICE, run(in));
	__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
}

static void set(struct caller *c)
{
	static const char *const names[] = { "max_send_wr", "max_recv_wr", "max_unsignaled_wr" };
	static const char *const values[] = { "1", "64", "200", "1000" };
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/rds/ib/%s", ANY_OF(c, names));
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return;
	CALL(c, K_SYSCTL, write(fd, ANY_OF(c, values), 2));
	close(fd);
}

void janitor(struct caller *c)
{
	bool is_due = true; /* once in each wild time */

	while (!over()) {
		set(c);
		nap_us(pick(c, 600000));
		if (is_calm()) {
			if (!is_due)
				forget_all();
			is_due = true;
		} else if (is_due) {
			replug(c);
			is_due = false;
		}
	}
}
