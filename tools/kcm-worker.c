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

#define BATCH 16 /* messages for a system call */

struct worker {
	pthread_t thread;
	uint32_t index;
	int kcm, epoll, cut_fd;
	size_t max_message;
	char *buffers;
	struct mmsghdr messages[BATCH];
	struct iovec pieces[BATCH];
	union kcm_control controls[BATCH];
	struct backlog backlog;
	bool short_of_memory; /* the backlog is to be tried again without an event: KCM promises none */
	struct worker_counts counts;
};

/* Receives messages into the buffers; returns their number, or a negative errno. */
static int receive(struct worker *worker)
{
	int count;

	for (int i = 0; i < BATCH; i++) {
		worker->pieces[i] = (struct iovec){ worker->buffers + i * worker->max_message, worker->max_message };
		worker->messages[i].msg_hdr = (struct msghdr){
			.msg_iov = &worker->pieces[i],
			.msg_iovlen = 1,
			.msg_control = &worker->controls[i],
			.msg_controllen = sizeof(worker->controls[i]),
		};
	}
	count = recvmmsg(worker->kcm, worker->messages, BATCH, MSG_DONTWAIT, NULL);
	return count < 0 ? -errno : count;
}

/* Turns each received request into its answer, addressed to the request's connection. */
static void serve(struct worker *worker, int count)
{
	struct worker_counts *counts = &worker->counts;

	counts->receives++;
	if ((uint64_t)count > counts->most)
		counts->most = (uint64_t)count;
	for (int i = 0; i < count; i++) {
		struct msghdr *message = &worker->messages[i].msg_hdr;
		size_t size = worker->messages[i].msg_len;
		uint64_t connection;

		/* The parser rejects everything else. */
		if (size < FRAME_MIN || message->msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		    !kcm_names(message, &connection))
			die("worker %u: KCM delivered %zu bytes, flags %#x, that are no request", worker->index, size,
			    message->msg_flags);
		counts->requests++;
		counts->request_bytes += size;
		frame_answer(worker->pieces[i].iov_base, size, worker->index);
		worker->pieces[i].iov_len = size;
		kcm_send_to(message, &worker->controls[i], connection);
	}
}

static uint64_t connection_of(const struct msghdr *message)
{
	uint64_t connection = 0;

	if (!kcm_names(message, &connection))
		die("an answer names no connection");
	return connection;
}

/* Queues an answer for later. A client whose queue is full is cut off. */
static void keep(struct worker *worker, const struct msghdr *message)
{
	uint64_t connection = connection_of(message);

	if (backlog_keep(&worker->backlog, connection, message->msg_iov->iov_base, message->msg_iov->iov_len))
		return;
	worker->counts.undeliverable++;
	/* When the pipe is full the next answer tries again. The server may have stopped reading it, to wait for this worker. */
	if (write(worker->cut_fd, &connection, sizeof(connection)) != sizeof(connection) && errno != EAGAIN)
		die("cannot cut off a client: %s", strerror(errno));
}

/* After a failed send: whether the answer is to be sent later. */
static bool no_room(struct worker *worker)
{
	if (errno == ENOMEM)
		worker->short_of_memory = true;
	return errno == EAGAIN || errno == ENOMEM;
}

/* The number of messages from this one on for clients without a backlog. */
static int count_direct(const struct worker *worker, int from, int count)
{
	int to = from;

	while (to < count && !backlog_has(&worker->backlog, connection_of(&worker->messages[to].msg_hdr)))
		to++;
	return to - from;
}

/*
 * Sends the answers, without waiting: a client that does not read delays no other. A call can fail for its own
 * message, whose client is gone, or report an earlier one, which TCP took and then could not deliver; the state
 * of the connection shows which.
 */
static void answer(struct worker *worker, int count)
{
	struct worker_counts *counts = &worker->counts;
	int done = 0;

	while (done < count) {
		struct mmsghdr *first = &worker->messages[done];
		int direct = count_direct(worker, done, count), sent;

		if (!direct) {
			keep(worker, &worker->messages[done++].msg_hdr);
			continue;
		}
		sent = sendmmsg(worker->kcm, first, (unsigned int)direct, MSG_DONTWAIT);
		if (sent >= 0) {
			for (int i = 0; i < sent; i++)
				counts->answer_bytes += first[i].msg_len;
			counts->answers += (uint64_t)sent;
			done += sent;
		} else if (no_room(worker)) {
			keep(worker, &worker->messages[done++].msg_hdr);
		} else if (errno != EINTR && !kcm_is_up(worker->kcm, connection_of(&first->msg_hdr))) {
			counts->undeliverable++;
			done++;
		}
	}
}

static enum backlog_sent send_kept(void *context, uint64_t connection, const void *bytes, size_t size)
{
	struct worker *worker = context;
	union kcm_control control;
	struct iovec piece = { (void *)bytes, size };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	kcm_send_to(&message, &control, connection);
	while (sendmsg(worker->kcm, &message, MSG_DONTWAIT) < 0) {
		if (no_room(worker))
			return BACKLOG_NO_ROOM;
		if (errno != EINTR && !kcm_is_up(worker->kcm, connection))
			return BACKLOG_GONE;
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
 * nothing. recvmmsg() reports an error before the messages that wait, and no event may come for those: KCM gives a full
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
		if (count > 0) {
			serve(worker, count);
			answer(worker, count);
		}
	}
}

struct worker *worker_start(uint32_t index, int kcm, int stop_fd, int cut_fd, size_t max_message)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int error;

	if (!worker || !(worker->buffers = malloc(BATCH * max_message)))
		die("no memory for worker %u", index);
	worker->index = index;
	worker->kcm = kcm;
	worker->cut_fd = cut_fd;
	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (worker->epoll < 0)
		die("epoll: %s", strerror(errno));
	watch(worker, kcm, EPOLLIN | EPOLLOUT | EPOLLET);
	watch(worker, stop_fd, EPOLLIN);
	worker->max_message = max_message;
	error = kcm_set(kcm, KCM_RECV_CONNECTION, 1);
	if (error)
		die("cannot enable KCM_RECV_CONNECTION: %s", strerror(-error));
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
	free(worker->buffers);
	free(worker);
	return counts;
}
