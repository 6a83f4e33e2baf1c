// SPDX-License-Identifier: GPL-2.0
/* Very many connections, and connections that never send. */
#include "wire.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

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

/* TCP sockets of the machine that nobody has any more, and that still have something to send. */
static int orphans(void)
{
	char text[1024];
	const char *at;

	NEED(read_file("/proc/net/sockstat", text, sizeof(text)) && (at = strstr(text, "orphan ")));
	return atoi(at + strlen("orphan "));
}

/* Ends its side while what the victim sends does not fit into its window, and does not read. -1: refused. */
static int end_unread(uint16_t port)
{
	int fd = socket_in(scene.attacker, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct addr from = addr(ATTACKER, port), to = addr(VICTIM, RDS_TCP_PORT);

	NEED(fd >= 0 && set_int(fd, SOL_SOCKET, SO_RCVBUF, 1) == 0 && bind(fd, &from.sa, from.len) == 0);
	if (connect(fd, &to.sa, to.len) == 0 && polled(fd, POLLIN, 1000)) {
		nap_us(20000);
		NEED(shutdown(fd, SHUT_WR) == 0);
		return fd;
	}
	close(fd);
	return -1;
}

/* TCP itself would probe the window for minutes, and hold the victim's namespace. */
static void ended_unread(void)
{
	int fds[20], most = 0;

	for (int i = 0; i < (int)ARRAY_SIZE(fds); i++)
		fds[i] = end_unread(30000 + 8 * i);
	WAIT_UNTIL(1000, (most = orphans() > most ? orphans() : most) >= 8);
	check(most >= 8, "crowd: %d sockets whose peers end their side without reading have something to send", most);
	check(WAIT_UNTIL(stretched(20000), orphans() == 0), "crowd: they are soon given up");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

void attack_crowds(void)
{
	at_once();
	one_after_another();
	if (ktap_suite() == SUITE_OURS)
		ended_unread();
}
