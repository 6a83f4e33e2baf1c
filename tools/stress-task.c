// SPDX-License-Identifier: GPL-2.0
/*
 * A task of rds-stress: a process with one RDS socket that keeps requests outstanding to every task of the
 * other side, and acknowledges theirs. Both must arrive in order: RDS guarantees it between
 * two sockets.
 */
#include "stress-exchange.h"

#include "program.h"
#include "stress-rdma.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Maximum delay until a command of the parent is noticed. */
#define TICK_MS 50

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		die("out of memory");
	return memory;
}

/* The buffers have room for all outstanding requests and acknowledgements in both directions, if the system
 * permits. */
static unsigned int buffer_bytes(const struct stress_options *options)
{
	uint64_t bytes = options->tasks * options->depth * (options->request_bytes + options->ack_bytes) * 2;

	return bytes < INT32_MAX / 2 ? (unsigned int)bytes : INT32_MAX / 2;
}

static void open_socket(struct task *task)
{
	const struct stress_options *options = task->options;
	const struct rds_socket_options wanted = {
		.transport = (int)options->transport - 1,
		.tos = (unsigned int)options->tos,
		.buffer_bytes = buffer_bytes(options),
		.congestion_monitor = options->congestion_monitor,
		.zerocopy = options->zerocopy,
	};
	union rds_address local = options->local;
	char text[RDS_ADDRESS_TEXT_SIZE];
	const char *step;

	rds_address_set_port(&local, stress_task_port(options, false, task->index));
	task->fd = rds_socket_open(&wanted, &local, &step);
	if (task->fd < 0)
		die_error(task->fd, "%s (address %s port %u)", step, rds_address_format(&local, text),
			  rds_address_port(&local));
}

static void set_up(struct task *task)
{
	const struct stress_options *options = task->options;
	size_t places = options->tasks * options->depth;
	unsigned int i;

	open_socket(task);
	task->peers = allocate(options->tasks, sizeof(*task->peers));
	for (i = 0; i < options->tasks; i++) {
		struct peer *peer = &task->peers[i];

		peer->address = options->remote;
		rds_address_set_port(&peer->address, stress_task_port(options, true, i));
		peer->owed = allocate(options->depth, sizeof(*peer->owed));
		peer->zerocopy_busy = allocate(options->depth, sizeof(*peer->zerocopy_busy));
		peer->foreign_sent_ns = allocate(options->depth, sizeof(*peer->foreign_sent_ns));
	}
	task->incoming = allocate(1, largest_message(options));
	task->outgoing = allocate(options->zerocopy ? places + 1 : 1, largest_message(options));
	if (options->rdma_bytes)
		task->rdma = stress_rdma_create(options, task->fd);
}

static bool nothing_missing(const struct task *task)
{
	unsigned int i, place;

	if (task->rdma && stress_rdma_busy(task->rdma))
		return false;
	for (i = 0; i < task->options->tasks; i++) {
		const struct peer *peer = &task->peers[i];

		if (peer->next_ack != peer->next_request || peer->owed_first != peer->owed_end)
			return false;
		for (place = 0; place < task->options->depth; place++) {
			if (peer->zerocopy_busy[place])
				return false;
		}
	}
	return true;
}

static void count_missing(struct task *task)
{
	unsigned int i;

	/* The active one ends without a word, and acknowledges nothing any more. */
	if (task->options->foreign && !task->options->active)
		return;
	for (i = 0; i < task->options->tasks; i++) {
		const struct peer *peer = &task->peers[i];
		uint64_t missing = peer->next_request - peer->next_ack;

		if (!missing)
			continue;
		task->slot->counts.lost += missing;
		if (task->complaints++ < STRESS_MAX_COMPLAINTS)
			warn("task %u: %" PRIu64 " requests to task %u were never acknowledged", task->index,
			     missing, i);
	}
}

static void wait_for_something(struct task *task)
{
	struct pollfd polled = { .fd = task->fd, .events = POLLIN };
	unsigned int i;

	if (task->blocked)
		polled.events |= POLLOUT;
	task->blocked = false;
	if (poll(&polled, 1, TICK_MS) < 0 && errno != EINTR)
		die_error(errno, "waiting");
	/* Without the monitor, any congestion change wakes poll, without details. */
	if (!task->options->congestion_monitor && polled.revents & POLLIN) {
		for (i = 0; i < task->options->tasks; i++)
			task->peers[i].congested = false;
	}
}

static void set_state(struct task *task, enum stress_task_state state)
{
	__atomic_store_n(&task->slot->state, state, __ATOMIC_RELEASE);
}

_Noreturn void stress_task(const struct stress_options *options, struct stress_shared *shared,
			   unsigned int index)
{
	struct task task = {
		.options = options,
		.shared = shared,
		.slot = &shared->tasks[index],
		.index = index,
	};
	int command;

	/* The parent decides when to stop; end without a parent. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_up(&task);
	set_state(&task, STRESS_TASK_READY);
	do {
		wait_for_something(&task);
		stress_receive(&task);
		stress_send(&task);
		command = __atomic_load_n(&shared->command, __ATOMIC_ACQUIRE);
		if (command == STRESS_DRAIN && nothing_missing(&task))
			set_state(&task, STRESS_TASK_DRAINED);
	} while (command != STRESS_EXIT);
	count_missing(&task);
	if (task.rdma)
		stress_rdma_end(task.rdma, &task.slot->counts);
	/* exit() would flush output that the parent had buffered at fork(). */
	_exit(EXIT_GOOD);
}
