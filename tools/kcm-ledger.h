/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_LEDGER_H
#define HAWSER_TOOLS_KCM_LEDGER_H

/*
 * kcm-client's outstanding requests. Chooses the next request and checks each answer: it must be expected,
 * come once, and have the right bytes. Threads may share one.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_MAX_WINDOW 1024
#define LEDGER_WORKERS 64 /* of the server, whose order is watched */

struct ledger_plan {
	uint64_t requests;		/* at most this number, ... */
	uint64_t until_ns;		/* ... and none from this time on; 0: no limit */
	uint64_t window;		/* requests without an answer at a time */
	uint64_t min_size, max_size;	/* of a message */
	bool in_order;			/* each worker answers in the order of the requests */
};

struct ledger_counts {
	uint64_t requests, request_bytes;
	uint64_t answers, answer_bytes;
	uint64_t unanswered;
	uint64_t strange;	/* not outstanding */
	uint64_t damaged;	/* wrong bytes */
	uint64_t disordered;	/* a worker's answer to an earlier request came after that to a later one */
};

struct ledger {
	pthread_mutex_t lock;
	struct ledger_plan plan;
	struct ledger_counts counts;
	uint64_t first, next;				/* numbers */
	uint64_t slots[LEDGER_MAX_WINDOW];		/* number + 1 of the request in the slot, else 0 */
	uint64_t last_of[LEDGER_WORKERS];		/* number + 1 of each worker's last answer */
	uint64_t last_answer_ns;
};

/* Requests are numbered from @first on. */
void ledger_start(struct ledger *ledger, const struct ledger_plan *plan, uint64_t first);

/* Writes the next request into @buffer, which has room for the largest. Returns its size; 0: none may be sent now. */
size_t ledger_next(struct ledger *ledger, void *buffer);

/* Records the answer; @scratch has room for the largest. */
void ledger_enter(struct ledger *ledger, const void *answer, size_t size, void *scratch);

/* True if all requests were sent and answered. */
bool ledger_is_done(struct ledger *ledger);

/* The time of the last answer, or of the start. */
uint64_t ledger_last_answer(struct ledger *ledger);

/* Call it when no thread uses the ledger. */
struct ledger_counts ledger_result(struct ledger *ledger);

#endif
