// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [SEED [SECONDS]]
 *
 * SEED determines each thread's calls, their order and arguments; not how the threads interleave.
 */
#include "fuzz.h"

static void any_call(struct caller *c)
{
	switch (pick(c, 100)) {
	case 0 ... 31:
		return call_send(c);
	case 32 ... 63:
		return call_receive(c);
	case 64 ... 72:
		return call_option(c);
	case 73 ... 78:
		return call_info(c);
	case 79 ... 83:
		return call_names(c);
	case 84 ... 88:
		return call_wait(c);
	case 89 ... 92:
		return call_other(c);
	case 93 ... 96:
		return call_socket(c);
	case 97 ... 98:
		return call_stranger(c);
	default:
		return chance(c, 5) ? call_process(c) : call_receive(c);
	}
}

/* Kernel counters, because a call's success does not show how much code it reached. */
static void reached(void)
{
	static const char *const counters[] = {
		"conn_reset",	      "recv_drop_no_sock",    "recv_delivered",	 "recv_ping",
		"send_pong",	      "send_queue_full",      "send_queued",	     "copy_to_user",	 "copy_from_user",
		"cong_update_queued", "cong_update_received", "cong_send_error",     "cong_send_blocked", "recv_garbage",
	};

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		unsigned long long count = 0;

		for (int home = AT_HERE; home < AT_DOOMED; home++)
			count += rds_counter(home_ns(home), counters[i]);
		check(count, "counter %s moved: %llu", counters[i], count);
	}
}

static int sockets_left(int ns)
{
	static struct rds_info_socket all[200];
	socklen_t len = sizeof(all);
	int fd = rds_socket(ns);

	NEED(getsockopt(fd, SOL_RDS, RDS_INFO_SOCKETS, all, &len) == sizeof(all[0]));
	close(fd);
	return len / sizeof(all[0]);
}

static void afterwards(void)
{
	for (int home = AT_HERE; home < AT_DOOMED; home++)
		check(WAIT_UNTIL(SOON_MS, sockets_left(home_ns(home)) == 0), "no socket is left at host %d", home);
	check(all_is_well(), "all is well with fresh sockets");
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
#define FUZZ_ROW(id, text, expected) { text, expected },
		FUZZ_KINDS(FUZZ_ROW)
#undef FUZZ_ROW
	};
	const struct storm rds = {
		.kinds = kinds,
		.kind_count = KINDS,
		.open = pool_open,
		.call = any_call,
		.helpers = { janitor },
		.fork_kind = K_FORK,
		.complete = world_was_changed,
	};

	argc = ktap_start("rds fuzz", argc, argv);
	world_open();
	storm(&rds, argc, argv);
	pool_close();
	storm_verdict();
	afterwards();
	reached();
	world_close();
	return ktap_finish();
}
