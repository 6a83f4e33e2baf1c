// SPDX-License-Identifier: GPL-2.0
/* Several sockets at once: nothing is lost, doubled, mixed up or overtaken between any two of them. */
#include "data.h"

#define SENDERS 6
#define RECEIVERS 5
#define EACH 12 /* messages from each sender to each receiver */

struct stamp {
	uint32_t sender, receiver, number, len;
};

static size_t length_of(const struct stamp *s)
{
	struct random r = { s->sender * 1000003ULL + s->receiver * 10007 + s->number };

	return sizeof(*s) + random_below(&r, 1UL << random_below(&r, 16));
}

static bool send_one(int fd, const struct addr *to, struct stamp s)
{
	s.len = length_of(&s);
	pattern_fill(out_buf + sizeof(s), s.len - sizeof(s), s.number);
	memcpy(out_buf, &s, sizeof(s));
	return rds_send(fd, out_buf, s.len, to, 0) == (ssize_t)s.len;
}

/* Take one message at receiver @r; @next is the number that each sender must continue with. */
static bool take_one(int fd, uint32_t r, uint32_t next[SENDERS], const struct addr *senders)
{
	struct addr from;
	struct stamp s;
	ssize_t n = rds_recv_soon(fd, in_buf, sizeof(in_buf), &from);

	if (n < (ssize_t)sizeof(s)) {
		note("receiver %u got %zd (%s)", r, n, n < 0 ? strerror(errno) : "short");
		return false;
	}
	memcpy(&s, in_buf, sizeof(s));
	if (s.receiver != r || s.sender >= SENDERS || s.len != (size_t)n || s.number != next[s.sender]) {
		note("receiver %u: sender %u, number %u, length %zd are not expected", r, s.sender,
		     s.number, n);
		return false;
	}
	next[s.sender]++;
	return addr_same(&from, &senders[s.sender]) &&
	       pattern_matches(in_buf + sizeof(s), s.len - sizeof(s), s.number);
}

void data_order(const struct lane *lane)
{
	int tx[SENDERS], rx[RECEIVERS];
	struct addr tx_addr[SENDERS], rx_addr[RECEIVERS];
	uint32_t next[RECEIVERS][SENDERS] = { 0 };
	bool sent = true, ordered = true;

	for (int i = 0; i < SENDERS; i++) {
		tx[i] = rds_bound(lane->from_ns, lane->from, 0);
		tx_addr[i] = addr_of(tx[i]);
		room_for_big(tx[i]);
	}
	for (int i = 0; i < RECEIVERS; i++) {
		rx[i] = rds_bound(lane->to_ns, lane->to, 0);
		rx_addr[i] = addr_of(rx[i]);
		room_for_big(rx[i]);
	}
	for (uint32_t n = 0; n < EACH; n++)
		for (uint32_t s = 0; s < SENDERS; s++)
			for (uint32_t r = 0; r < RECEIVERS; r++)
				sent = sent && send_one(tx[s], &rx_addr[r], (struct stamp){ s, r, n, 0 });
	check(sent, "order: %d senders to %d receivers, %s", SENDERS, RECEIVERS, lane->name);
	for (int n = 0; sent && n < EACH * SENDERS; n++)
		for (uint32_t r = 0; r < RECEIVERS; r++)
			ordered = ordered && take_one(rx[r], r, next[r], tx_addr);
	check(sent && ordered, "order: each exactly once, in order, whole, %s", lane->name);
	for (uint32_t r = 0; r < RECEIVERS; r++)
		ordered = ordered && rds_recv(rx[r], in_buf, 1, NULL, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	check(ordered, "order: and nothing more, %s", lane->name);
	for (int i = 0; i < SENDERS; i++)
		close(tx[i]);
	for (int i = 0; i < RECEIVERS; i++)
		close(rx[i]);
}
