// SPDX-License-Identifier: GPL-2.0
/* Congestion maps: of the right size they are accepted with any contents; others change nothing. */
#include "wire.h"

#include <arpa/inet.h>

static uint8_t map[MAP_BYTES];

static struct wire_header map_header(uint32_t length)
{
	struct wire_header h = { .length = htonl(length), .flags = CONGESTION_MAP };

	return h;
}

static void wrong_sizes(void)
{
	static const uint32_t sizes[] = { 0, 1, 100, MAP_BYTES - 1, MAP_BYTES + 1, 65536 };
	static char full[65536];

	memset(full, 0xff, sizeof(full));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int fd = wire_open();
		struct wire_header h = map_header(sizes[i]);

		/* Our RDS closes such a connection, the kernel's own skips the map; neither affects others. */
		wire_message(fd, &h, full);
		check(honest_works(), "map: the honest host does not notice one of %u bytes", sizes[i]);
		close(fd);
	}
}

/* A map with all bits set stops senders to that peer, and no others. */
static void all_full(void)
{
	int tx = rds_bound(scene.victim, VICTIM, 4720), fd = wire_open();
	struct addr to = addr(ATTACKER, 4721);
	struct wire_header h = map_header(MAP_BYTES);

	memset(map, 0xff, sizeof(map));
	NEED(wire_message(fd, &h, map));
	check(WAIT_UNTIL(SOON_MS, rds_send(tx, "x", 1, &to, MSG_DONTWAIT) < 0 && errno == ENOBUFS),
	      "map: all ports full stops those who send there");
	check(honest_works(), "map: and no others");
	memset(map, 0, sizeof(map));
	NEED(wire_message(fd, &h, map));
	check(WAIT_UNTIL(SOON_MS, rds_send(tx, "x", 1, &to, MSG_DONTWAIT) == 1),
	      "map: until its next map");
	close(fd);
	close(tx);
}

static void many(void)
{
	int fd = wire_open();
	struct wire_header h = map_header(MAP_BYTES);
	bool sent = true;

	for (int i = 0; sent && i < 500; i++) {
		memset(map, i % 2 ? 0xff : 0, sizeof(map));
		sent = wire_message(fd, &h, map);
	}
	check(sent, "map: hundreds of them are taken");
	memset(map, 0, sizeof(map));
	NEED(wire_message(fd, &h, map));
	check(honest_works(), "map: the honest host does not notice hundreds");
	close(fd);
}

void attack_maps(void)
{
	wrong_sizes();
	all_full();
	many();
}
