// SPDX-License-Identifier: GPL-2.0
/* Sequence numbers: old messages with the retransmission flag are dropped; all others are new. */
#include "wire.h"

#include <endian.h>

void attack_sequences(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4740), marker = rds_bound(scene.victim, VICTIM, 4741);
	int fd = wire_open();
	uint64_t base = 1000000, before, dropped;
	struct wire_header h = wire_header(4740, 1);
	char got;

	h.sequence = htobe64(base);
	NEED(wire_message(fd, &h, "a"));
	EXPECT_EQ(rds_recv_soon(rx, &got, 1, NULL), 1, "sequence: a jump forward is taken");
	before = rds_counter(scene.victim, "recv_drop_old_seq");
	for (int i = 0; i < 3; i++) {
		h.flags = RETRANSMITTED;
		NEED(wire_message(fd, &h, "b"));
	}
	h = wire_header(4741, 1);
	h.sequence = htobe64(base + 1);
	NEED(wire_message(fd, &h, "z"));
	NEED(rds_recv_soon(marker, &got, 1, NULL) == 1);
	EXPECT_ERRNO(rds_recv(rx, &got, 1, NULL, MSG_DONTWAIT), EAGAIN,
		     "sequence: an old one sent again is dropped");
	dropped = rds_counter(scene.victim, "recv_drop_old_seq") - before;
	EXPECT_EQ(dropped, 3, "sequence: and counted");
	h = wire_header(4740, 1);
	h.sequence = htobe64(base + 50);
	h.flags = RETRANSMITTED;
	NEED(wire_message(fd, &h, "c"));
	check(rds_recv_soon(rx, &got, 1, NULL) == 1 && got == 'c', "sequence: a new one sent again is taken");
	h = wire_header(4740, 1);
	h.sequence = htobe64(5);
	NEED(wire_message(fd, &h, "d"));
	check(rds_recv_soon(rx, &got, 1, NULL) == 1 && got == 'd',
	      "sequence: an old one sent for the first time, too");
	h.sequence = htobe64(UINT64_MAX);
	NEED(wire_message(fd, &h, "e"));
	check(rds_recv_soon(rx, &got, 1, NULL) == 1 && got == 'e', "sequence: the greatest one");
	h.sequence = 0;
	NEED(wire_message(fd, &h, "f"));
	check(rds_recv_soon(rx, &got, 1, NULL) == 1 && got == 'f', "sequence: and zero");
	close(fd);
	close(rx);
	close(marker);
	check(honest_works(), "sequence: the honest host does not notice");
}
