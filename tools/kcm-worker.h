/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_WORKER_H
#define HAWSER_TOOLS_KCM_WORKER_H

/*
 * A worker of kcm-server: a thread with a KCM socket of its own. It receives whatever request comes next on any of the
 * connections, and answers on the connection that the request came from.
 */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct worker_counts {
	uint64_t requests, request_bytes;
	uint64_t answers, answer_bytes;
	uint64_t undeliverable;		/* answers whose client was gone */
	uint64_t receives, most;	/* calls that brought requests, and the most that one brought */
};

struct worker;

/* Starts a worker on the socket @kcm, which becomes its own. It ends after @stop_fd has become readable. */
struct worker *worker_start(uint32_t index, int kcm, int stop_fd, size_t max_message);

/* Waits for its end and closes its socket. */
struct worker_counts worker_join(struct worker *worker);

#endif
