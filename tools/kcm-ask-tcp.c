// SPDX-License-Identifier: GPL-2.0
/* A client without KCM: requests are sent in sequence, and the stream of answers is split here. */
#include "kcm-asker.h"
#include "kcm-frame.h"
#include "program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Both hold more than one message of the largest size, so that a call mostly carries several. */
struct stream {
	char *out, *in, *scratch;
	size_t room;
	size_t out_begin, out_end, in_end;
};

static void write_requests(struct asker *asker, struct stream *s)
{
	size_t size;
	ssize_t sent;

	if (s->out_begin == s->out_end)
		s->out_begin = s->out_end = 0;
	while (s->room - s->out_end >= asker->ledger->plan.max_size &&
	       (size = ledger_next(asker->ledger, s->out + s->out_end))) {
		s->out_end += size;
		asker->requests++;
	}
	if (s->out_begin == s->out_end)
		return;
	sent = send(asker->fd, s->out + s->out_begin, s->out_end - s->out_begin, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent >= 0)
		s->out_begin += (size_t)sent;
	else if (errno != EAGAIN && errno != EINTR)
		asker_fails(asker, "sending", errno);
}

static void read_answers(struct asker *asker, struct stream *s)
{
	ssize_t received = recv(asker->fd, s->in + s->in_end, s->room - s->in_end, MSG_DONTWAIT);
	size_t at = 0;

	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (received <= 0) {
		asker_fails(asker, received ? "receiving" : "the server closed the connection", received ? errno : 0);
		return;
	}
	s->in_end += (size_t)received;
	while (s->in_end - at >= FRAME_MIN) {
		struct frame_head head;
		uint64_t size;

		memcpy(&head, s->in + at, sizeof(head));
		size = frame_size(&head);
		if (size < FRAME_MIN || size > asker->ledger->plan.max_size) {
			asker_fails(asker, "the stream of answers has an invalid frame", 0);
			return;
		}
		if (s->in_end - at < size)
			break;
		ledger_enter(asker->ledger, s->in + at, size, s->scratch);
		asker->answers++;
		at += size;
	}
	memmove(s->in, s->in + at, s->in_end - at);
	s->in_end -= at;
}

void *ask_over_tcp(void *context)
{
	struct asker *asker = context;
	size_t room = 2 * asker->ledger->plan.max_size;
	struct stream s = { .out = malloc(room), .in = malloc(room), .scratch = malloc(room), .room = room };

	if (!s.out || !s.in || !s.scratch)
		die("no memory for a connection");
	while (!asker->failure && !ledger_is_done(asker->ledger)) {
		struct pollfd fd = { .fd = asker->fd, .events = POLLIN };

		write_requests(asker, &s);
		if (s.out_begin < s.out_end)
			fd.events |= POLLOUT;
		/* A second, because the time for requests may end with none outstanding. */
		poll(&fd, 1, 1000);
		if (fd.revents & ~POLLOUT)
			read_answers(asker, &s);
		else if (!fd.revents && now_ns() - ledger_last_answer(asker->ledger) > asker->timeout_ns)
			asker_fails(asker, "no answer for too long", 0);
	}
	free(s.out);
	free(s.in);
	free(s.scratch);
	return NULL;
}
