// SPDX-License-Identifier: GPL-2.0
/* What a task of rds-stress sends: requests, acknowledgements. */
#include "stress-exchange.h"

#include "program.h"
#include "stress-foreign.h"
#include "stress-rdma.h"

#include <errno.h>

/* A congested peer is tried again after this time even without a notification. */
#define CONGESTION_RETRY_NS NS_PER_SECOND

/* Where the request with @sequence to peer @index is built. Acknowledgements are built in the first place. */
static unsigned char *request_buffer(struct task *task, unsigned int index, uint64_t sequence)
{
	size_t place = index * task->options->depth + sequence % task->options->depth;

	return task->options->zerocopy ? task->outgoing + (place + 1) * largest_message(task->options)
				       : task->outgoing;
}

enum attempt {
	SENT,
	NOT_NOW,			/* no room for this peer */
	FULL,				/* no room for any peer */
};

static enum attempt judge(struct task *task, struct peer *peer, int error, uint64_t now)
{
	switch (error) {
	case -EAGAIN:
		task->blocked = true;
		return FULL;
	case -ENOBUFS:
		if (!peer->congested)
			task->slot->counts.congested++;
		peer->congested = true;
		peer->congested_ns = now;
		return NOT_NOW;
	case -EINTR:
	case -EBUSY:
		return NOT_NOW;
	case -EOPNOTSUPP:
		if (task->rdma)
			die("task %u: the transport of this address cannot do RDMA", task->index);
		die_error(error, "task %u: sending", task->index);
	default:
		die_error(error, "task %u: sending", task->index);
	}
}

static void build(const struct stress_options *options, const struct peer *peer, unsigned char *message,
		  const struct stress_header *header)
{
	if (options->foreign) {
		stress_foreign_write(options, peer, header, message);
		if (options->verify)
			stress_foreign_fill(message + STRESS_FOREIGN_HEADER_SIZE,
					    header->length - STRESS_FOREIGN_HEADER_SIZE);
		return;
	}
	stress_header_write(header, message);
	if (options->verify)
		stress_pattern_fill(stress_pattern_seed(header), message + STRESS_HEADER_SIZE,
				    header->length - STRESS_HEADER_SIZE);
}

static enum attempt send_message(struct task *task, struct peer *peer, unsigned char *message,
				 const struct stress_header *header, const struct rds_send_extras *extras)
{
	struct stress_counts *counts = &task->slot->counts;
	bool late = peer->congested;
	uint64_t started;
	int error;

	build(task->options, peer, message, header);
	started = now_ns();
	error = rds_socket_send(task->fd, &peer->address, message, header->length, extras);
	if (error)
		return judge(task, peer, error, started);
	counts->send_ns += now_ns() - started;
	counts->send_calls++;
	counts->bytes_sent += header->length;
	if (late)
		counts->congestion_late++;
	peer->congested = false;
	if (task->options->foreign)
		stress_foreign_sent(task->options, peer, header);
	return SENT;
}

static enum attempt send_ack(struct task *task, unsigned int index)
{
	const struct stress_options *options = task->options;
	struct peer *peer = &task->peers[index];
	struct owed *owed = &peer->owed[peer->owed_first % options->depth];
	struct rds_send_extras extras = { 0 };
	struct stress_header ack = owed->request;
	enum attempt attempt;

	ack.kind = STRESS_ACK;
	ack.from_task = owed->request.to_task;
	ack.to_task = owed->request.from_task;
	ack.length = (uint32_t)options->ack_bytes;
	ack.rdma_key = owed->cookie;
	if (task->rdma && owed->request.rdma_operation != STRESS_RDMA_NONE &&
	    stress_rdma_serve(task->rdma, index, &owed->request, owed->cookie, &extras))
		return NOT_NOW;
	attempt = send_message(task, peer, task->outgoing, &ack, &extras);
	if (attempt != SENT)
		return attempt;
	if (extras.rdma)
		stress_rdma_started(task->rdma, index, &owed->request);
	task->slot->counts.acks_sent++;
	peer->owed_first++;
	return SENT;
}

static enum attempt send_request(struct task *task, unsigned int index)
{
	const struct stress_options *options = task->options;
	struct peer *peer = &task->peers[index];
	uint64_t place = peer->next_request % options->depth;
	struct stress_header header = {
		.run_id = (uint32_t)options->run_id,
		.kind = STRESS_REQUEST,
		.from_task = (uint16_t)task->index,
		.to_task = (uint16_t)index,
		.length = (uint32_t)options->request_bytes,
		.sequence = peer->next_request,
		.sent_ns = now_ns(),
	};
	struct rds_send_extras extras = {
		.zerocopy = options->zerocopy,
		.zerocopy_cookie = (uint32_t)(index * options->depth + place),
	};
	enum attempt attempt;
	int error;

	if (peer->zerocopy_busy[place])
		return NOT_NOW;
	if (task->rdma) {
		error = stress_rdma_offer(task->rdma, index, &header, &extras);
		if (error)
			return judge(task, peer, error, header.sent_ns);
	}
	attempt = send_message(task, peer, request_buffer(task, index, header.sequence), &header, &extras);
	if (attempt != SENT)
		return attempt;
	peer->zerocopy_busy[place] = options->zerocopy;
	task->slot->counts.requests_sent++;
	peer->next_request++;
	return SENT;
}

static bool may_send_requests(const struct task *task)
{
	return __atomic_load_n(&task->shared->command, __ATOMIC_ACQUIRE) == STRESS_RUN &&
	       (task->options->active || !task->options->one_way);
}

/* Sends one message to the peer, an acknowledgement if one is due. */
static enum attempt send_to(struct task *task, unsigned int index)
{
	struct peer *peer = &task->peers[index];

	if (peer->congested && now_ns() - peer->congested_ns < CONGESTION_RETRY_NS)
		return NOT_NOW;
	if (peer->owed_first != peer->owed_end)
		return send_ack(task, index);
	if (may_send_requests(task) && peer->next_request - peer->next_ack < task->options->depth)
		return send_request(task, index);
	return NOT_NOW;
}

void stress_send(struct task *task)
{
	unsigned int tasks = (unsigned int)task->options->tasks;
	unsigned int round, i;

	for (round = 0; round < 16; round++) {
		bool any = false;

		for (i = 0; i < tasks; i++) {
			enum attempt attempt = send_to(task, (task->first_peer + i) % tasks);

			if (attempt == FULL)
				return;
			any |= attempt == SENT;
		}
		task->first_peer = (task->first_peer + 1) % tasks;
		if (!any)
			return;
	}
	/* There may be more to send: do not wait for something to arrive. */
	task->blocked = true;
}
