/* SPDX-License-Identifier: GPL-2.0 */
/* Many callers at once, their signals and their children, helpers that change the world under them, and the verdict. */
#ifndef SELFTESTS_LIB_FUZZ_STORM_H
#define SELFTESTS_LIB_FUZZ_STORM_H

#include "caller.h"

#define HELPERS_MAX 4

/* What is fuzzed. */
struct storm {
	const struct kind *kinds;
	int kind_count;
	/* makes what all share, before the callers begin */
	void (*open)(struct caller *c);
	/* one call of any kind */
	void (*call)(struct caller *c);
	/* threads beside the callers, that make calls of their own until it is over(); the vandal need not be named */
	void (*helpers[HELPERS_MAX])(struct caller *c);
	/* the kind that a fork is */
	int fork_kind;
	/* did helpers do each thing once? A slow machine gets more time for it. */
	bool (*complete)(void);
};

/** over - the time is over, and the storm complete */
bool over(void);
/**
 * storm - the storm itself: takes [SEED [SECONDS]] out of the arguments, and ends the program if a call does not return
 */
void storm(const struct storm *s, int argc, char **argv);
/** storm_verdict - what came of each kind, and that nothing came that cannot be; to be called when all is closed */
void storm_verdict(void);

/** call_process - a child that has all sockets, too, makes calls of its own, and ends by itself or is killed in one */
void call_process(struct caller *c);

#endif
