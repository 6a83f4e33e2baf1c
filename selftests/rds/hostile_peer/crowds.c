// SPDX-License-Identifier: GPL-2.0
/* Very many connections, and connections that never send. */
#include "wire.h"

#include <fcntl.h>

#define MANY 200

static int connect_only(void)
{
	int fd = socket_in(scene.attacker, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct addr from = addr(ATTACKER, 0), to = addr(VICTIM, RDS_TCP_PORT);

	NEED(fd >= 0 && bind(fd, &from.sa, from.len) == 0);
	connect(fd, &to.sa, to.len);
	return fd;
}

static int closed_ones(const int fds[MANY])
{
	int closed = 0;

	for (int i = 0; i < MANY; i++)
		closed += wire_closed(fds[i], 0);
	return closed;
}

static void at_once(void)
{
	const int enough = MANY - 64 - 2 * 8;
	int fds[MANY], refused;

	for (int i = 0; i < MANY; i++)
		fds[i] = connect_only();
	check(honest_works(), "crowd: the honest host does not notice %d connections", MANY);
	WAIT_UNTIL(SOON_MS, (refused = closed_ones(fds)) >= enough);
	note("%d of %d connections were closed", refused, MANY);
	check(refused >= enough, "crowd: only so many are kept as there may be paths");
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	check(honest_works(), "crowd: nor their end");
}

static void one_after_another(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4760), fd;
	struct wire_header h;
	char buf[8];

	for (int i = 0; i < MANY; i++) {
		fd = connect_only();
		if (i % 2)
			wire_reset(fd);
		else
			close(fd);
	}
	check(honest_works(), "crowd: the honest host does not notice %d that come and go", MANY);
	fd = wire_open();
	h = wire_header(4760, 4);
	check(wire_message(fd, &h, "data") && rds_recv_soon(rx, buf, sizeof(buf), NULL) == 4,
	      "crowd: afterwards the same peer can talk");
	close(fd);
	close(rx);
}

void attack_crowds(void)
{
	at_once();
	one_after_another();
}
