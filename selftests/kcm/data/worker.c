// SPDX-License-Identifier: GPL-2.0
/* Threads that send and receive the messages of a ledger. */
#include "data.h"

#include <arpa/inet.h>
#include <hawser_kcm.h>
#include <sys/uio.h>

#define ROOM (4 * MESSAGE_MAX)
#define BATCH 16

static char *memory(size_t len)
{
	char *buf = malloc(len);

	NEED(buf);
	return buf;
}

static struct random random_of(const struct worker *w)
{
	return (struct random){ data_seed * 1000003 + w->who };
}

/* The error when the connection is over, else 0. */
static int put(int fd, const char *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(fd, buf + done, len - done, MSG_NOSIGNAL);

		if (n <= 0)
			return n ? errno : EPIPE;
		done += n;
	}
	return 0;
}

long peer_writes(void *worker)
{
	struct worker *w = worker;
	struct random r = random_of(w);
	char *buf = memory(ROOM);
	size_t have = 0, part = 0;
	int error = 0;

	for (uint32_t number = 0; number < w->ledger->each || have;) {
		while (number < w->ledger->each && have + MESSAGE_MAX <= ROOM && random_below(&r, 30))
			have += message_write(buf + have, w->ledger->mixed, w->who, number++);
		part = number < w->ledger->each ? random_below(&r, have + 1) : have;
		error = put(w->fd, buf, part);
		if (error)
			break;
		memmove(buf, buf + part, have - part);
		have -= part;
	}
	free(buf);
	return error;
}

/* Enters the whole messages at the start of @buf; returns their size, or -1 when out of frame. */
static ssize_t enter_whole(struct worker *w, const char *buf, size_t have)
{
	size_t done = 0;

	while (have - done >= FRAME_HEADER) {
		uint32_t header;
		size_t len;

		memcpy(&header, buf + done, FRAME_HEADER);
		len = (size_t)ntohl(header) + FRAME_HEADER;
		if (len > MESSAGE_MAX) {
			note("the peer's stream is out of frame");
			return -1;
		}
		if (have - done < len)
			break;
		if (!ledger_enter(w->ledger, w->who, buf + done, len))
			return -1;
		done += len;
	}
	return done;
}

long peer_gets(void *worker)
{
	struct worker *w = worker;
	char *buf = memory(ROOM);
	size_t have = 0;
	ssize_t n = -1;

	while (!ledger_over(w->ledger)) {
		ssize_t done;

		if (!polled(w->fd, POLLIN, 100))
			continue;
		n = recv(w->fd, buf + have, ROOM - have, MSG_DONTWAIT);
		if (n <= 0)
			break;
		have += n;
		done = enter_whole(w, buf, have);
		if (done < 0) {
			__atomic_add_fetch(&w->ledger->broken, 1, __ATOMIC_RELAXED);
			break;
		}
		memmove(buf, buf + done, have - done);
		have -= done;
	}
	free(buf);
	return n == 0 ? have : 0;
}

/* A batch of messages by sendmmsg(); returns the number accepted. */
static uint32_t send_batch(struct worker *w, char *buf, uint32_t number, uint32_t batch)
{
	struct mmsghdr m[BATCH] = { 0 };
	struct iovec io[BATCH];
	int sent;

	for (uint32_t i = 0; i < batch; i++) {
		size_t len = message_write(buf, w->ledger->mixed, w->who, number + i);

		io[i] = (struct iovec){ buf, len };
		m[i].msg_hdr.msg_iov = &io[i];
		m[i].msg_hdr.msg_iovlen = 1;
		buf += len;
	}
	sent = sendmmsg(w->fd, m, batch, MSG_EOR);
	return sent < 0 ? 0 : sent;
}

/* One message: at once, from two buffers, or in two calls. */
static bool send_one(struct worker *w, char *buf, uint32_t number, struct random *r)
{
	size_t len = message_write(buf, w->ledger->mixed, w->who, number), part = 1 + random_below(r, len - 1);
	struct iovec io[2] = { { buf, part }, { buf + part, len - part } };

	switch (random_below(r, 3)) {
	case 0:
		return send(w->fd, buf, len, MSG_EOR) == (ssize_t)len;
	case 1:
		return writev(w->fd, io, 2) == (ssize_t)len;
	default:
		return send(w->fd, buf, part, MSG_MORE) == (ssize_t)part &&
		       send(w->fd, buf + part, len - part, MSG_EOR) == (ssize_t)(len - part);
	}
}

long kcm_writes(void *worker)
{
	struct worker *w = worker;
	struct random r = random_of(w);
	char *buf = memory((size_t)BATCH * MESSAGE_LARGEST);
	uint32_t number = 0;

	while (number < w->ledger->each && !ledger_over(w->ledger)) {
		uint32_t batch = 1 + random_below(&r, BATCH);

		uint32_t sent;

		if (batch > w->ledger->each - number || random_below(&r, 2))
			sent = send_one(w, buf, number, &r);
		else
			sent = send_batch(w, buf, number, batch);
		if (!sent) {
			note("stream %u: message %u cannot be sent (%s)", w->who, number, strerror(errno));
			break;
		}
		number += sent;
	}
	free(buf);
	return 0;
}

/* The message's receiver in the ledger. */
static uint32_t receiver_of(struct worker *w, struct control *control)
{
	struct kcm_connection *from;
	uint32_t i = 0;

	if (!w->connections)
		return w->who;
	from = control_find(control, SOL_KCM, KCM_CONNECTION, sizeof(*from));
	NEED(from);
	while (i < w->connection_count && w->connections[i] != from->id)
		i++;
	NEED(i < w->connection_count);
	return w->who * w->connection_count + i;
}

long kcm_reads(void *worker)
{
	struct worker *w = worker;
	char *buf = memory(MESSAGE_LARGEST + 1);

	while (!ledger_over(w->ledger)) {
		struct control control;
		ssize_t n;

		if (!polled(w->fd, POLLIN, 100))
			continue;
		n = recv_control(w->fd, buf, MESSAGE_LARGEST + 1, &control, MSG_DONTWAIT, NULL);
		/* It may have moved to another socket. The end of the last connection is reported once; the ledger checks. */
		if (n >= 0)
			ledger_enter(w->ledger, receiver_of(w, &control), buf, n);
		else
			NEED(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	}
	free(buf);
	return 0;
}

void workers_start(struct worker *w, size_t count, long (*work)(void *worker))
{
	for (size_t i = 0; i < count; i++)
		task_start(&w[i].task, work, &w[i]);
}

void workers_join(struct worker *w, size_t count)
{
	for (size_t i = 0; i < count; i++)
		task_join(&w[i].task);
}
