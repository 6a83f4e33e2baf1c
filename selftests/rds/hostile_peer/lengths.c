// SPDX-License-Identifier: GPL-2.0
/* The length in the header cannot be trusted. */
#include "wire.h"

static char payload[MAX_MESSAGE + 1];

static void too_long(uint32_t length)
{
	int rx = rds_bound(scene.victim, VICTIM, 4710), fd = wire_open();
	struct wire_header h = wire_header(4710, length);

	wire_write(fd, &h, sizeof(h), SOON_MS);
	differs(wire_closed(fd, ktap_suite() == SUITE_OURS ? SOON_MS : 500), "wire-length",
		"length: %u bytes announced ends the connection", length);
	close(fd);
	check(honest_works(), "length: the honest host does not notice %u", length);
	close(rx);
}

static void longest(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4711), fd = wire_open();
	struct wire_header h = wire_header(4711, MAX_MESSAGE);
	static char got[MAX_MESSAGE];

	NEED(set_int(rx, SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20) == 0);
	pattern_fill(payload, MAX_MESSAGE, 1);
	check(wire_message(fd, &h, payload) && rds_recv_soon(rx, got, MAX_MESSAGE, NULL) == MAX_MESSAGE &&
		      pattern_matches(got, MAX_MESSAGE, 1),
	      "length: 1 MiB is not too much");
	close(fd);
	close(rx);
}

void attack_lengths(void)
{
	too_long(MAX_MESSAGE + 1);
	too_long(0x7fffffff);
	too_long(0x80000000);
	too_long(0xffffffff);
	longest();
}
