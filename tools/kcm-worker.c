// SPDX-License-Identifier: GPL-2.0
#include "kcm-worker.h"

#include "kcm-frame.h"
#include "kcm-socket.h"
#include "program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 16 /* messages for a system call */

struct worker {
	pthread_t thread;
	uint32_t index;
	int kcm, stop_fd;
	size_t max_message;
	char *buffers;
	struct mmsghdr messages[BATCH];
	struct iovec pieces[BATCH];
	union kcm_control controls[BATCH];
	struct worker_counts counts;
};

/* The next messages into the buffers; how many, or a negative errno. */
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

/* Makes each request that was received into its answer, which is addressed to where the request came from. */
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

		/* The parser lets nothing else pass. */
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

/*
 * Sends the answers. A call can fail for its own message, whose client is gone, or tell of one before, which TCP took
 * and then could not deliver; whether the connection stands says which it is.
 */
static void answer(struct worker *worker, int count)
{
	struct worker_counts *counts = &worker->counts;
	int done = 0;

	while (done < count) {
		int sent = sendmmsg(worker->kcm, worker->messages + done, (unsigned int)(count - done), 0);
		uint64_t connection = 0;

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent >= 0) {
			for (int i = done; i < done + sent; i++)
				counts->answer_bytes += worker->messages[i].msg_len;
			counts->answers += (uint64_t)sent;
			done += sent;
		} else if (kcm_names(&worker->messages[done].msg_hdr, &connection) &&
			   !kcm_is_up(worker->kcm, connection)) {
			counts->undeliverable++;
			done++;
		}
	}
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct pollfd fds[] = { { .fd = worker->kcm, .events = POLLIN }, { .fd = worker->stop_fd, .events = POLLIN } };

	for (;;) {
		int count;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		if (fds[1].revents)
			return NULL;
		/* An error is news of a connection, which the server looks after; this socket goes on. */
		count = receive(worker);
		if (count > 0) {
			serve(worker, count);
			answer(worker, count);
		}
	}
}

struct worker *worker_start(uint32_t index, int kcm, int stop_fd, size_t max_message)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int error;

	if (!worker || !(worker->buffers = malloc(BATCH * max_message)))
		die("no memory for worker %u", index);
	worker->index = index;
	worker->kcm = kcm;
	worker->stop_fd = stop_fd;
	worker->max_message = max_message;
	error = kcm_set(kcm, KCM_RECV_CONNECTION, 1);
	if (error)
		die("cannot ask KCM where messages come from: %s", strerror(-error));
	error = pthread_create(&worker->thread, NULL, work, worker);
	if (error)
		die("cannot start worker %u: %s", index, strerror(error));
	return worker;
}

struct worker_counts worker_join(struct worker *worker)
{
	struct worker_counts counts;

	pthread_join(worker->thread, NULL);
	counts = worker->counts;
	close(worker->kcm);
	free(worker->buffers);
	free(worker);
	return counts;
}
