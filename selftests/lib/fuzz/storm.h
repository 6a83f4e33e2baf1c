/* SPDX-License-Identifier: GPL-2.0 */
/* Many callers at once, their signals and their children, helpers that change their environment, and the verdict. */
#ifndef SELFTESTS_LIB_FUZZ_STORM_H
#define SELFTESTS_LIB_FUZZ_STORM_H

#include "caller.h"

#define HELPERS_MAX 4

/* The subject of a fuzzer. */
struct storm {
	const struct kind *kinds;
	int kind_count;
	/* makes the shared objects, before the callers begin */
	void (*open)(struct caller *c);
	/* one call of any kind */
	void (*call)(struct caller *c);
	/* other threads, which make their own calls until over(); the vandal need not be listed */
	void (*helpers[HELPERS_MAX])(struct caller *c);
	/* the kind of a fork */
	int fork_kind;
	/* true if helpers did everything once; a slow machine gets more time for it, as for each kind's results */
	bool (*complete)(void);
};

/** over - true if the time is over and each kind has had the results that it must have, or it takes too long */
bool over(void);
/**
 * storm - the storm itself: takes [SEED [SECONDS]] out of the arguments, and ends the program if a call does not return
 */
void storm(const struct storm *s, int argc, char **argv);
/** storm_verdict - checks each kind's results, and that none was invalid; call it when all is closed */
void storm_verdict(void);

/** call_process - a child with all sockets, which makes its own calls, and ends by itself or is killed in one */
void call_process(struct caller *c);

#endif
