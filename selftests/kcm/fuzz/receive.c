// SPDX-License-Identifier: GPL-2.0
/* recvmsg, recvmmsg and other calls that read from a socket; messages of the polite world are checked. */
#include "fuzz.h"

#include <fcntl.h>

/* Of calls that return none. */
#define NO_FLAGS (-1)

/* The result of a call. */
struct got {
	const char *data;
	size_t size;
	int flags;
	bool peeked;
};

/* A datagram is a frame from its first byte, whole without MSG_TRUNC. */
static bool datagram_is_right(struct caller *c, const struct got *g)
{
	size_t length = frame_length(g->data, g->size, BY_PEER);

	if (g->flags & MSG_TRUNC)
		seen(c, K_GOT_CUT);
	if (g->size < FRAME_LEAST)
		return g->flags & MSG_TRUNC;
	if (!(g->flags & MSG_EOR) || (length > g->size) != !!(g->flags & MSG_TRUNC))
		return false;
	seen(c, K_GOT_WHOLE);
	return frame_check(g->data, g->size, BY_PEER, !g->peeked);
}

/* Another call may have read the beginning, or may read the end. */
static bool piece_is_right(struct caller *c, const struct got *g)
{
	size_t length = frame_length(g->data, g->size, BY_PEER);

	if (!length) {
		seen(c, K_GOT_PIECE);
		return piece_check(g->data, g->size);
	}
	if (g->flags != NO_FLAGS && (length == g->size) != !!(g->flags & MSG_EOR))
		return false;
	seen(c, length == g->size ? K_GOT_WHOLE : K_GOT_PIECE);
	return frame_check(g->data, g->size, BY_PEER, !g->peeked);
}

static void look(struct caller *c, struct shared s, const struct got *g)
{
	bool right = !s.polite || (s.pool == DGRAM ? datagram_is_right(c, g) : piece_is_right(c, g));
	uint32_t first[3] = { 0 };

	if (right)
		return;
	memcpy(first, g->data, g->size < sizeof(first) ? g->size : sizeof(first));
	if (!c->wrong)
		note("%zu bytes with flags %#x%s begin with %08x %08x %08x", g->size, g->flags, g->peeked ? " (peeked)" : "",
		     first[0], first[1], first[2]);
	wrong(c, s.pool == DGRAM ? "damaged datagram" : "damaged message", g->size, 0);
}

/* Checks the result of a call with @room bytes of the inbox. */
static void check_data(struct caller *c, struct shared s, ssize_t n, size_t room, int flags, bool peeked)
{
	check_canary(c, room);
	if (n > (ssize_t)room)
		wrong(c, "bytes received", n, room);
	else if (n >= 0)
		look(c, s, &(struct got){ c->inbox, n, flags, peeked });
}

static void check_control(struct caller *c, struct msghdr *msg, size_t room, size_t got)
{
	struct kcm_connection from;
	size_t sum = 0;

	if (msg->msg_controllen > room)
		wrong(c, "control data", msg->msg_controllen, room);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		const uint32_t *lengths = (void *)CMSG_DATA(h);
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(*lengths);

		if (h->cmsg_level != SOL_KCM || (h->cmsg_type != KCM_CONNECTION && h->cmsg_type != KCM_LENGTHS)) {
			wrong(c, "type of a control message", h->cmsg_type, KCM_CONNECTION);
		} else if (h->cmsg_type == KCM_LENGTHS) {
			for (size_t i = 0; i < count; i++)
				sum += lengths[i];
			if (sum > got)
				wrong(c, "sum of lengths", sum, got);
			if (count > 1)
				seen(c, K_GOT_LENGTHS);
		} else if (h->cmsg_len >= CMSG_LEN(sizeof(from))) {
			memcpy(&from, CMSG_DATA(h), sizeof(from));
			seen(c, K_GOT_CONNECTION);
		}
	}
}

/* recvmsg with pieces of a buffer and any room for control data. True if it received. */
static bool message(struct caller *c, struct shared s, int kind, int flags)
{
	char control[512] __attribute__((aligned(8)));
	size_t room = make_room(c), control_room = pick(c, chance(c, 2) ? 128 : sizeof(control)), first = pick(c, room + 1);
	struct iovec pieces[2] = { { c->inbox, first }, { c->inbox + first, room - first } };
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = 2, .msg_control = control, .msg_controllen = control_room };
	ssize_t got = CALL(c, kind, recvmsg(s.fd, &msg, flags));

	check_data(c, s, got, room, msg.msg_flags, flags & MSG_PEEK);
	if (got >= 0)
		check_control(c, &msg, control_room, (size_t)got);
	return got >= 0;
}

/* Several messages in one call. A reader of the polite world expects one. */
static void many(struct caller *c, struct shared s)
{
	if (!s.polite)
		set_int(s.fd, SOL_KCM, KCM_RECV_LENGTHS, 1);
	for (int i = 5; i > 0 && message(c, s, K_RECVMSG, MSG_DONTWAIT); i--)
		;
}

#define EACH 60000

static void several(struct caller *c, struct shared s)
{
	struct mmsghdr all[5];
	struct iovec pieces[ARRAY_SIZE(all)];
	struct timespec soon = { 0, pick(c, 3000000) };
	int count;

	memset(all, 0, sizeof(all));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		pieces[i] = (struct iovec){ c->inbox + i * EACH, chance(c, 4) ? any_size(c, EACH) : EACH };
		all[i].msg_hdr.msg_iov = &pieces[i];
		all[i].msg_hdr.msg_iovlen = 1;
	}
	count = CALL(c, K_RECVMMSG, recvmmsg(s.fd, all, 1 + pick(c, ARRAY_SIZE(all)),
					     chance(c, 2) ? MSG_DONTWAIT : MSG_WAITFORONE, chance(c, 2) ? &soon : NULL));
	for (int i = 0; i < count; i++)
		look(c, s, &(struct got){ pieces[i].iov_base, all[i].msg_len, all[i].msg_hdr.msg_flags, false });
}

/* These return no flags. There is room for a whole message, but of one that several read in parts this may be a part. */
static void read_some(struct caller *c, struct shared s)
{
	size_t room = s.polite ? FRAME_MOST + 1 : make_room(c), half = pick(c, room + 1);
	struct iovec pieces[2] = { { c->inbox, half }, { c->inbox + half, room - half } };
	ssize_t got;

	if (s.polite)
		memset(c->inbox + room, CANARY_BYTE, CANARY);
	if (chance(c, 2))
		got = CALL(c, K_READ, read(s.fd, c->inbox, room));
	else
		got = CALL(c, K_READ, readv(s.fd, pieces, 2));
	check_data(c, s, got, room, s.pool == DGRAM ? MSG_EOR : NO_FLAGS, false);
}

/* A message of the polite world fits into a pipe. */
static void splice_from(struct caller *c, struct shared s)
{
	size_t size = s.pool == DGRAM ? 65536 : 1 + any_size(c, 65535), room = 65536;
	ssize_t got;
	int ends[2];

	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	got = CALL(c, K_SPLICE_FROM, splice(s.fd, NULL, ends[1], NULL, size, chance(c, 2) ? SPLICE_F_NONBLOCK : 0));
	if (got > 0 && s.pool == DGRAM) {
		memset(c->inbox + room, CANARY_BYTE, CANARY);
		check_data(c, s, read(ends[0], c->inbox, room), room, MSG_EOR, false);
	}
	close(ends[0]);
	close(ends[1]);
}

void call_receive(struct caller *c)
{
	struct shared s = some_kcm(c);

	switch (pick(c, 24)) {
	case 0:
	case 1:
		message(c, s, K_RECV_PEEK, MSG_DONTWAIT | MSG_PEEK | (chance(c, 4) ? MSG_TRUNC : 0));
		return;
	case 2:
		message(c, s, K_RECV_FLAGS, MSG_DONTWAIT | any_flags(c));
		return;
	case 3:
	case 4:
		/* A failed call leaves the message in the queue: it must not come twice. */
		return receive_to_sink(c, K_RECV_SINK, s.fd);
	case 5:
		return receive_bad_header(c, K_RECV_HEADER, s.fd);
	case 6:
	case 7:
		return read_some(c, s);
	case 8:
	case 9:
		return splice_from(c, s);
	case 10:
	case 11:
		return several(c, s);
	case 12:
	case 13:
		message(c, s, K_RECV_WAITING, 0);
		return;
	case 14:
		return many(c, s);
	default:
		for (int i = chance(c, 4) ? 30 : 1; i > 0 && message(c, s, K_RECVMSG, MSG_DONTWAIT); i--)
			;
	}
}
