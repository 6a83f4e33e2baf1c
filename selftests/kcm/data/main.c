// SPDX-License-Identifier: GPL-2.0
/* kcm_data [--seed N] */
#include "data.h"

uint64_t data_seed = 1;

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
	data_programs();
	data_memory();
	/* The kernel's own has races that syzbot knows. */
	if (ktap_suite() == SUITE_OURS)
		data_storm();
	return ktap_finish();
}
