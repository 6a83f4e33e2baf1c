/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_ASKER_H
#define HAWSER_TOOLS_KCM_ASKER_H

/*
 * The two kinds of requesters in kcm-client: over one TCP connection, splitting the stream itself, or as one of
 * several workers over KCM, which spreads the requests over its connections. Each is run by a thread and ends when its
 * ledger is done or something goes wrong.
 */

#include "kcm-ledger.h"

#include <pthread.h>

struct asker {
	struct ledger *ledger;
	int fd;			/* TCP or KCM */
	int stop_fd;		/* KCM: an eventfd, readable when the others have ended */
	uint64_t timeout_ns;	/* the longest time without an answer */
	pthread_t thread;
	uint64_t requests, answers;
	const char *failure;	/* the failed step, or NULL */
	int error;		/* its errno, or 0 */
};

/** asker_fails - ends it because of @what; @error is an errno or 0 */
void asker_fails(struct asker *asker, const char *what, int error);

/* For pthread_create(); the context is the asker. */
void *ask_over_tcp(void *asker);
void *ask_over_kcm(void *asker);

#endif
