// SPDX-License-Identifier: GPL-2.0
/* Extension headers: known ones, unknown ones, several, cut off. A message is delivered with any of them.
 */
#include "wire.h"

#include <arpa/inet.h>

static const struct {
	const char *what;
	uint8_t flags;
	uint8_t bytes[16];
} kinds[] = {
	{ "none", 0, { 0 } },
	{ "version", 0, { 1, 0, 0, 3, 1 } },
	{ "rdma key", 0, { 2, 0xde, 0xad, 0xbe, 0xef } },
	{ "rdma bytes", EXTENDED, { 4, 0, 0, 2, 0, 1, 0, 0, 0 } },
	{ "paths", 0, { 5, 0, 8 } },
	{ "generation", 0, { 6, 1, 2, 3, 4 } },
	{ "source port index", 0, { 8, 1 } },
	{ "three of a handshake", 0, { 5, 0, 8, 6, 9, 9, 9, 9, 8, 1 } },
	{ "an unknown kind", 0, { 0x7f, 1, 2, 3 } },
	{ "an unknown kind behind a known one", 0, { 5, 0, 8, 0xff, 1, 2, 3 } },
	{ "all the same", 0, { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 } },
	{ "cut off", 0, { 6, 1, 2, 3, 4, 6, 1, 2, 3, 4, 6, 1, 2, 3, 4, 6 } },
	{ "all ones", 0xfe & ~RETRANSMITTED, { 255, 255, 255, 255, 255, 255, 255, 255 } },
	{ "an extension of an extension without one", EXTENDED, { 0 } },
};

static void delivered(int fd, int rx, size_t i)
{
	struct wire_header h = wire_header(4730, 4);
	char buf[8];

	h.flags = kinds[i].flags;
	memcpy(h.extensions, kinds[i].bytes, sizeof(h.extensions));
	check(wire_message(fd, &h, "data") && rds_recv_soon(rx, buf, sizeof(buf), NULL) == 4 &&
		      !memcmp(buf, "data", 4),
	      "extensions: a message with %s", kinds[i].what);
}

/*
 * The kernel's own RDS copies the destination, meaningless on TCP, to the receiver from memory that hardened
 * user copy protects: a peer can stop any receiver, or the machine.
 */
static void destination(int fd, int rx)
{
	struct wire_header h = wire_header(4730, 1);
	char byte = 0;
	/* Key 5, offset 7. */
	static const uint8_t dest[] = { 3, 0, 0, 0, 5, 0, 0, 0, 7 };

	memcpy(h.extensions, dest, sizeof(dest));
	NEED(wire_message(fd, &h, "d"));
	check(rds_recv_soon(rx, &byte, 1, NULL) == 1 && byte == 'd',
	      "extensions: a message with an rdma destination");
}

static void handshakes(int rx)
{
	static const uint8_t paths[][16] = { { 5, 0, 0 }, { 5, 0xff, 0xff },
					     { 5, 0, 1 }, { 6, 7, 7, 7, 7 },
					     { 0x99 },	  { 5, 0, 8, 6, 1, 1, 1, 1, 8, 1 },
					     { 5, 0, 8 } };
	char buf[8];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int fd = wire_open();
		struct wire_header pong = wire_header(1, 0), ping = wire_header(0, 0), h;

		pong.sport = 0;
		ping.sport = htons(1);
		memcpy(pong.extensions, paths[i], sizeof(pong.extensions));
		memcpy(ping.extensions, paths[i], sizeof(ping.extensions));
		NEED(wire_message(fd, &pong, NULL) && wire_message(fd, &ping, NULL));
		check(wire_find(fd, 0, 1, &h), "extensions: handshake %zu is answered", i);
		h = wire_header(4730, 4);
		check(wire_message(fd, &h, "data") && rds_recv_soon(rx, buf, sizeof(buf), NULL) == 4,
		      "extensions: after handshake %zu a message is delivered", i);
		close(fd);
		check(honest_works(), "extensions: the honest host does not notice handshake %zu", i);
	}
}

void attack_extensions(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4730), fd = wire_open();

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		delivered(fd, rx, i);
	if (!dangerous("rdma-destination", "the kernel's own hits a BUG"))
		destination(fd, rx);
	close(fd);
	check(honest_works(), "extensions: the honest host does not notice");
	handshakes(rx);
	close(rx);
}
