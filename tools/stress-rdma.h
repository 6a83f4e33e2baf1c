/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_RDMA_H
#define HAWSER_TOOLS_STRESS_RDMA_H

/*
 * RDMA with a request: the requester offers memory, and the receiver reads or writes it before it
 * acknowledges. Each place in the queue of each peer has memory of its own, on both sides.
 */

#include "rds-socket.h"
#include "stress-message.h"
#include "stress.h"

struct stress_rdma;

/* For a task with socket @fd. Dies when there is no memory. */
struct stress_rdma *stress_rdma_create(const struct stress_options *options, int fd);

/*
 * Chooses the operation for the request that @header describes, offers memory for it and puts both into
 * @header and
 * @extras. Returns 0 or a negative errno.
 */
int stress_rdma_offer(struct stress_rdma *rdma, unsigned int peer, struct stress_header *header,
		      struct rds_send_extras *extras);

/* The request is acknowledged: checks the written data, releases the memory. */
void stress_rdma_take_back(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *header,
			   struct stress_counts *counts);

/*
 * Prepares the operation that goes with the acknowledgement of @request. Returns 0, or -EBUSY while the
 * memory for it is still used by an earlier one, which must complete first.
 */
int stress_rdma_serve(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *request,
		      rds_rdma_cookie_t cookie, struct rds_send_extras *extras);

/* The acknowledgement with the operation was sent: its memory is busy until stress_rdma_completed(). */
void stress_rdma_started(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *request);

/* For a completion reported by the kernel. */
void stress_rdma_completed(struct stress_rdma *rdma, const struct rds_rdma_notify *notification,
			   struct stress_counts *counts);

/* The task ends: counts the failures that the end of the other side does not explain. */
void stress_rdma_end(struct stress_rdma *rdma, struct stress_counts *counts);

/* True if an operation is not completed. */
bool stress_rdma_busy(const struct stress_rdma *rdma);

#endif
