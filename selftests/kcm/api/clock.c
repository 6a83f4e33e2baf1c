// SPDX-License-Identifier: GPL-2.0
/* A waiting task is woken by the event itself and not by a later tick, in a machine whose clock counts instructions. */
#include "api.h"

#include <netinet/tcp.h>

#define TIMES 9
#define TICK_US 4000 /* the shortest that a timer can take: HZ is 250 */

struct waiting {
	struct rig *r;
	int64_t through; /* when it was over, in us */
};

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void judge(int64_t *took, const char *what)
{
	qsort(took, TIMES, sizeof(took[0]), by_size);
	note("%s: %lld us, at least %lld and at most %lld", what, (long long)took[TIMES / 2], (long long)took[0],
	     (long long)took[TIMES - 1]);
	/* Sometimes TCP's own acknowledgement waits for 40 ms, and room cannot be signalled before it. */
	check(took[0] < TICK_US, "clock: %s, before a tick", what);
}

/* Small TCP buffers, so that they are soon full, and reading a little makes room. */
static struct rig narrow(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	NEED(set_int(r.peer, SOL_SOCKET, SO_RCVBUF, 16384) == 0 && set_int(r.tcp, SOL_SOCKET, SO_SNDBUF, 16384) == 0);
	return r;
}

/* Reads at the peer until the call returns; gives the time of the last read. */
static int64_t read_until_over(struct rig *r, struct task *t)
{
	int64_t last = 0;

	while (!task_finished(t, 0)) {
		/* Makes TCP acknowledge data in the new room: each option helps with one kernel. */
		NEED(set_int(r->peer, IPPROTO_TCP, TCP_QUICKACK, 1) == 0);
		last = now_us();
		if (recv(r->peer, buf, 65536, MSG_DONTWAIT) < 0)
			NEED(errno == EAGAIN);
		peer_send_frame(r->peer, 5, 0);
		/* A woken task gets the only processor before this one. */
		nap_us(20 * TICK_US);
	}
	return last;
}

static long send_one(void *arg)
{
	struct waiting *w = arg;
	char frame[MEDIUM];
	long sent;

	frame_fill(frame, MEDIUM, 1);
	sent = send(w->r->kcm, frame, MEDIUM, 0);
	w->through = now_us();
	return sent;
}

static long unattach_one(void *arg)
{
	struct waiting *w = arg;
	long ret = kcm_unattach(w->r->kcm, w->r->tcp);

	w->through = now_us();
	return ret;
}

static void writer(void)
{
	struct rig r = narrow();
	struct waiting w = { &r };
	int64_t took[TIMES];

	for (int i = 0; i < TIMES; i++) {
		struct task t;
		int64_t last;

		fill(r.kcm, 1000);
		task_start(&t, send_one, &w);
		NEED(task_blocked(&t));
		last = read_until_over(&r, &t);
		NEED(task_join(&t) == MEDIUM);
		took[i] = w.through - last;
	}
	judge(took, "a writer gets the room that a reader makes");
	rig_close(&r);
}

/* The rest of a message; TCP has the first part. */
static void unattaching(void)
{
	int64_t took[TIMES];

	for (int i = 0; i < TIMES; i++) {
		struct rig r = narrow();
		struct waiting w = { &r };
		struct task t;
		int64_t last;

		NEED(send(r.kcm, buf, 200000, MSG_DONTWAIT) == 200000);
		nap_us(20 * TICK_US);
		task_start(&t, unattach_one, &w);
		NEED(task_blocked(&t));
		last = read_until_over(&r, &t);
		NEED(task_join(&t) == 0);
		took[i] = w.through - last;
		rig_close(&r);
	}
	judge(took, "unattaching ends with the awaited message");
}

static long receive_one(void *arg)
{
	struct waiting *w = arg;
	char frame[MEDIUM];
	long n = recv(w->r->kcm, frame, MEDIUM, 0);

	w->through = now_us();
	return n;
}

static void reader(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct waiting w = { &r };
	int64_t took[TIMES];

	for (int i = 0; i < TIMES; i++) {
		struct task t;
		int64_t sent;

		task_start(&t, receive_one, &w);
		NEED(task_blocked(&t));
		sent = now_us();
		peer_send_frame(r.peer, MEDIUM, i);
		NEED(task_finished(&t, SOON_MS) && task_join(&t) == MEDIUM);
		took[i] = w.through - sent;
	}
	judge(took, "a reader gets the next message");
	rig_close(&r);
}

void api_clock(void)
{
	reader();
	writer();
	unattaching();
}
