// SPDX-License-Identifier: GPL-2.0
#include "hostile.h"

uint64_t seed = 1;

bool all_is_well(void)
{
	static const char *const places[] = { "127.0.0.1", "::1", HERE4, HERE6 };
	char buf[16];
	bool well = true;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int tx = rds_bound(HERE, places[i], 0), rx = rds_bound(HERE, places[i], 0);
		struct addr to = addr_of(rx), from, want = addr_of(tx);

		well = well && rds_send(tx, "hello", 5, &to, 0) == 5 &&
		       rds_recv_soon(rx, buf, sizeof(buf), &from) == 5 && !memcmp(buf, "hello", 5) &&
		       addr_same(&from, &want);
		close(tx);
		close(rx);
	}
	return well;
}

int main(int argc, char **argv)
{
	argc = ktap_start("rds hostile_user", argc, argv);
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	note("seed %llu", (unsigned long long)seed);
	here_addresses();
	user_headers();
	user_control();
	user_stalls();
	user_pieces();
	user_processes();
	user_closes();
	user_crowd();
	user_storm();
	return ktap_finish();
}
