// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets are cloned, disabled and closed, and connections unattached and attached, at random and under traffic. A
 * connection that is not attached is read as plain TCP for a while: data that KCM gave back must continue where KCM ended.
 */
#include "data.h"

#include <arpa/inet.h>

#define READERS 4
#define LINKS 3
#define SENDERS 2
#define TO_KCM 1500
#define FROM_KCM 1000

struct churn {
	int home; /* receives nothing, and holds the multiplexor */
	struct link link[LINKS];
	struct ledger *in, *out;
	bool mixed;
	uint32_t changes;
};

/* A reader is a worker whose socket changes, so it has its own loop. */
struct reader {
	struct churn *churn;
	uint32_t who;
	struct task task;
};

static int enlist(struct churn *c)
{
	int kcm = kcm_clone(c->home);

	NEED(kcm >= 0);
	return kcm;
}

static int change(struct churn *c, int kcm, struct random *r)
{
	__atomic_add_fetch(&c->changes, 1, __ATOMIC_RELAXED);
	switch (random_below(r, 3)) {
	case 0:
		close(kcm);
		return enlist(c);
	case 1:
		NEED(kcm_disable(kcm, 1) == 0);
		nap_us(random_below(r, 2000));
		NEED(kcm_disable(kcm, 0) == 0);
		return kcm;
	default:
		/* A reader that does not read for a while. */
		nap_us(random_below(r, 5000));
		return kcm;
	}
}

static long read_and_change(void *reader)
{
	struct reader *me = reader;
	struct random r = { data_seed + me->who };
	char *buf = malloc(MESSAGE_MAX + 1);
	int kcm = enlist(me->churn);

	NEED(buf);
	while (!ledger_over(me->churn->in)) {
		int flags = MSG_DONTWAIT;
		ssize_t n;

		if (random_below(&r, 40) == 0)
			kcm = change(me->churn, kcm, &r);
		if (!polled(kcm, POLLIN, 20))
			continue;
		n = kcm_recv(kcm, buf, MESSAGE_MAX + 1, &flags);
		if (n >= 0)
			ledger_enter(me->churn->in, me->who, buf, n);
	}
	close(kcm);
	free(buf);
	return 0;
}

/* One message from plain TCP, or false when none begins soon. */
static bool read_plainly(struct churn *c, int tcp, char *buf)
{
	uint32_t header;
	size_t len;

	if (!polled(tcp, POLLIN, 2))
		return false;
	if (peer_reads(tcp, buf, FRAME_HEADER) != FRAME_HEADER)
		return false;
	memcpy(&header, buf, FRAME_HEADER);
	len = (size_t)ntohl(header) + FRAME_HEADER;
	if (len > MESSAGE_MAX || peer_reads(tcp, buf + FRAME_HEADER, len - FRAME_HEADER) != len - FRAME_HEADER)
		len = 0;
	return ledger_enter(c->in, READERS, buf, len);
}

/* Unattach and attach connections, until everything has arrived. */
static void exchange(struct churn *c)
{
	struct random r = { data_seed + 77 };
	int64_t until = now_ms() + 4 * SOON_MS;
	char *buf = malloc(MESSAGE_MAX);

	NEED(buf);
	while (now_ms() < until && !(ledger_over(c->in) && ledger_over(c->out))) {
		int tcp = c->link[random_below(&r, LINKS)].near;

		nap_us(random_below(&r, 20000));
		if (!c->mixed)
			continue;
		NEED(kcm_unattach(c->home, tcp) == 0);
		for (int i = random_below(&r, 5); i > 0 && read_plainly(c, tcp, buf); i--)
			;
		NEED(kcm_attach(c->home, tcp, message_parser(c->mixed)) == 0);
		c->changes++;
	}
	free(buf);
}

static void finish(struct churn *c, const char *kind)
{
	note("%u changes, %u and %u messages", c->changes, c->in->total, c->out->total);
	check(ledger_complete(c->in), "churn: %s: every message to KCM, once and whole", kind);
	check(ledger_complete(c->out), "churn: %s: every message from KCM, once and whole", kind);
	check(c->changes > 50, "churn: %s: with many changes", kind);
}

void data_churn(bool mixed)
{
	struct churn c = {
		.home = kcm_socket(HERE, SOCK_DGRAM),
		.in = ledger_new(mixed, LINKS, TO_KCM, READERS + 1),
		.out = ledger_new(mixed, SENDERS, FROM_KCM, LINKS),
		.mixed = mixed,
	};
	struct worker sends[SENDERS], gets[LINKS], writes[LINKS];
	struct reader readers[READERS];

	NEED(kcm_disable(c.home, 1) == 0);
	for (uint32_t i = 0; i < LINKS; i++) {
		c.link[i] = data_link(AF_INET);
		NEED(kcm_attach(c.home, c.link[i].near, message_parser(mixed)) == 0);
		gets[i] = (struct worker){ c.link[i].far, c.out, i };
		writes[i] = (struct worker){ c.link[i].far, c.in, i };
	}
	for (uint32_t i = 0; i < SENDERS; i++) {
		sends[i] = (struct worker){ enlist(&c), c.out, i };
		NEED(kcm_disable(sends[i].fd, 1) == 0);
	}
	for (uint32_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ &c, i };
		task_start(&readers[i].task, read_and_change, &readers[i]);
	}
	workers_start(gets, LINKS, peer_gets);
	workers_start(writes, LINKS, peer_writes);
	workers_start(sends, SENDERS, kcm_writes);
	exchange(&c);
	c.in->stop = c.out->stop = true;
	for (int i = 0; i < LINKS; i++)
		shutdown(c.link[i].far, SHUT_RDWR);
	for (int i = 0; i < READERS; i++)
		task_join(&readers[i].task);
	workers_join(gets, LINKS);
	workers_join(writes, LINKS);
	workers_join(sends, SENDERS);
	finish(&c, message_kind(mixed));
	for (int i = 0; i < SENDERS; i++)
		close(sends[i].fd);
	close(c.home);
	for (int i = 0; i < LINKS; i++)
		tcp_link_close(&c.link[i]);
	ledger_delete(c.in);
	ledger_delete(c.out);
}
