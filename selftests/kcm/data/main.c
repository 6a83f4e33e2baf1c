// SPDX-License-Identifier: GPL-2.0
/*
 * kcm_data [--seed N]                              all tests for one machine
 * kcm_data [--seed N] --far listen|connect [--constant] IPV4 IPV6    one end of a pair of machines
 */
#include "data.h"

#include "tls.h"

uint64_t data_seed = 1;
bool data_tls;

struct link data_link(int family)
{
	struct link l = tcp_link(HERE, family);

	if (data_tls)
		NEED(tls_secure(l.near, l.far, family == AF_INET ? TLS_1_2_VERSION : TLS_1_3_VERSION));
	return l;
}

static void near_by(void)
{
	net_set_up(HERE, "lo", true);
	data_crossing(false);
	data_churn(false);
	data_peers(false);
	/* Messages of different lengths, which the kernel's own KCM cannot receive. */
	if (ktap_suite() == SUITE_OURS) {
		data_crossing(true);
		data_churn(true);
		data_peers(true);
	}
	if (ktap_suite() == SUITE_OURS && tls_has_readers()) {
		data_tls = true;
		data_crossing(true);
		data_churn(true);
		data_tls = false;
	}
	data_programs();
	data_memory();
	/* The kernel's own KCM has races that syzbot has reported. */
	if (ktap_suite() == SUITE_OURS) {
		data_storm();
		data_namespaces();
	}
}

int main(int argc, char **argv)
{
	const char *far = NULL;
	bool mixed = true;
	int at = 1;

	argc = ktap_start("kcm data", argc, argv);
	for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
		if (!strcmp(argv[at], "--constant"))
			mixed = false;
		else if (!strcmp(argv[at], "--seed") && at + 1 < argc)
			data_seed = strtoull(argv[++at], NULL, 0);
		else if (!strcmp(argv[at], "--far") && at + 1 < argc)
			far = argv[++at];
	}
	note("seed %llu", (unsigned long long)data_seed);
	if (far) {
		NEED(at + 2 == argc);
		data_far(mixed, !strcmp(far, "listen"), argv[at], argv[at + 1]);
	} else {
		near_by();
	}
	return ktap_finish();
}
