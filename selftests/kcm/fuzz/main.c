// SPDX-License-Identifier: GPL-2.0
/*
 * kcm_fuzz [SEED [SECONDS]]
 *
 * SEED determines each thread's calls, their order and arguments; not how the threads interleave.
 */
#include "fuzz.h"

static void any_call(struct caller *c)
{
	switch (pick(c, 100)) {
	case 0 ... 26:
		return call_send(c);
	case 27 ... 54:
		return call_receive(c);
	case 55 ... 62:
		return call_option(c);
	case 63 ... 70:
		return call_attach(c);
	case 71 ... 76:
		return call_peer(c);
	case 77 ... 83:
		return call_tcp(c);
	case 84 ... 87:
		return call_wait(c);
	case 88 ... 90:
		return call_other(c);
	case 91 ... 94:
		return call_socket(c);
	case 95 ... 98:
		return call_connection(c);
	default:
		return chance(c, 5) ? call_process(c) : call_receive(c);
	}
}

static bool nothing_is_left(void)
{
	static const char empty[] = "*** KCM statistics (0 MUX) ****";
	char text[4096];

	return read_file("/proc/net/kcm", text, sizeof(text)) && !strncmp(text, empty, strlen(empty));
}

/* Kernel counters, because a call's success does not show how much code it reached. */
static void tell_counters(void)
{
	char text[4096], *end, *line;

	NEED(read_file("/proc/net/kcm_stats", text, sizeof(text)));
	for (line = strtok_r(text, "\n", &end); line; line = strtok_r(NULL, "\n", &end))
		note("%s", line);
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
#define FUZZ_ROW(id, text, expected) { text, expected },
		FUZZ_KINDS(FUZZ_ROW)
#undef FUZZ_ROW
	};
	const struct storm kcm = {
		.kinds = kinds,
		.kind_count = KINDS,
		.open = pool_open,
		.call = any_call,
		.helpers = { polite_peers, polite_peers, janitor },
		.fork_kind = K_FORK,
	};

	argc = ktap_start("kcm fuzz", argc, argv);
	storm(&kcm, argc, argv);
	pool_close();
	storm_verdict();
	check(WAIT_UNTIL(DRAINED_MS, nothing_is_left()), "no multiplexor is left");
	tell_counters();
	check(all_is_well(), "all is well with fresh sockets");
	check(WAIT_UNTIL(DRAINED_MS, nothing_is_left()), "and none of theirs");
	return ktap_finish();
}
