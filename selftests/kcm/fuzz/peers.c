// SPDX-License-Identifier: GPL-2.0
/* The far ends of connections: the wild ones are shared, a polite one belongs to one thread. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <pthread.h>

/* ---- wild */

static void write_frames(struct caller *c, int fd)
{
	struct frame f;

	for (int i = 1 + pick(c, 6); i > 0; i--) {
		frame_make(c, &f, BY_PEER, FRAME_MOST);
		frame_copy(&f, c->inbox);
		CALL(c, K_PEER_WRITE, send(fd, c->inbox, f.size, MSG_DONTWAIT | MSG_NOSIGNAL));
	}
}

/* A part of a frame, an invalid length, or random bytes. */
static void write_nonsense(struct caller *c, int fd)
{
	uint32_t length = htonl(any_number(c));
	struct frame f;

	switch (pick(c, 4)) {
	case 0:
		frame_make(c, &f, BY_PEER, FRAME_MOST);
		frame_copy(&f, c->inbox);
		CALL(c, K_PEER_NONSENSE, send(fd, c->inbox, pick(c, f.size), MSG_DONTWAIT | MSG_NOSIGNAL));
		return;
	case 1:
		CALL(c, K_PEER_NONSENSE, send(fd, &length, 1 + pick(c, 4), MSG_DONTWAIT | MSG_NOSIGNAL));
		return;
	case 2:
		CALL(c, K_PEER_NONSENSE, send(fd, c->scratch, 1 + pick(c, 10), MSG_DONTWAIT | MSG_NOSIGNAL | MSG_OOB));
		return;
	default:
		for (size_t i = 0; i < 200; i++)
			c->inbox[i] = chance(c, 3) ? (char)random_next(&c->random) : 0;
		CALL(c, K_PEER_NONSENSE, send(fd, c->inbox, pick(c, 200), MSG_DONTWAIT | MSG_NOSIGNAL));
	}
}

static void end(struct caller *c, int fd)
{
	struct linger at_once = { .l_onoff = 1 };

	if (chance(c, 2)) {
		CALL(c, K_PEER_END, shutdown(fd, SHUT_WR));
		return;
	}
	if (chance(c, 2))
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	CALL(c, K_PEER_END, close(fd));
}

void call_peer(struct caller *c)
{
	int fd = some(c, FAR);

	switch (pick(c, 16)) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		return write_frames(c, fd);
	case 5:
	case 6:
		return write_nonsense(c, fd);
	case 7:
		return end(c, fd);
	default:
		for (int i = 1 + pick(c, 6); i > 0; i--)
			CALL(c, K_PEER_READ, recv(fd, c->inbox, any_size(c, LARGEST), MSG_DONTWAIT));
	}
}

/* ---- polite */

#define LINKS 3

/* Either direction may be in the middle of a frame. */
struct polite {
	int fd;
	char out[2 * FRAME_MOST], in[FRAME_MOST];
	size_t out_size, out_done, in_size;
	bool fin_sent;
	bool was_reset; /* a socket reports that once; then reading finds an end */
};

static void renew(struct caller *c, struct polite *p)
{
	struct linger at_once = { .l_onoff = chance(c, 2) };
	struct link l = make_link(c, HERE);

	if (p->fd >= 0) {
		setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		CALL(c, K_PEER_END, close(p->fd));
	}
	*p = (struct polite){ .fd = l.far };
	into(c, POLITE_NEAR, l.near);
}

/* As much as TCP takes, sometimes less, so that writes end anywhere in a frame. */
static void say(struct caller *c, struct polite *p)
{
	size_t left = p->out_size - p->out_done;
	struct frame f;
	ssize_t n;

	if (p->fin_sent)
		return;
	if (!left) {
		p->out_done = 0;
		p->out_size = 0;
		for (int i = 1 + pick(c, 8); i > 0 && p->out_size <= FRAME_MOST; i--) {
			frame_make(c, &f, BY_PEER, chance(c, 4) ? FRAME_MOST : 2000);
			p->out_size += frame_copy(&f, p->out + p->out_size);
		}
		left = p->out_size;
	}
	if (chance(c, 4))
		left = 1 + pick(c, left);
	n = CALL(c, K_PEER_WRITE, send(p->fd, p->out + p->out_done, left, MSG_DONTWAIT | MSG_NOSIGNAL));
	if (n > 0)
		p->out_done += n;
	else if (n < 0 && errno != EAGAIN)
		p->was_reset = true;
}

/* Checks and removes whole frames at the start of the input. False: invalid data. */
static bool take_frames(struct caller *c, struct polite *p)
{
	size_t at = 0;

	while (p->in_size - at >= FRAME_LEAST) {
		size_t length = frame_length(p->in + at, p->in_size - at, BY_KCM);

		if (length < FRAME_LEAST || length > FRAME_MOST)
			return false;
		if (p->in_size - at < length)
			break;
		if (!frame_check(p->in + at, length, BY_KCM, true))
			return false;
		seen(c, K_GOT_SENT);
		at += length;
	}
	memmove(p->in, p->in + at, p->in_size - at);
	p->in_size -= at;
	return true;
}

/* A stream may be reset anywhere, but it does not end within a message. */
static void hear(struct caller *c, struct polite *p)
{
	ssize_t n;

	do {
		n = CALL(c, K_PEER_READ, recv(p->fd, p->in + p->in_size, sizeof(p->in) - p->in_size, MSG_DONTWAIT));
		if (n < 0 && errno == EAGAIN)
			return;
		if (n == 0 && p->in_size && !p->was_reset)
			wrong(c, "stream that ends within a message, after bytes", p->in_size, 0);
		if (n > 0) {
			p->in_size += n;
			if (take_frames(c, p))
				continue;
			wrong(c, "no frame at a peer", ntohl(*(uint32_t *)p->in), p->in_size);
		}
		return renew(c, p);
	} while (!chance(c, 16));
}

static void one_step(struct caller *c, struct polite *p)
{
	switch (pick(c, 64)) {
	case 0:
		return renew(c, p);
	case 1: /* it still receives */
		if (!chance(c, 4))
			return;
		p->fin_sent = true;
		CALL(c, K_PEER_END, shutdown(p->fd, SHUT_WR));
		return;
	case 2 ... 31:
		return say(c, p);
	default:
		return hear(c, p);
	}
}

void polite_peers(struct caller *c)
{
	struct polite *all = calloc(LINKS, sizeof(*all));

	NEED(all);
	for (int i = 0; i < LINKS; i++) {
		all[i].fd = -1;
		renew(c, &all[i]);
	}
	while (!over()) {
		one_step(c, &all[pick(c, LINKS)]);
		if (chance(c, 8))
			nap_us(pick(c, 4000));
	}
	for (int i = 0; i < LINKS; i++)
		close(all[i].fd);
	free(all);
}
