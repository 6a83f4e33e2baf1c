// SPDX-License-Identifier: GPL-2.0
#include "xfer.h"

struct flow {
	uint32_t from, to;
	uint64_t next; /* the number to send */
	uint64_t answered; /* the number expected by the other side */
	uint64_t paused_before; /* paused_ms() at the last message */
	bool ended; /* END is sent */
};

static struct flow flows[MAX_SOCKETS * 2];
static int flow_count;
static int64_t started_ms;
static uint64_t total;
static uint32_t life;
static unsigned int refused;

int post(uint32_t from, uint32_t to, enum kind kind, uint64_t number, size_t len, uint32_t paused)
{
	static char out[MAX_MESSAGE];
	struct addr there = addr(opt.peer, FIRST_PORT + to);
	struct head h = { .magic = MAGIC,
			  .kind = kind,
			  .from = from,
			  .to = to,
			  .life = life,
			  .paused_ms = paused,
			  .len = len,
			  .number = number };
	ssize_t n;

	head_seal(&h);
	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), payload_of(number, len - sizeof(h)), len - sizeof(h));
	n = rds_send(sockets[from], out, len, &there, MSG_DONTWAIT);
	if (n < 0 && errno == ENOMEM && opt.starve) {
		refused++;
	} else if (n < 0 && errno != EAGAIN && errno != ENOBUFS) {
		note("sending failed: %s", strerror(errno));
		NEED(!"send");
	}
	return n == (ssize_t)len;
}

void outbox_start(void)
{
	for (int s = 0; opt.sends && s < opt.sockets; s++)
		for (int i = 0; i < fan(); i++)
			flows[flow_count++] = (struct flow){ .from = s, .to = (s + i) % opt.sockets };
	life = now_us() | 1;
}

static bool may_send(const struct flow *f)
{
	bool too_fast = opt.rate && total >= (uint64_t)((now_ms() - started_ms) * opt.rate / 1000);

	return !too_fast && (!opt.depth || f->next < f->answered + opt.depth);
}

static bool send_data(struct flow *f)
{
	/* The length depends on the number, so that a retry sends the same message. */
	struct random r = { opt.seed + f->next };
	size_t len = opt.min_size + random_below(&r, opt.max_size - opt.min_size + 1);

	uint64_t paused = paused_ms();

	if (!may_send(f) || !post(f->from, f->to, DATA, f->next, len, paused - f->paused_before))
		return false;
	f->paused_before = paused;
	f->next++;
	total++;
	return true;
}

static bool send_end(struct flow *f)
{
	if (f->ended || !post(f->from, f->to, END, f->next, sizeof(struct head), 0))
		return false;
	f->ended = true;
	return true;
}

bool outbox_step(bool more_data)
{
	static int first; /* after the last sender: the rate may permit only some each time */
	const int start = first;
	bool any = false;

	if (!started_ms)
		started_ms = now_ms();
	for (int i = 0; i < flow_count; i++) {
		int number = (start + i) % flow_count;

		if (more_data ? send_data(&flows[number]) : send_end(&flows[number])) {
			any = true;
			first = number + 1;
		}
	}
	return any;
}

void outbox_answered(const struct head *h)
{
	for (int i = 0; i < flow_count; i++)
		if (flows[i].from == h->to && flows[i].to == h->from && h->number > flows[i].answered)
			flows[i].answered = h->number;
}

bool outbox_ended(void)
{
	for (int i = 0; i < flow_count; i++)
		if (!flows[i].ended)
			return false;
	return true;
}

unsigned int outbox_refused(void)
{
	return refused;
}

uint64_t outbox_total(void)
{
	return total;
}
