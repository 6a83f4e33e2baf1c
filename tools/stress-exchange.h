/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_EXCHANGE_H
#define HAWSER_TOOLS_STRESS_EXCHANGE_H

/*
 * What a task of rds-stress has sent, received and owes; stress-send and stress-receive share it.
 */

#include "stress.h"
#include "rds-socket.h"
#include "stress-message.h"

#include <stddef.h>

/* Limit of messages; the counters show the total. */
#define STRESS_MAX_COMPLAINTS 10

/* A request to acknowledge. */
struct owed {
	struct stress_header request;
	rds_rdma_cookie_t cookie;
};

struct peer {
	union rds_address address;
	uint64_t next_request;		/* the sequence number of the next request to send */
	uint64_t next_ack;		/* ... of the oldest request that is not acknowledged */
	uint64_t next_expected;		/* ... of the next request to arrive */
	uint64_t owed_first;		/* owed acknowledgements: a ring of depth entries, counted through */
	uint64_t owed_end;
	struct owed *owed;
	bool congested;
	uint64_t congested_ns;		/* since when */
	bool *zerocopy_busy;		/* per place: the kernel still reads that message */
	/* With the rds-stress of rds-tools, whose messages have no time and are numbered together. */
	uint32_t foreign_sent;
	uint32_t foreign_expected;
	uint64_t *foreign_sent_ns;	/* per place: when its request was sent */
};

struct task {
	const struct stress_options *options;
	struct stress_shared *shared;
	struct stress_task_slot *slot;
	unsigned int index;
	unsigned int complaints;
	int fd;
	bool blocked;			/* the send buffer is full; poll reports room */
	struct peer *peers;
	unsigned int first_peer;	/* the first to serve, in turn */
	unsigned char *incoming;
	unsigned char *outgoing;	/* one message, or with zero-copy one for each place */
	struct stress_rdma *rdma;	/* NULL without */
};

static inline size_t largest_message(const struct stress_options *options)
{
	return options->request_bytes > options->ack_bytes ? options->request_bytes : options->ack_bytes;
}

/* Receives, but not endlessly: acknowledgements must be sent as well. */
void stress_receive(struct task *task);

/* Sends in turn until no peer takes more, but at most a queue's worth before receiving again. */
void stress_send(struct task *task);

#endif
