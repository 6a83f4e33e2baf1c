// SPDX-License-Identifier: GPL-2.0
#include "xfer.h"

struct flow {
	uint32_t life;
	uint64_t next; /* the expected number */
	int64_t last_ms; /* when one came, 0 before the first */
	uint64_t paused_before; /* paused_ms() then */
	bool ended;
};

static struct flow flows[MAX_SOCKETS][MAX_SOCKETS]; /* by sender and receiver */
static uint64_t received, doubled, reordered, lost, broken;
static int64_t longest_gap; /* between two deliveries of one flow */

static void note_gap(struct flow *f, const struct head *h)
{
	int64_t now = now_ms(), gap = now - f->last_ms - h->paused_ms - (paused_ms() - f->paused_before);

	if (f->last_ms && gap > longest_gap)
		longest_gap = gap;
	f->last_ms = now;
	f->paused_before = paused_ms();
}

static void answer(const struct head *h, uint64_t next)
{
	/* It is cumulative: a later one replaces one that could not be sent. */
	if (opt.depth)
		post(h->to, h->from, ANSWER, next, sizeof(*h), 0);
}

static void take_data(struct flow *f, const struct head *h)
{
	note_gap(f, h);
	received++;
	if (h->number < f->next) {
		if (++doubled <= 10)
			note("flow %u to %u: %llu came again, after %llu", h->from, h->to,
			     (unsigned long long)h->number, (unsigned long long)f->next);
		return;
	}
	if (h->number > f->next) {
		lost += h->number - f->next;
		if (++reordered <= 10)
			note("flow %u to %u: %llu came, expected %llu", h->from, h->to,
			     (unsigned long long)h->number, (unsigned long long)f->next);
	}
	f->next = h->number + 1;
	answer(h, f->next);
}

void inbox_take(const void *message, size_t n, const struct addr *from)
{
	const struct head *h = message;
	struct flow *f;

	if (!message_valid(message, n) || h->from >= MAX_SOCKETS || h->to >= MAX_SOCKETS ||
	    addr_port(from) != FIRST_PORT + h->from) {
		if (++broken <= 10)
			note("a message of %zu bytes is not what was sent", n);
		return;
	}
	f = &flows[h->from][h->to];
	if (h->kind == HELLO) {
		peer_here = true;
		peer_knows_us |= h->number > 0;
		/* Only requests are answered, not answers. */
		if (h->number < 2)
			post(0, 0, HELLO, 2, sizeof(*h), 0);
	} else if (h->kind == DONE) {
		peer_done = true;
	} else if (h->kind == ANSWER) {
		outbox_answered(h);
	} else {
		/* A restarted sender counts from the beginning; its earlier life never returns. */
		if (f->life != h->life && (!f->life || opt.lossy))
			*f = (struct flow){ .life = h->life };
		if (h->kind == DATA) {
			take_data(f, h);
		} else {
			if (h->number > f->next)
				lost += h->number - f->next;
			f->ended = true;
		}
	}
}

bool inbox_ended(void)
{
	for (int s = 0; opt.receives && s < opt.sockets; s++)
		for (int i = 0; i < fan(); i++)
			if (!flows[s][(s + i) % opt.sockets].ended)
				return false;
	return true;
}

/* A flow without END has paused until now. */
static void note_silence(void)
{
	for (int s = 0; s < MAX_SOCKETS; s++) {
		for (int r = 0; r < MAX_SOCKETS; r++) {
			const struct flow *f = &flows[s][r];
			int64_t gap = now_ms() - f->last_ms - (paused_ms() - f->paused_before);

			if (f->last_ms && !f->ended && gap > longest_gap)
				longest_gap = gap;
		}
	}
}

void inbox_report(void)
{
	if (!opt.receives)
		return;
	note_silence();
	note("received %llu, lost %llu, doubled %llu, out of order %llu, broken %llu, longest gap %lld ms",
	     (unsigned long long)received, (unsigned long long)lost, (unsigned long long)doubled,
	     (unsigned long long)reordered, (unsigned long long)broken, (long long)longest_gap);
	check(received > 0, "messages arrived");
	check(broken == 0, "each was whole");
	if (opt.once_row)
		may_differ(doubled == 0, opt.once_row, "none came twice");
	else
		check(doubled == 0, "none came twice");
	if (!opt.lossy && opt.once_row)
		may_differ(lost == 0 && reordered == 0, opt.once_row, "none was lost or overtaken");
	else if (!opt.lossy)
		check(lost == 0 && reordered == 0, "none was lost or overtaken");
	if (opt.max_gap_ms) {
		if (opt.gap_row)
			may_differ(longest_gap <= opt.max_gap_ms, opt.gap_row,
				   "no flow paused for more than %d ms", opt.max_gap_ms);
		else
			check(longest_gap <= opt.max_gap_ms, "no flow paused for more than %d ms",
			      opt.max_gap_ms);
	}
}
