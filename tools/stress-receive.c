// SPDX-License-Identifier: GPL-2.0
/* What a task of rds-stress receives: requests, acknowledgements, notifications. */
#include "stress-exchange.h"

#include "program.h"
#include "stress-foreign.h"
#include "stress-rdma.h"

#include <errno.h>
#include <inttypes.h>

static void complain(struct task *task, const char *what, unsigned int peer, uint64_t expected, uint64_t got)
{
	if (task->complaints++ < STRESS_MAX_COMPLAINTS)
		warn("task %u: %s from task %u: expected number %" PRIu64 ", got %" PRIu64, task->index, what,
		     peer, expected, got);
}

static void note_rtt(struct task *task, unsigned int peer, const struct stress_header *ack)
{
	struct stress_counts *counts = &task->slot->counts;
	uint64_t rtt_ns = now_ns() - ack->sent_ns;

	if (!counts->acks_received || rtt_ns < counts->rtt_min_ns)
		counts->rtt_min_ns = rtt_ns;
	if (rtt_ns > counts->rtt_max_ns)
		counts->rtt_max_ns = rtt_ns;
	counts->rtt_ns += rtt_ns;
	histogram_add(&task->slot->rtt_us, rtt_ns / NS_PER_US);
	if (task->options->outlier_us && rtt_ns / NS_PER_US > task->options->outlier_us)
		warn("task %u: a round trip to task %u took %" PRIu64 " usec (request %" PRIu64 ")",
		     task->index, peer, rtt_ns / NS_PER_US, ack->sequence);
}

static void take_ack(struct task *task, unsigned int index, const struct stress_header *ack)
{
	struct stress_counts *counts = &task->slot->counts;
	struct peer *peer = &task->peers[index];

	if (ack->sequence < peer->next_ack || ack->sequence >= peer->next_request) {
		counts->duplicated++;
		complain(task, "an acknowledgement twice", index, peer->next_ack, ack->sequence);
		return;
	}
	if (ack->sequence > peer->next_ack) {
		counts->lost += ack->sequence - peer->next_ack;
		complain(task, "an acknowledgement is missing", index, peer->next_ack, ack->sequence);
	}
	note_rtt(task, index, ack);
	counts->acks_received++;
	peer->next_ack = ack->sequence + 1;
	if (task->rdma)
		stress_rdma_take_back(task->rdma, index, ack, counts);
}

static void take_request(struct task *task, unsigned int index, const struct stress_header *request,
			 const struct rds_received *received)
{
	struct stress_counts *counts = &task->slot->counts;
	struct peer *peer = &task->peers[index];

	if (request->sequence < peer->next_expected) {
		counts->duplicated++;
		complain(task, "a request twice", index, peer->next_expected, request->sequence);
		return;
	}
	if (request->sequence > peer->next_expected) {
		counts->lost += request->sequence - peer->next_expected;
		complain(task, "a request is missing", index, peer->next_expected, request->sequence);
	}
	peer->next_expected = request->sequence + 1;
	counts->requests_received++;
	if (peer->owed_end - peer->owed_first == task->options->depth) {
		/* The peer has given up on some; drop the oldest. */
		peer->owed_first++;
	}
	peer->owed[peer->owed_end++ % task->options->depth] = (struct owed){
		.request = *request,
		/* The request of another implementation may name a key without giving it to RDS. */
		.cookie = received->rdma_cookie ? received->rdma_cookie : request->rdma_key,
	};
}

static void check_payload(struct task *task, const struct stress_header *header)
{
	bool foreign = task->options->foreign;
	size_t header_size = foreign ? STRESS_FOREIGN_HEADER_SIZE : STRESS_HEADER_SIZE;
	const unsigned char *payload = task->incoming + header_size;
	size_t bytes = header->length - header_size;
	size_t good = foreign ? stress_foreign_check(payload, bytes) :
				stress_pattern_check(stress_pattern_seed(header), payload, bytes);

	if (good == bytes)
		return;
	task->slot->counts.corrupted++;
	if (task->complaints++ < STRESS_MAX_COMPLAINTS)
		warn("task %u: message %" PRIu64 " from task %u is damaged from byte %zu of %u on",
		     task->index, header->sequence, header->from_task, good + header_size,
		     header->length);
}

/* Whose requests are numbered by their places alone. False: it came before. */
static bool number_foreign(struct task *task, struct stress_header *header, uint32_t number, uint16_t place)
{
	struct peer *peer = &task->peers[header->from_task];
	uint64_t *next = header->kind == STRESS_REQUEST ? &peer->next_expected : &peer->next_ack;
	uint64_t depth = task->options->depth;
	uint32_t missing = number - peer->foreign_expected;

	if (missing > UINT32_MAX / 2) {
		task->slot->counts.duplicated++;
		complain(task, "a message twice", header->from_task, peer->foreign_expected, number);
		return false;
	}
	header->sequence = *next + (place + depth - *next % depth) % depth;
	header->sent_ns = header->kind == STRESS_ACK ? peer->foreign_sent_ns[place] : 0;
	if (missing) {
		task->slot->counts.lost += missing;
		complain(task, "a message is missing", header->from_task, peer->foreign_expected, number);
		*next = header->sequence;
	}
	peer->foreign_expected = number + 1;
	return true;
}

static bool read_header(struct task *task, struct stress_header *header, const struct rds_received *received, uint32_t *number,
			uint16_t *place)
{
	if (task->options->foreign)
		return stress_foreign_read(task->options, header, task->incoming, received->bytes, number, place);
	return stress_header_read(header, task->incoming, received->bytes);
}

static void take_message(struct task *task, const struct rds_received *received)
{
	const struct stress_options *options = task->options;
	struct stress_counts *counts = &task->slot->counts;
	struct stress_header header;
	uint32_t number = 0;
	uint16_t place = 0;

	if (received->truncated || !read_header(task, &header, received, &number, &place)) {
		counts->corrupted++;
		if (task->complaints++ < STRESS_MAX_COMPLAINTS)
			warn("task %u: a message of %zu bytes has a damaged header", task->index,
			     received->bytes);
		return;
	}
	if (header.run_id != options->run_id) {
		counts->stale++;
		return;
	}
	if (header.to_task != task->index || header.from_task >= options->tasks ||
	    rds_address_port(&received->from) != stress_task_port(options, true, header.from_task) ||
	    header.length != (header.kind == STRESS_REQUEST ? options->request_bytes : options->ack_bytes)) {
		counts->corrupted++;
		complain(task, "a message for another task", header.from_task, task->index,
			 header.to_task);
		return;
	}
	if (options->foreign && !number_foreign(task, &header, number, place))
		return;
	counts->bytes_received += received->bytes;
	if (options->verify)
		check_payload(task, &header);
	if (header.kind == STRESS_REQUEST)
		take_request(task, header.from_task, &header, received);
	else
		take_ack(task, header.from_task, &header);
}

static void take_zerocopy(struct task *task, uint32_t place)
{
	struct peer *peer;

	if (place >= task->options->tasks * task->options->depth) {
		task->slot->counts.corrupted++;
		return;
	}
	peer = &task->peers[place / task->options->depth];
	peer->zerocopy_busy[place % task->options->depth] = false;
	/* The limit of locked memory may have been the cause. */
	peer->congested = false;
}

static void take_notifications(struct task *task, const struct rds_received *received)
{
	unsigned int i;

	for (i = 0; received->congestion_cleared && i < task->options->tasks; i++) {
		struct peer *peer = &task->peers[i];

		if (received->congestion_cleared & RDS_CONG_MONITOR_MASK(rds_address_port(&peer->address)))
			peer->congested = false;
	}
	for (i = 0; task->rdma && i < received->rdma_count; i++)
		stress_rdma_completed(task->rdma, &received->rdma[i], &task->slot->counts);
	for (i = 0; i < received->zerocopy_count; i++)
		take_zerocopy(task, received->zerocopy[i]);
}

void stress_receive(struct task *task)
{
	struct rds_received received;
	unsigned int i;
	int error;

	for (i = 0; i < 64; i++) {
		error = rds_socket_receive(task->fd, task->incoming, largest_message(task->options),
					   &received);
		if (error == -EAGAIN || error == -EINTR)
			return;
		if (error)
			die_error(error, "receiving");
		take_notifications(task, &received);
		if (received.has_message)
			take_message(task, &received);
	}
}
