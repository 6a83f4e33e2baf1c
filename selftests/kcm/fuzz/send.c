// SPDX-License-Identifier: GPL-2.0
/* sendmsg, sendmmsg and other calls that write to a socket. The polite world sends whole frames, the wild one anything. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

/* A message under construction. */
struct outgoing {
	struct msghdr msg;
	struct frame frame;
	struct control control;
	size_t size;
};

static int waiting_or_not(struct caller *c)
{
	return chance(c, 6) ? 0 : MSG_DONTWAIT;
}

static void compose(struct caller *c, struct outgoing *o, struct shared s, size_t limit)
{
	memset(&o->msg, 0, sizeof(o->msg));
	o->control.len = 0;
	o->msg.msg_iov = o->frame.pieces;
	if (s.polite || chance(c, 2)) {
		/* Frames in the wild world, too, or few messages would be valid: but not the counted ones. */
		frame_make(c, &o->frame, s.polite ? BY_KCM : BY_PEER, limit);
		if (!s.polite)
			o->frame.head[1] = 0;
		o->msg.msg_iovlen = o->frame.count;
		o->size = o->frame.size;
	} else {
		o->size = any_size(c, limit);
		o->msg.msg_iovlen = cut(c, o->frame.pieces, c->scratch, o->size);
	}
}

/* A message of the polite world is accepted whole or not at all. */
static void sent(struct caller *c, struct shared s, long got, size_t size)
{
	if (s.polite && got >= 0 && (size_t)got != size)
		wrong(c, "bytes taken of a message", got, size);
}

static void send_one(struct caller *c, int kind, struct shared s, size_t limit, int flags)
{
	struct outgoing o;

	compose(c, &o, s, limit);
	sent(c, s, CALL(c, kind, sendmsg(s.fd, &o.msg, flags | MSG_EOR)), o.size);
}

static void plain(struct caller *c, struct shared s)
{
	int flags = waiting_or_not(c);

	send_one(c, flags ? K_SENDMSG : K_SEND_WAITING, s, FRAME_MOST, flags);
}

static void several(struct caller *c, struct shared s)
{
	struct outgoing o[6];
	struct mmsghdr all[ARRAY_SIZE(o)];
	int count = 1 + pick(c, ARRAY_SIZE(o)), got;

	memset(all, 0, sizeof(all));
	for (int i = 0; i < count; i++) {
		compose(c, &o[i], s, 4000);
		all[i].msg_hdr = o[i].msg;
	}
	got = CALL(c, K_SENDMMSG, sendmmsg(s.fd, all, count, MSG_EOR | waiting_or_not(c) | (chance(c, 4) ? MSG_BATCH : 0)));
	for (int i = 0; i < got; i++)
		sent(c, s, all[i].msg_len, o[i].size);
}

static void flood(struct caller *c, struct shared s)
{
	struct outgoing o;
	int left = 60;
	long got;

	do {
		compose(c, &o, s, FRAME_MOST);
		got = CALL(c, K_SEND_FLOOD, sendmsg(s.fd, &o.msg, MSG_DONTWAIT | MSG_EOR));
		sent(c, s, got, o.size);
	} while (got >= 0 && --left);
}

/* With MSG_MORE, or without MSG_EOR, data of other threads becomes a part of the message, too. */
static void parts(struct caller *c)
{
	struct shared s = { some(c, WILD), WILD, false };
	struct outgoing o;

	for (int i = 1 + pick(c, 5); i > 0; i--) {
		compose(c, &o, s, 20000);
		CALL(c, K_SEND_PARTS, sendmsg(s.fd, &o.msg, waiting_or_not(c) | MSG_MORE));
	}
	if (!chance(c, 4))
		CALL(c, K_SEND_PARTS, send(s.fd, c->scratch, pick(c, 100), waiting_or_not(c) | MSG_EOR));
}

static void nothing(struct caller *c, struct shared s)
{
	CALL(c, K_SEND_NOTHING, send(s.fd, NULL, 0, waiting_or_not(c) | (chance(c, 2) ? MSG_EOR : 0)));
}

/* ---- control data */

static void reply(struct caller *c, struct shared s)
{
	struct kcm_connection_stats *mine = (void *)c->inbox;
	socklen_t len = 64 * sizeof(*mine);
	struct kcm_connection to;
	struct outgoing o;

	if (CALL(c, K_GET_STATS, getsockopt(s.fd, SOL_KCM, KCM_STATS, mine, &len)) < 0 || !len)
		return;
	to.id = mine[pick(c, len / sizeof(*mine))].id;
	compose(c, &o, s, 3000);
	control_add(&o.control, SOL_KCM, KCM_CONNECTION, &to, sizeof(to));
	o.msg.msg_control = o.control.data;
	o.msg.msg_controllen = o.control.len;
	sent(c, s, CALL(c, K_SEND_REPLY, sendmsg(s.fd, &o.msg, MSG_EOR | waiting_or_not(c))), o.size);
}

/* Control messages of every level and type, valid or not, several at once, truncated anywhere. */
static void control(struct caller *c, struct shared s)
{
	struct outgoing o;

	compose(c, &o, s, 3000);
	for (int i = pick(c, 3); i >= 0; i--) {
		uint64_t id[2] = { chance(c, 2) ? pick(c, 20) : any_number(c), 0 };
		bool ours = chance(c, 2);
		void *data = control_add(&o.control, ours ? SOL_KCM : (int)pick(c, 300),
					 chance(c, 6) ? (int)any_number(c) : KCM_CONNECTION, id,
					 chance(c, 4) ? pick(c, sizeof(id)) : sizeof(id[0]));

		if (chance(c, 8))
			((struct cmsghdr *)((char *)data - CMSG_LEN(0)))->cmsg_len = any_number(c);
	}
	o.msg.msg_control = o.control.data;
	o.msg.msg_controllen = chance(c, 8) ? odd_length(c, o.control.len) : o.control.len;
	if (chance(c, 16))
		o.msg.msg_control = source(c, &(size_t){ 100 });
	sent(c, s, CALL(c, K_SEND_CONTROL, sendmsg(s.fd, &o.msg, MSG_EOR | MSG_DONTWAIT)), o.size);
}

/* Many in one call, which takes whole ones of the polite world. */
static void by_lengths(struct caller *c, struct shared s)
{
	struct outgoing o[4];
	struct iovec pieces[ARRAY_SIZE(o) * ARRAY_SIZE(o[0].frame.pieces)];
	uint32_t lengths[ARRAY_SIZE(o)], count = 1 + (uint32_t)pick(c, ARRAY_SIZE(o)), used = 0;
	struct control control = { .len = 0 };
	struct msghdr msg = { .msg_iov = pieces, .msg_control = control.data };
	long got, left;

	for (uint32_t i = 0; i < count; i++) {
		compose(c, &o[i], s, 3000);
		lengths[i] = (uint32_t)o[i].size;
		memcpy(pieces + used, o[i].msg.msg_iov, o[i].msg.msg_iovlen * sizeof(pieces[0]));
		used += (uint32_t)o[i].msg.msg_iovlen;
	}
	if (!s.polite && chance(c, 4))
		lengths[pick(c, count)] += chance(c, 2) ? 1 : (uint32_t)any_number(c);
	msg.msg_iovlen = used;
	control_add(&control, SOL_KCM, KCM_LENGTHS, lengths, count * sizeof(lengths[0]));
	msg.msg_controllen = control.len;
	got = CALL(c, K_SEND_LENGTHS, sendmsg(s.fd, &msg, waiting_or_not(c) | (chance(c, 2) ? MSG_MORE : 0)));
	left = got;
	for (uint32_t i = 0; i < count && left > 0; i++)
		left -= lengths[i];
	if (s.polite && got > 0 && left)
		wrong(c, "bytes taken of many messages", got, left);
}

/* ---- other errors */

static void flags(struct caller *c)
{
	struct shared s = { some(c, WILD), WILD, false };
	struct outgoing o;

	compose(c, &o, s, 20000);
	CALL(c, K_SEND_FLAGS, sendmsg(s.fd, &o.msg, MSG_DONTWAIT | any_flags(c)));
}

static void from_source(struct caller *c)
{
	size_t size = any_size(c, 200000);
	struct iovec pieces[PIECES];
	struct msghdr msg = { .msg_iov = pieces };

	msg.msg_iovlen = cut(c, pieces, source(c, &size), size);
	CALL(c, K_SEND_SOURCE, sendmsg(some(c, WILD), &msg, waiting_or_not(c) | MSG_EOR));
}

/* A frame whose last bytes cannot be read must not be sent. */
static void fault(struct caller *c, struct shared s)
{
	struct outgoing o;

	compose(c, &o, s, FRAME_MOST);
	o.msg.msg_iovlen = 3;
	o.msg.msg_iov[0].iov_len = pick(c, FRAME_LEAST + 1);
	o.msg.msg_iov[1] = (struct iovec){ c->scratch, any_size(c, 100000) };
	o.msg.msg_iov[2] = (struct iovec){ bad_pointer(), 1 + pick(c, 5000) };
	CALL(c, K_SEND_FAULT, sendmsg(s.fd, &o.msg, MSG_EOR | waiting_or_not(c)));
}

/* The same memory, many times: more than a message may have. */
static void huge(struct caller *c, struct shared s)
{
	struct iovec pieces[80];
	struct msghdr msg = { .msg_iov = pieces, .msg_iovlen = ARRAY_SIZE(pieces) };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
		pieces[i] = (struct iovec){ c->scratch, 1 << 20 };
	CALL(c, K_SEND_HUGE, sendmsg(s.fd, &msg, MSG_EOR | MSG_DONTWAIT));
}

static void bad_header(struct caller *c, struct shared s)
{
	struct iovec io = { c->scratch, 100 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1025 + any_number(c) / 2 };

	switch (pick(c, 3)) {
	case 0:
		CALL(c, K_SEND_HEADER, sendmsg(s.fd, kernel_pointer(), MSG_DONTWAIT));
		return;
	case 1:
		msg.msg_iov = bad_pointer();
		msg.msg_iovlen = 1;
	}
	CALL(c, K_SEND_HEADER, sendmsg(s.fd, &msg, MSG_DONTWAIT));
}

/* ---- other system calls that send */

static void write_some(struct caller *c, struct shared s)
{
	struct outgoing o;

	compose(c, &o, s, FRAME_MOST);
	if (chance(c, 2))
		return sent(c, s, CALL(c, K_WRITE, writev(s.fd, o.msg.msg_iov, o.msg.msg_iovlen)), o.size);
	if (s.polite)
		frame_copy(&o.frame, c->inbox);
	sent(c, s, CALL(c, K_WRITE, write(s.fd, c->inbox, o.size)), o.size);
}

/* Several pages of a pipe are several calls for the socket, and other calls may come between. */
static void splice_to(struct caller *c, struct shared s)
{
	struct outgoing o;
	int ends[2];

	compose(c, &o, s, s.polite ? 4096 : 30000);
	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	if (s.polite) {
		frame_copy(&o.frame, c->inbox);
		if (write(ends[1], c->inbox, o.size) == (ssize_t)o.size)
			sent(c, s, CALL(c, K_SPLICE_TO, splice(ends[0], NULL, s.fd, NULL, o.size, 0)), o.size);
	} else {
		if (chance(c, 2))
			vmsplice(ends[1], o.msg.msg_iov, o.msg.msg_iovlen, 0);
		else if (writev(ends[1], o.msg.msg_iov, o.msg.msg_iovlen) < 0)
			errno = 0;
		CALL(c, K_SPLICE_TO, splice(ends[0], NULL, s.fd, NULL, o.size, pick(c, 16)));
	}
	close(ends[0]);
	close(ends[1]);
}

/* A file that may be shorter than requested. */
static void from_file(struct caller *c, struct shared s)
{
	struct outgoing o;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	off_t at = 0;

	NEED(fd >= 0);
	compose(c, &o, s, s.polite ? 4096 : 100000);
	if (writev(fd, o.msg.msg_iov, o.msg.msg_iovlen) == (ssize_t)o.size) {
		if (s.polite) {
			sent(c, s, CALL(c, K_SENDFILE, sendfile(s.fd, fd, &at, o.size)), o.size);
		} else {
			at = chance(c, 2) ? 0 : pick(c, 10000);
			CALL(c, K_SENDFILE, sendfile(s.fd, fd, &at, pick(c, 2 * o.size + 1)));
		}
	}
	close(fd);
}

void call_send(struct caller *c)
{
	struct shared s = some_kcm(c);

	switch (pick(c, 27)) {
	case 26:
		return by_lengths(c, s);
	case 0:
	case 1:
		return several(c, s);
	case 2:
		return send_one(c, K_SEND_BATCH, s, 4000, MSG_DONTWAIT | MSG_BATCH);
	case 3:
		return parts(c);
	case 4:
		return nothing(c, s);
	case 5:
		return chance(c, 4) ? flood(c, s) : plain(c, s);
	case 6:
	case 7:
		return reply(c, s);
	case 8:
		return control(c, s);
	case 9:
		return flags(c);
	case 10:
	case 11:
		return from_source(c);
	case 12:
		return fault(c, s);
	case 13:
		return chance(c, 3) ? huge(c, s) : plain(c, s);
	case 14:
		return bad_header(c, s);
	case 15:
	case 16:
		return write_some(c, s);
	case 17:
		return splice_to(c, s);
	case 18:
		return from_file(c, s);
	default:
		return plain(c, s);
	}
}
