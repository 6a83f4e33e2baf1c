/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_WORKER_H
#define HAWSER_TOOLS_KCM_WORKER_H

/*
 * A worker of kcm-server: a thread with a KCM socket of its own. It receives the next request of any of the
 * connections, and answers on the same connection. Answers that a client does not read wait for
 * that client alone.
 */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct worker_counts {
	uint64_t requests, request_bytes;
	uint64_t answers, answer_bytes;
	uint64_t undeliverable;		/* answers to disconnected clients */
	uint64_t receives, most;	/* calls that returned requests, and the most of one call */
};

struct worker;

/*
 * Starts a worker on the socket @kcm, which becomes its own. It ends after @stop_fd has become readable. It writes the
 * ids (uint64_t) of connections that are to be cut off to @cut_fd, which does not block. It keeps at most @backlog bytes for
 * clients that do not read.
 */
struct worker *worker_start(uint32_t index, int kcm, int stop_fd, int cut_fd, size_t max_message, size_t backlog);

/* Waits for the thread's end and closes its socket. */
struct worker_counts worker_join(struct worker *worker);

#endif
