// SPDX-License-Identifier: GPL-2.0
/*
 * Outages, in a machine whose clock counts instructions: traffic resumes soon after a link's return, a peer that
 * stopped silently is declared dead in time, and one whose window is closed is not.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define PORT 4600
#define DEAF_PORT 4601
#define SIZE 1000
#define LARGE 65536
#define SOON 500 /* ms, after the link's return */
#define DEAD_PEER 10000 /* net.rds.tcp.rds_tcp_dead_peer_ms */
#define SLACK 2000 /* the first time-out, longer after the outages, and the intervals of looks: 11.5 s as a rule */

static struct pair pair;
static int from, to;
static struct addr there;
static char buffer[LARGE];

static void tc(int ns, const char *verb, const char *what)
{
	char command[128];
	int status;
	pid_t child = fork();

	NEED(child >= 0);
	if (!child) {
		netns_enter(ns);
		snprintf(command, sizeof(command), "tc qdisc %s dev pair root netem %s", verb, what);
		_exit(system(command) ? 1 : 0);
	}
	NEED(waitpid(child, &status, 0) == child && status == 0);
}

/* A packet takes a millisecond, or never arrives. */
static void links(const char *verb, bool cut)
{
	tc(pair.a, verb, cut ? "loss 100%" : "delay 1ms");
	tc(pair.b, verb, cut ? "loss 100%" : "delay 1ms");
}

static bool send_one(void)
{
	return rds_send(from, buffer, SIZE, &there, MSG_DONTWAIT) == SIZE;
}

static bool take_one(void)
{
	return rds_recv(to, buffer, SIZE, NULL, MSG_DONTWAIT) == SIZE;
}

static uint64_t resets(void)
{
	return rds_counter(pair.a, "conn_reset") + rds_counter(pair.b, "conn_reset");
}

/* Sends all the time. Returns the ms from the link's return to the first arrival. */
static int64_t pause_after(int ms)
{
	unsigned int sent = 0, taken = 0;
	int64_t back, first;

	links("change", true);
	for (int64_t until = now_ms() + ms; now_ms() < until; nap_us(20000))
		sent += send_one();
	while (take_one())
		taken++;
	links("change", false);
	back = now_ms();
	NEED(WAIT_UNTIL(30000, take_one()));
	first = now_ms();
	taken++;
	NEED(WAIT_UNTIL(10000, (taken += take_one()) >= sent));
	return first - back;
}

static void outages(void)
{
	static const int lengths[] = { 2000, 3300, 4700, 7000, 9000 };
	uint64_t before = resets();

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		int64_t pause = pause_after(lengths[i]);

		note("a link that was cut for %d ms: the first message %lld ms after its return", lengths[i],
		     (long long)pause);
		check(pause <= SOON, "outage of %d ms: traffic resumes within %d ms", lengths[i], SOON);
		nap_us(1500000);
	}
	EXPECT_EQ(resets(), before, "outages: no connection was reset");
}

/* Its receive queue is so full that the path to it is not read. */
static void closed_window(void)
{
	int deaf = rds_bound(pair.b, PAIR_B4, DEAF_PORT), loud = rds_bound(pair.a, PAIR_A4, DEAF_PORT);
	struct addr name = addr(PAIR_B4, DEAF_PORT);
	uint64_t before = resets(), dead = rds_counter(pair.a, "path_dead_peer");
	unsigned int sent = 0, taken = 0;

	NEED(set_int(loud, SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20) == 0);
	/* The receiver's congestion map stops this within some round trips. */
	while (sent < 500 && rds_send(loud, buffer, LARGE, &name, MSG_DONTWAIT) == LARGE)
		sent++;
	nap_us(60000000);
	EXPECT_EQ(rds_counter(pair.a, "path_dead_peer"), dead, "closed window: a peer that answers probes is not dead");
	EXPECT_EQ(resets(), before, "closed window: no connection was reset");
	check(rds_counter(pair.a, "tcp_sndbuf_full") > 0, "closed window: it was closed");
	WAIT_UNTIL(20000, (taken += rds_recv(deaf, buffer, LARGE, NULL, MSG_DONTWAIT) == LARGE) >= sent);
	EXPECT_EQ(taken, sent, "closed window: all of it arrives when it opens");
	close(deaf);
	close(loud);
}

static void dead_peer(void)
{
	uint64_t before = rds_counter(pair.a, "path_dead_peer");
	int64_t start = now_ms(), found;

	links("change", true);
	NEED(send_one());
	check(WAIT_UNTIL(3 * DEAD_PEER, rds_counter(pair.a, "path_dead_peer") != before), "dead peer: it is found");
	found = now_ms() - start;
	note("dead for %lld ms", (long long)found);
	check(found >= DEAD_PEER && found <= DEAD_PEER + SLACK, "dead peer: it is found after %d ms", DEAD_PEER);
	links("change", false);
	check(WAIT_UNTIL(10000, take_one()), "dead peer: the message arrives when it is back");
}

int main(int argc, char **argv)
{
	ktap_start("outage", argc, argv);
	pair = pair_new();
	links("add", false);
	from = rds_bound(pair.a, PAIR_A4, PORT);
	to = rds_bound(pair.b, PAIR_B4, PORT);
	there = addr(PAIR_B4, PORT);
	NEED(set_int(from, SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20) == 0);
	NEED(set_int(to, SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20) == 0);
	NEED(send_one() && WAIT_UNTIL(5000, take_one()));
	nap_us(2000000); /* all paths are up */
	outages();
	closed_window();
	dead_peer();
	close(from);
	close(to);
	pair_delete(&pair);
	return ktap_finish();
}
