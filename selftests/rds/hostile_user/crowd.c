// SPDX-License-Identifier: GPL-2.0
/* Very many sockets. */
#include "hostile.h"

#include <sys/resource.h>

#define MANY 3000

void user_crowd(void)
{
	static int fds[MANY];
	struct rlimit limit = { MANY + 100, MANY + 100 };
	struct addr a;
	int bound = 0;

	NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	a = addr("127.0.0.1", 0);
	for (int i = 0; i < MANY; i++) {
		fds[i] = rds_socket(HERE);
		bound += rds_bind(fds[i], &a) == 0;
	}
	EXPECT_EQ(bound, MANY, "crowd: %d sockets have ports of their own", MANY);
	check(all_is_well(), "crowd: all is well meanwhile");
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	check(all_is_well(), "crowd: and afterwards");
}
