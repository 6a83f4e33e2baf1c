// SPDX-License-Identifier: GPL-2.0
/* Peers that misbehave on one connection while another one works. */
#include "data.h"

#include <arpa/inet.h>

#define HUNDRED 100
#define STEADY 1500
#define ROUNDS 40

static struct rig rig_of(bool mixed)
{
	return rig_open(SOCK_DGRAM, message_parser(mixed));
}

/* All of a ledger of one stream from one socket. */
static bool takes_all(int kcm, struct ledger *l)
{
	int64_t until = now_ms() + SOON_MS;
	char *buf = malloc(MESSAGE_MAX + 1);

	NEED(buf);
	while (!ledger_over(l) && now_ms() < until) {
		ssize_t n = kcm_recv_soon(kcm, buf, MESSAGE_MAX + 1, NULL);

		if (n < 0 || !ledger_enter(l, 0, buf, n))
			break;
	}
	free(buf);
	return ledger_complete(l) && !l->misordered;
}

static size_t write_hundred(char *buf, bool mixed)
{
	size_t len = 0;

	for (uint32_t i = 0; i < HUNDRED; i++)
		len += message_write(buf + len, mixed, 0, i);
	return len;
}

static void coalesced(bool mixed)
{
	struct ledger *l = ledger_new(mixed, 1, HUNDRED, 1);
	struct rig r = rig_of(mixed);
	char *buf = malloc(HUNDRED * MESSAGE_MAX);
	size_t len;

	NEED(buf);
	len = write_hundred(buf, mixed);
	peer_send(r.peer, buf, len);
	check(takes_all(r.kcm, l), "peers: %s: a hundred messages in one write", message_kind(mixed));
	free(buf);
	ledger_delete(l);
	rig_close(&r);
}

/* A byte a segment: TCP_NODELAY is on. */
static void byte_by_byte(bool mixed)
{
	struct ledger *l = ledger_new(mixed, 1, 5, 1);
	struct rig r = rig_of(mixed);
	char *buf = malloc(5 * MESSAGE_MAX);
	size_t len = 0;

	NEED(buf);
	for (uint32_t i = 0; i < 5; i++)
		len += message_write(buf + len, mixed, 0, i);
	for (size_t i = 0; i < len && i < 3000; i++)
		peer_send(r.peer, buf + i, 1);
	if (len > 3000)
		peer_send(r.peer, buf + 3000, len - 3000);
	check(takes_all(r.kcm, l), "peers: %s: a byte at a time", message_kind(mixed));
	free(buf);
	ledger_delete(l);
	rig_close(&r);
}

/* A connection that stalls within a header, or within a message, does not delay others. */
static void stalled(bool mixed, size_t part)
{
	struct ledger *l = ledger_new(mixed, 1, STEADY, 1), *late = ledger_new(mixed, 1, 1, 1);
	struct rig r = rig_of(mixed);
	struct link other = rig_link(&r, message_parser(mixed));
	struct worker w = { other.far, l, 0 };
	char *buf = malloc(MESSAGE_MAX);
	size_t len;

	NEED(buf);
	len = message_write(buf, mixed, 0, 0);
	NEED(part < len);
	peer_send(r.peer, buf, part);
	workers_start(&w, 1, peer_writes);
	check(takes_all(r.kcm, l), "peers: %s: one that stalls after %zu bytes delays no other", message_kind(mixed), part);
	l->stop = true;
	if (l->total < STEADY)
		shutdown(other.far, SHUT_RDWR);
	workers_join(&w, 1);
	peer_send(r.peer, buf + part, len - part);
	check(takes_all(r.kcm, late), "peers: %s: and is received when it continues", message_kind(mixed));
	free(buf);
	tcp_link_close(&other);
	ledger_delete(l);
	ledger_delete(late);
	rig_close(&r);
}

/* A connection that carries some messages and is reset in the middle of one. */
static void come_and_go(struct rig *r, bool mixed, uint32_t stream, struct random *rnd)
{
	struct link l = rig_link(r, message_parser(mixed));
	uint32_t count = random_below(rnd, 10);
	char *buf = malloc(11 * MESSAGE_MAX);
	size_t len = 0, last = 0;

	NEED(buf);
	for (uint32_t i = 0; i <= count; i++, len += last)
		last = message_write(buf + len, mixed, stream, i);
	len -= random_below(rnd, last);
	/* There may be no reader, so the rest is not sent. */
	send(l.far, buf, len, MSG_DONTWAIT);
	nap_us(random_below(rnd, 5000));
	tcp_reset(l.far);
	/* Half of them are unattached after TCP has noticed, the others at once. */
	if (random_below(rnd, 2))
		polled(l.near, 0, SOON_MS);
	NEED(kcm_unattach(r->kcm, l.near) == 0);
	close(l.near);
	free(buf);
}

/*
 * Stream 0 is steady and must arrive completely; the others must deliver whole messages. In both directions: messages
 * are sent over any connection, and the steady one must stay in frame.
 */
static void resets(bool mixed)
{
	struct ledger *in = ledger_new(mixed, ROUNDS + 1, STEADY, 2), *out = ledger_new(mixed, 1, STEADY, 1);
	struct rig r = rig_of(mixed);
	struct random rnd = { data_seed + 5 };
	struct worker reads[2] = { { r.kcm, in, 0 }, { kcm_clone(r.kcm), in, 1 } };
	struct worker writes = { r.peer, in, 0 }, sends = { r.kcm, out, 0 }, gets = { r.peer, out, 0 };

	workers_start(reads, 2, kcm_reads);
	workers_start(&writes, 1, peer_writes);
	workers_start(&gets, 1, peer_gets);
	workers_start(&sends, 1, kcm_writes);
	for (uint32_t round = 1; round <= ROUNDS; round++)
		come_and_go(&r, mixed, round, &rnd);
	check(WAIT_UNTIL(4 * SOON_MS, ledger_whole(in, 0)), "peers: %s: resets of others lose nothing of a connection",
	      message_kind(mixed));
	check(task_finished(&sends.task, SOON_MS), "peers: %s: a sender ends", message_kind(mixed));
	/* The last messages may still be in flight. */
	nap_us(200000);
	in->stop = out->stop = true;
	shutdown(r.peer, SHUT_RDWR);
	workers_join(reads, 2);
	workers_join(&writes, 1);
	workers_join(&gets, 1);
	workers_join(&sends, 1);
	note("%u messages came from connections that were reset, %u went over the steady one", in->total - STEADY,
	     out->total);
	check(ledger_sound(in), "peers: %s: received messages are whole, each once", message_kind(mixed));
	check(ledger_sound(out) && out->total > 0 && !out->misordered, "peers: %s: sent messages are whole and in order",
	      message_kind(mixed));
	close(reads[1].fd);
	ledger_delete(in);
	ledger_delete(out);
	rig_close(&r);
}

void data_peers(bool mixed)
{
	coalesced(mixed);
	byte_by_byte(mixed);
	stalled(mixed, 2);
	stalled(mixed, 10);
	resets(mixed);
}
