// SPDX-License-Identifier: GPL-2.0
/* Ports: unbound ones, the ping's, the probe's; and fields without a meaning on TCP. */
#include "wire.h"

#include <arpa/inet.h>
#include <endian.h>

static void pings(void)
{
	int fd = wire_open();
	struct wire_header h = wire_header(0, 0), got;

	check(wire_message(fd, &h, NULL) && wire_find(fd, 0, 77, &got) && got.length == 0,
	      "ports: a ping is answered to its port");
	h = wire_header(0, 3);
	check(wire_message(fd, &h, "abc") && wire_find(fd, 0, 77, &got) && got.length == 0,
	      "ports: a ping with a payload is answered without");
	h = wire_header(0, 0);
	h.sport = 0;
	NEED(wire_message(fd, &h, NULL));
	h = wire_header(0, 0);
	h.sport = htons(78);
	check(wire_message(fd, &h, NULL) && wire_find(fd, 0, 78, &got),
	      "ports: an empty message to an unbound port is harmless");
	close(fd);
}

static void unbound(void)
{
	int fd = wire_open();
	uint64_t before = rds_counter(scene.victim, "recv_drop_no_sock");
	struct wire_header h;

	for (int i = 0; i < 100; i++) {
		h = wire_header(4759, 10);
		NEED(wire_message(fd, &h, "0123456789"));
	}
	check(WAIT_UNTIL(SOON_MS, rds_counter(scene.victim, "recv_drop_no_sock") >= before + 100),
	      "ports: messages to an unbound port are counted");
	close(fd);
}

/* Acknowledgements, credits and checksums belong to other transports. */
static void other_fields(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4750), fd = wire_open();
	struct wire_header h = wire_header(4750, 4);
	char buf[8];

	h.ack = htobe64(UINT64_MAX);
	h.credit = 255;
	h.checksum = 0x1234;
	memset(h.padding, 0xff, sizeof(h.padding));
	h.flags = 0x02;
	check(wire_message(fd, &h, "data") && rds_recv_soon(rx, buf, sizeof(buf), NULL) == 4,
	      "ports: fields without a meaning on TCP are ignored");
	close(fd);
	close(rx);
}

static void sender(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4751), fd = wire_open();
	struct wire_header h = wire_header(4751, 0);
	struct addr from, want = addr(ATTACKER, 0);
	char byte;

	h.sport = 0;
	NEED(wire_message(fd, &h, NULL));
	check(rds_recv_soon(rx, &byte, 1, &from) == 0 && addr_same(&from, &want),
	      "ports: a message from port 0 is like an answer to a ping");
	close(fd);
	close(rx);
}

void attack_ports(void)
{
	pings();
	unbound();
	other_fields();
	sender();
	check(honest_works(), "ports: the honest host does not notice");
}
