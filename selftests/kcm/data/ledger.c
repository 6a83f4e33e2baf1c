// SPDX-License-Identifier: GPL-2.0
#include "data.h"

struct ledger *ledger_new(bool mixed, uint32_t streams, uint32_t each, uint32_t receivers)
{
	struct ledger *l = calloc(1, sizeof(*l));

	NEED(l);
	*l = (struct ledger){ .mixed = mixed, .streams = streams, .each = each, .receivers = receivers };
	l->seen = calloc(streams, each);
	l->next = calloc((size_t)receivers * streams, sizeof(*l->next));
	NEED(l->seen && l->next);
	/* These cannot be identified, so they are counted. */
	for (uint32_t i = 0; mixed && i < streams * each; i++) {
		if (message_unlabelled(mixed, i / each, i % each)) {
			l->seen[i] = 1;
			l->unlabelled_sent++;
		}
	}
	return l;
}

static void count(uint32_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* Prints the first bytes of an invalid message. */
static void note_bytes(const void *buf, ssize_t len)
{
	const uint8_t *byte = buf;
	char text[3 * 16 + 1] = "";

	for (ssize_t i = 0; i < 16 && i < len; i++)
		sprintf(text + 3 * i, " %02x", byte[i]);
	note("%zd bytes are no message of this traffic:%s", len, text);
}

bool ledger_enter(struct ledger *l, uint32_t receiver, const void *buf, ssize_t len)
{
	uint32_t stream, number, *next;
	bool whole = message_read(buf, len, l->mixed, &stream, &number);

	if (whole && number == UNLABELLED) {
		count(&l->unlabelled);
		count(&l->total);
		return true;
	}
	if (!whole || stream >= l->streams || number >= l->each) {
		if (l->broken < 5)
			note_bytes(buf, len);
		count(&l->broken);
		return false;
	}
	if (__atomic_exchange_n(&l->seen[stream * l->each + number], 1, __ATOMIC_RELAXED))
		count(&l->doubled);
	next = &l->next[receiver * l->streams + stream];
	if (number < *next)
		count(&l->misordered);
	*next = number + 1;
	count(&l->total);
	return true;
}

bool ledger_over(struct ledger *l)
{
	return __atomic_load_n(&l->total, __ATOMIC_RELAXED) >= l->streams * l->each ||
	       __atomic_load_n(&l->stop, __ATOMIC_RELAXED);
}

bool ledger_whole(struct ledger *l, uint32_t stream)
{
	return !memchr(l->seen + stream * l->each, 0, l->each);
}

bool ledger_sound(struct ledger *l)
{
	bool many = l->unlabelled > l->unlabelled_sent;

	if (l->broken || l->doubled || many)
		note("%u broken, %u doubled, %u of %u without a label", l->broken, l->doubled, l->unlabelled,
		     l->unlabelled_sent);
	return !l->broken && !l->doubled && !many;
}

bool ledger_complete(struct ledger *l)
{
	bool whole = ledger_sound(l) && l->unlabelled == l->unlabelled_sent;

	if (l->unlabelled < l->unlabelled_sent)
		note("%u messages without a label are missing", l->unlabelled_sent - l->unlabelled);
	for (uint32_t stream = 0; stream < l->streams; stream++) {
		if (!ledger_whole(l, stream)) {
			uint8_t *seen = l->seen + stream * l->each, *hole = memchr(seen, 0, l->each);

			note("stream %u: the first message that is missing is %zu of %u", stream, (size_t)(hole - seen),
			     l->each);
			whole = false;
		}
	}
	return whole;
}

void ledger_delete(struct ledger *l)
{
	free(l->seen);
	free(l->next);
	free(l);
}
