// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs_hostile ADDRESS clients|servers HONEST
 *
 * Hostile clients of rnbd-server, or hostile servers of rnbd-client, at ADDRESS, which is this machine's. HONEST is a command
 * that maps a disk over RTRS, uses it and unmaps it.
 */
#include "hostile.h"

const char *address, *honest;

void honest_works(const char *what)
{
	check(!system(honest), "after %s: an honest client works", what);
}

int main(int argc, char **argv)
{
	argc = ktap_start("rtrs_hostile", argc, argv);
	NEED(argc == 4);
	address = argv[1];
	honest = argv[3];
	link_start();
	if (!strcmp(argv[2], "clients"))
		hostile_clients();
	else
		hostile_servers();
	return ktap_finish();
}
