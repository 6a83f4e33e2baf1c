// SPDX-License-Identifier: GPL-2.0
/*
 * A worker of a client with KCM. A request goes to any free connection, and the answer to any free worker:
 * workers do not see the connections, and share all outstanding requests.
 */
#include "kcm-asker.h"
#include "kcm-frame.h"
#include "program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct buffers {
	char *out, *in, *scratch;
	size_t pending; /* size of the request that waits for room in the send buffer */
};

static void send_requests(struct asker *asker, struct buffers *b)
{
	while (b->pending || (b->pending = ledger_next(asker->ledger, b->out))) {
		if (send(asker->fd, b->out, b->pending, MSG_DONTWAIT) < 0) {
			if (errno != EAGAIN && errno != EINTR)
				asker_fails(asker, "sending", errno);
			return;
		}
		b->pending = 0;
		asker->requests++;
	}
}

static void receive_answers(struct asker *asker, struct buffers *b)
{
	for (;;) {
		ssize_t size = recv(asker->fd, b->in, asker->ledger->plan.max_size, MSG_DONTWAIT);

		if (size < 0) {
			if (errno != EAGAIN && errno != EINTR)
				asker_fails(asker, "receiving", errno);
			return;
		}
		/* The parser rejects shorter frames. */
		ledger_enter(asker->ledger, b->in, (size_t)size, b->scratch);
		asker->answers++;
	}
}

void *ask_over_kcm(void *context)
{
	struct asker *asker = context;
	size_t room = asker->ledger->plan.max_size;
	struct buffers b = { .out = malloc(room), .in = malloc(room), .scratch = malloc(room) };
	const uint64_t one = 1;

	if (!b.out || !b.in || !b.scratch)
		die("no memory for a worker");
	while (!asker->failure && !ledger_is_done(asker->ledger)) {
		struct pollfd fds[] = { { .fd = asker->fd, .events = POLLIN }, { .fd = asker->stop_fd, .events = POLLIN } };

		send_requests(asker, &b);
		if (b.pending)
			fds[0].events |= POLLOUT;
		/* A second, because others may receive this one's answers. */
		poll(fds, 2, 1000);
		if (fds[1].revents)
			break;
		if (fds[0].revents)
			receive_answers(asker, &b);
		else if (now_ns() - ledger_last_answer(asker->ledger) > asker->timeout_ns)
			asker_fails(asker, "no answer for too long", 0);
	}
	if (write(asker->stop_fd, &one, sizeof(one)) != sizeof(one))
		die("cannot stop the other workers: %s", strerror(errno));
	free(b.out);
	free(b.in);
	free(b.scratch);
	return NULL;
}
