// SPDX-License-Identifier: GPL-2.0
#include "xfer.h"

#include <getopt.h>
#include <poll.h>

struct options opt = {
	.sockets = 4,
	.seconds = 10,
	.patience_s = 30,
	.min_size = 64,
	.max_size = 4096,
	.max_resets = -1,
	.sends = true,
	.receives = true,
	.seed = 1,
};
int sockets[MAX_SOCKETS];
bool peer_here, peer_knows_us, peer_done;

static const struct option long_options[] = {
	{ "own", 1, 0, 'o' },
	{ "peer", 1, 0, 'p' },
	{ "sockets", 1, 0, 'n' },
	{ "seconds", 1, 0, 's' },
	{ "patience", 1, 0, 'w' },
	{ "size", 1, 0, 'z' },
	{ "rate", 1, 0, 'r' },
	{ "depth", 1, 0, 'd' },
	{ "send-only", 0, 0, 'S' },
	{ "receive-only", 0, 0, 'R' },
	{ "lossy", 0, 0, 'l' },
	{ "max-gap", 1, 0, 'g' },
	{ "max-resets", 1, 0, 'x' },
	{ "gap-row", 1, 0, 'G' },
	{ "once-row", 1, 0, 'O' },
	{ "reset-row", 1, 0, 'X' },
	{ "end-row", 1, 0, 'E' },
	{ "seed", 1, 0, 'e' },
	{ "receive-buffer", 1, 0, 'b' },
	{ "starve", 1, 0, 'm' },
	{ 0, 0, 0, 0 },
};

static void size_range(const char *text)
{
	NEED(sscanf(text, "%zu-%zu", &opt.min_size, &opt.max_size) >= 1);
	if (!strchr(text, '-'))
		opt.max_size = opt.min_size;
	if (opt.min_size < sizeof(struct head))
		opt.min_size = sizeof(struct head);
	if (opt.max_size < opt.min_size)
		opt.max_size = opt.min_size;
	NEED(opt.max_size <= MAX_MESSAGE);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'o':
			opt.own = optarg;
			break;
		case 'p':
			opt.peer = optarg;
			break;
		case 'n':
			opt.sockets = atoi(optarg);
			break;
		case 's':
			opt.seconds = atoi(optarg);
			break;
		case 'w':
			opt.patience_s = atoi(optarg);
			break;
		case 'z':
			size_range(optarg);
			break;
		case 'r':
			opt.rate = atoi(optarg);
			break;
		case 'd':
			opt.depth = atoi(optarg);
			break;
		case 'b':
			opt.receive_buffer = atoi(optarg);
			break;
		case 'm':
			opt.starve = atoi(optarg);
			break;
		case 'S':
			opt.receives = false;
			break;
		case 'R':
			opt.sends = false;
			break;
		case 'l':
			opt.lossy = true;
			break;
		case 'g':
			opt.max_gap_ms = atoi(optarg);
			break;
		case 'x':
			opt.max_resets = atoi(optarg);
			break;
		case 'G':
			opt.gap_row = optarg;
			break;
		case 'O':
			opt.once_row = optarg;
			break;
		case 'X':
			opt.reset_row = optarg;
			break;
		case 'E':
			opt.end_row = optarg;
			break;
		case 'e':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		default:
			exit(2);
		}
	}
	NEED(opt.own && opt.peer && opt.sockets > 0 && opt.sockets <= MAX_SOCKETS);
}

static uint64_t paused_total;

uint64_t paused_ms(void)
{
	return paused_total;
}

/* Called once a round, which takes a few milliseconds unless the machine is stopped. */
static void note_pause(void)
{
	static int64_t last;
	int64_t now = now_ms();

	if (last && now - last > 50)
		paused_total += now - last;
	last = now;
}

/* One message from each socket, so that receiving and sending take turns as in a program that does both. */
static bool receive_some(void)
{
	static char in[MAX_MESSAGE];
	bool any = false;

	note_pause();
	for (int i = 0; i < opt.sockets; i++) {
		struct addr from;
		ssize_t n = rds_recv(sockets[i], in, sizeof(in), &from, MSG_DONTWAIT);

		if (n >= 0) {
			any = true;
			inbox_take(in, n, &from);
		}
	}
	return any;
}

static void rest(void)
{
	struct pollfd p[MAX_SOCKETS];

	for (int i = 0; i < opt.sockets; i++)
		p[i] = (struct pollfd){ sockets[i], POLLIN };
	/* The end of congestion is not signalled here, hence the short sleep. */
	poll(p, opt.sockets, 2);
}

/* Messages to missing sockets are lost, so counting begins when both sides have theirs. */
static void meet(void)
{
	int64_t until = now_ms() + stretched(60000), next = 0;

	while (!(peer_here && peer_knows_us) && now_ms() < until) {
		if (now_ms() >= next) {
			post(0, 0, HELLO, peer_here, sizeof(struct head), 0);
			next = now_ms() + 200;
		}
		if (!receive_some())
			rest();
	}
	NEED(peer_here && peer_knows_us);
}

static void exchange(void)
{
	int64_t stop_sending = now_ms() + opt.seconds * 1000LL;
	int64_t give_up = stop_sending + stretched(opt.patience_s * 1000);
	bool done_sent = false, starving = opt.starve;

	if (starving)
		starve_set(opt.starve);
	while (now_ms() < give_up && !(done_sent && peer_done)) {
		bool busy = receive_some();

		busy |= outbox_step(now_ms() < stop_sending);
		if (starving && now_ms() >= stop_sending) {
			starve_set(0);
			starving = false;
		}
		if (!done_sent && outbox_ended() && inbox_ended())
			done_sent = post(0, 0, DONE, 0, sizeof(struct head), 0);
		if (!busy)
			rest();
	}
	/* Closing cancels unacknowledged messages, and the other side still waits for the last one. */
	nap_us(stretched(1000) * 1000);
	if (opt.end_row)
		may_differ(done_sent && peer_done, opt.end_row, "both sides came to an end");
	else
		check(done_sent && peer_done, "both sides came to an end");
}

int main(int argc, char **argv)
{
	uint64_t resets;

	argc = ktap_start("rds xfer", argc, argv);
	parse(argc, argv);
	for (int i = 0; i < opt.sockets; i++) {
		sockets[i] = rds_bound(HERE, opt.own, FIRST_PORT + i);
		NEED(set_int(sockets[i], SOL_SOCKET, SO_SNDBUFFORCE, 2 << 20) == 0);
		if (opt.receive_buffer)
			NEED(set_int(sockets[i], SOL_SOCKET, SO_RCVBUF, opt.receive_buffer) == 0);
	}
	/* A limit that distinguishes our RDS from the kernel's own must not be stretched. */
	if (!opt.gap_row)
		opt.max_gap_ms = stretched(opt.max_gap_ms);
	if (opt.starve)
		starve_prepare();
	outbox_start();
	meet();
	resets = rds_counter(HERE, "conn_reset");
	exchange();
	resets = rds_counter(HERE, "conn_reset") - resets;
	note("this program did not run for %llu ms", (unsigned long long)paused_ms());
	note("sent %llu, connection resets %llu", (unsigned long long)outbox_total(),
	     (unsigned long long)resets);
	if (opt.starve) {
		note("%u messages had to be sent again, there was no memory", outbox_refused());
		check(outbox_refused() > 0, "memory was short");
	}
	inbox_report();
	if (opt.max_resets >= 0 && opt.reset_row)
		may_differ(resets <= (uint64_t)opt.max_resets, opt.reset_row, "at most %d connection resets",
			   opt.max_resets);
	else if (opt.max_resets >= 0)
		check(resets <= (uint64_t)opt.max_resets, "at most %d connection resets", opt.max_resets);
	return ktap_finish();
}
