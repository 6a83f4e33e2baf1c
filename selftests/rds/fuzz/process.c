// SPDX-License-Identifier: GPL-2.0
/* Children that have all sockets, too, make calls of their own, and end by themselves or are killed in one. */
#include "fuzz.h"

#include <signal.h>
#include <sys/wait.h>

static _Noreturn void live(struct caller *c)
{
	unsigned long before = c->wrong;

	c->is_child = true;
	for (int i = pick(c, 60); i > 0; i--)
		any_call(c);
	_exit(c->wrong != before);
}

void call_process(struct caller *c)
{
	int status, patience = pick(c, 40000);
	int64_t until;
	pid_t child;

	if (c->is_child)
		return;
	child = CALL(c, K_FORK, fork());
	if (!child)
		live(c);
	if (child < 0)
		return;
	until = now_us() + patience;
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (now_us() >= until)
			kill(child, SIGKILL);
		nap_us(500);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status))
		wrong(c, "what a child saw", WEXITSTATUS(status), 0);
}
