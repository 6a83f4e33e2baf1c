// SPDX-License-Identifier: GPL-2.0
/* kcm_data [--seed N] */
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

int main(int argc, char **argv)
{
	argc = ktap_start("kcm data", argc, argv);
	if (argc == 3 && !strcmp(argv[1], "--seed"))
		data_seed = strtoull(argv[2], NULL, 0);
	note("seed %llu", (unsigned long long)data_seed);
	net_set_up(HERE, "lo", true);
	data_crossing(false);
	data_churn(false);
	data_peers(false);
	/* Messages of different lengths: the kernel's own cannot receive them. */
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
	/* The kernel's own has races that syzbot knows. */
	if (ktap_suite() == SUITE_OURS)
		data_storm();
	return ktap_finish();
}
