// SPDX-License-Identifier: GPL-2.0
#include "kcm-worker.h"

#include "kcm-backlog.h"
#include "kcm-frame.h"
#include "kcm-socket.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 16 /* messages of the largest size for which a call has room */

struct worker {
	pthread_t thread;
	uint32_t index;
	int kcm, epoll, cut_fd;
	size_t room; /* of bytes */
	char *bytes;
	struct kcm_runs runs; /* requests that were received together */
	struct backlog backlog;
	bool short_of_memory; /* the backlog is to be tried again without an event: KCM promises none */
	struct worker_counts counts;
};

/* Receives as many requests as have come, or have room; returns their number, or a negative errno. */
static int receive(struct worker *worker)
{
	struct worker_counts *counts = &worker->counts;
	int count = kcm_receive(worker->kcm, worker->bytes, worker->room, &worker->runs);

	if (count <= 0)
		return count;
	counts->receives++;
	if ((uint64_t)count > counts->most)
		counts->most = (uint64_t)count;
	return count;
}

/* Turns each request into its answer, which has the same length. */
static void serve(struct worker *worker, struct kcm_run *run)
{
	char *at = run->bytes;

	for (uint32_t i = 0; i < run->count; at += run->lengths[i++]) {
		/* The parser rejects everything else. */
		if (run->lengths[i] < FRAME_MIN)
			die("worker %u: KCM delivered %u bytes, which are no request", worker->index, run->lengths[i]);
		worker->counts.requests++;
		worker->counts.request_bytes += run->lengths[i];
		frame_answer(at, run->lengths[i], worker->index);
	}
}

/* When the pipe is full the next event tries again. The server may have stopped reading it, to wait for this worker. */
static void cut(struct worker *worker, uint64_t connection)
{
	if (write(worker->cut_fd, &connection, sizeof(connection)) != sizeof(connection) && errno != EAGAIN)
		die("cannot cut off a client: %s", strerror(errno));
}

/* Queues the first answer of a run for later. That may be too much for its client or for all, then one is cut off. */
static void keep(struct worker *worker, struct kcm_run *run)
{
	uint64_t connection;
	uint64_t dropped = backlog_keep(&worker->backlog, run->connection, run->bytes, run->lengths[0], &connection);

	kcm_run_advance(run, run->lengths[0]);
	worker->counts.undeliverable += dropped;
	if (dropped)
		cut(worker, connection);
}

/* After a failed send: whether the answer is to be sent later. */
static bool no_room(struct worker *worker)
{
	bool memory = errno == ENOMEM || errno == ENOBUFS; /* the latter for control messages */

	worker->short_of_memory |= memory;
	return memory || errno == EAGAIN;
}

enum next { AT_ONCE, LATER, NEVER };

/*
 * After a failed send: when the answer is to be sent again. A call can fail for its first message, whose client is gone, or
 * report an earlier one, which TCP took and then could not deliver; the state of the connection shows which.
 */
static enum next after_failure(struct worker *worker, uint64_t connection)
{
	int up;

	if (no_room(worker))
		return LATER;
	if (errno == EINTR)
		return AT_ONCE;
	up = kcm_is_up(worker->kcm, connection);
	if (up < 0) {
		worker->short_of_memory = true;
		return LATER;
	}
	return up ? AT_ONCE : NEVER;
}

/* Sends the answers of a run, without waiting: a client that does not read delays no other. */
static void answer(struct worker *worker, struct kcm_run *run)
{
	struct worker_counts *counts = &worker->counts;

	while (run->count) {
		enum next next;
		ssize_t sent;

		if (backlog_has(&worker->backlog, run->connection)) {
			keep(worker, run);
			continue;
		}
		sent = kcm_send(worker->kcm, run);
		if (sent >= 0) {
			counts->answers += kcm_run_advance(run, (size_t)sent);
			counts->answer_bytes += (size_t)sent;
			continue;
		}
		next = after_failure(worker, run->connection);
		if (next == LATER) {
			keep(worker, run);
		} else if (next == NEVER) {
			counts->undeliverable++;
			kcm_run_advance(run, run->lengths[0]);
		}
	}
}

static enum backlog_sent send_kept(void *context, uint64_t connection, const void *bytes, size_t size)
{
	struct worker *worker = context;
	uint32_t length = (uint32_t)size;
	const struct kcm_run run = { connection, (char *)bytes, &length, 1 };

	if (!bytes) {
		if (!kcm_is_up(worker->kcm, connection))
			return BACKLOG_GONE;
		cut(worker, connection);
		return BACKLOG_NO_ROOM;
	}
	while (kcm_send(worker->kcm, &run) < 0) {
		enum next next = after_failure(worker, connection);

		if (next != AT_ONCE)
			return next == LATER ? BACKLOG_NO_ROOM : BACKLOG_GONE;
	}
	worker->counts.answers++;
	worker->counts.answer_bytes += size;
	return BACKLOG_SENT;
}

/* KCM signals POLLOUT again when a refused client has room, although others always had room. */
static void watch(struct worker *worker, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
}

/*
 * How long to wait for the next event, in milliseconds. Edge-triggered: without a limit only after a receive that found
 * nothing. A call reports an error before the messages that wait, and no event may come for those: KCM gives a full
 * socket no further message.
 */
static int time_to_wait(const struct worker *worker, int received)
{
	if (received > 0)
		return 0;
	if (received != -EAGAIN)
		return 1;
	return worker->short_of_memory ? 10 : -1;
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct epoll_event events[2];
	int count = -EAGAIN, ready;

	for (;;) {
		ready = epoll_wait(worker->epoll, events, 2, time_to_wait(worker, count));
		if (ready < 0 && errno != EINTR)
			die("epoll: %s", strerror(errno));
		for (int i = 0; i < ready; i++)
			if (events[i].data.fd != worker->kcm)
				return NULL;
		if (ready > 0 || worker->short_of_memory) {
			worker->short_of_memory = false;
			worker->counts.undeliverable += backlog_flush(&worker->backlog, send_kept, worker);
		}
		/* An error is about a connection, which the server handles; this socket continues. */
		count = receive(worker);
		for (uint32_t i = 0; count > 0 && i < worker->runs.count; i++) {
			serve(worker, &worker->runs.run[i]);
			answer(worker, &worker->runs.run[i]);
		}
	}
}

struct worker *worker_start(uint32_t index, int kcm, int stop_fd, int cut_fd, size_t max_message, size_t backlog)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int error;

	if (!worker || !(worker->bytes = malloc(BATCH * max_message)))
		die("no memory for worker %u", index);
	worker->room = BATCH * max_message;
	worker->backlog.limit = backlog;
	worker->index = index;
	worker->kcm = kcm;
	worker->cut_fd = cut_fd;
	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (worker->epoll < 0)
		die("epoll: %s", strerror(errno));
	watch(worker, kcm, EPOLLIN | EPOLLOUT | EPOLLET);
	watch(worker, stop_fd, EPOLLIN);
	error = kcm_set(kcm, KCM_RECV_CONNECTION, 1);
	if (!error)
		error = kcm_set(kcm, KCM_RECV_LENGTHS, 1);
	if (error == -ENOPROTOOPT)
		die("the module kcm is older than this program; 'rds-info --version' shows both versions");
	if (error)
		die("KCM does not report the connections and lengths of messages: %s", strerror(-error));
	error = pthread_create(&worker->thread, NULL, work, worker);
	if (error)
		die("cannot start worker %u: %s", index, strerror(error));
	return worker;
}

struct worker_counts worker_join(struct worker *worker)
{
	struct worker_counts counts;

	pthread_join(worker->thread, NULL);
	worker->counts.undeliverable += backlog_drop(&worker->backlog);
	counts = worker->counts;
	close(worker->epoll);
	close(worker->kcm);
	free(worker->bytes);
	free(worker);
	return counts;
}
