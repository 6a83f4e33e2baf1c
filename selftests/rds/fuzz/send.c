// SPDX-License-Identifier: GPL-2.0
/* sendto, sendmsg, sendmmsg and other calls that write to a socket. */
#include "send.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/uio.h>

static void fill_in(struct caller *c, struct outgoing *o, const char *data, size_t size)
{
	o->msg.msg_iovlen = cut(c, o->pieces, data, size);
	o->msg.msg_iov = o->pieces;
}

void outgoing_compose(struct caller *c, struct outgoing *o, struct shared s, size_t limit)
{
	size_t size = any_size(c, limit);
	const char *data = content(c, &size);

	memset(o, 0, sizeof(*o));
	fill_in(c, o, data, size);
	if (!chance(c, 4)) {
		o->to = some_target(c, s);
		o->msg.msg_name = &o->to;
		o->msg.msg_namelen = o->to.len;
	}
}

static int waiting_or_not(struct caller *c)
{
	return chance(c, 6) ? 0 : MSG_DONTWAIT;
}

void outgoing_attach(struct outgoing *o)
{
	o->msg.msg_control = o->control.data;
	o->msg.msg_controllen = o->control.len;
}

static void plain(struct caller *c, struct shared s)
{
	struct outgoing o;
	int flags = waiting_or_not(c);
	bool is_to;

	outgoing_compose(c, &o, s, MAX_MESSAGE);
	is_to = o.msg.msg_iovlen == 1 && o.msg.msg_name;
	if (!flags)
		CALL(c, K_SEND_WAITING, sendmsg(s.fd, &o.msg, flags));
	else if (chance(c, 4)) /* until the receiver, the network or the send buffer is full */
		for (int i = pick(c, 200); i > 0 && CALL(c, K_SENDMSG, sendmsg(s.fd, &o.msg, flags)) >= 0; i--)
			;
	else if (is_to)
		CALL(c, K_SENDTO, sendto(s.fd, o.pieces[0].iov_base, o.pieces[0].iov_len, flags, &o.to.sa, o.to.len));
	else
		CALL(c, K_SENDMSG, sendmsg(s.fd, &o.msg, flags));
}

static void several(struct caller *c, struct shared s)
{
	struct outgoing o[6];
	struct mmsghdr all[ARRAY_SIZE(o)];
	int count = 1 + pick(c, ARRAY_SIZE(o));

	memset(all, 0, sizeof(all));
	for (int i = 0; i < count; i++) {
		outgoing_compose(c, &o[i], s, 20000);
		all[i].msg_hdr = o[i].msg;
	}
	CALL(c, K_SENDMMSG, sendmmsg(s.fd, all, count, waiting_or_not(c)));
}

/* In one call, a few with lengths that are wrong. */
static void many(struct caller *c, struct shared s)
{
	uint32_t lengths[PIECES];
	size_t count = 1 + pick(c, PIECES);
	struct outgoing o;

	outgoing_compose(c, &o, s, 0);
	for (size_t i = 0; i < count; i++) {
		size_t size = 1 + any_size(c, 3000);

		o.pieces[i].iov_base = (void *)content(c, &size);
		o.pieces[i].iov_len = lengths[i] = size;
	}
	o.msg.msg_iovlen = count;
	if (chance(c, 8))
		lengths[pick(c, count)] = any_number(c);
	control_add(&o.control, SOL_RDS, RDS_CMSG_LENGTHS, lengths,
		    chance(c, 16) ? pick(c, sizeof(lengths)) : count * sizeof(lengths[0]));
	outgoing_attach(&o);
	CALL(c, K_SEND_LENGTHS, sendmsg(s.fd, &o.msg, waiting_or_not(c)));
}

static void zerocopy(struct caller *c, struct shared s)
{
	struct outgoing o;
	uint32_t cookie = random_next(&c->random);

	outgoing_compose(c, &o, s, 200000);
	if (chance(c, 4)) { /* pages that are unmapped while the network uses them */
		size_t size = any_size(c, 100000);

		fill_in(c, &o, source(c, &size), size);
	}
	if (!chance(c, 16))
		control_add(&o.control, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, &cookie, sizeof(cookie));
	outgoing_attach(&o);
	CALL(c, K_SEND_ZEROCOPY, sendmsg(s.fd, &o.msg, MSG_ZEROCOPY | waiting_or_not(c)));
}

static void ping(struct caller *c, struct shared s)
{
	struct addr to = some_target(c, s);

	addr_set_port(&to, 0);
	CALL(c, K_SEND_PING, sendto(s.fd, NULL, 0, MSG_DONTWAIT, &to.sa, to.len));
}

static void fill(struct caller *c, int fd)
{
	size_t size = 65536;
	const char *data = content(c, &size);
	struct addr self = { .len = sizeof(self.in6) };

	if (getsockname(fd, &self.sa, &self.len) != 0)
		return;
	set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 * size);
	for (int i = 0; i < 80; i++)
		if (CALL(c, K_SEND_FLOOD, sendto(fd, data, size, MSG_DONTWAIT, &self.sa, self.len)) < 0)
			return;
}

/* To itself: on loopback only the hard limit of the receive queue stops this. */
static void flood(struct caller *c, struct shared s)
{
	int fd;

	if (chance(c, 2))
		return fill(c, s.fd);
	/* No other thread reads from this one; it is closed with its queue full. */
	fd = rds_bound(HERE, chance(c, 2) ? "127.0.0.1" : "::1", 0);
	fill(c, fd);
	close(fd);
}

/* ---- other errors */

static void flags(struct caller *c, struct shared s)
{
	/* Of all flags, mostly few at once. */
	int few = chance(c, 3) ? MSG_BATCH : any_flags(c);
	struct outgoing o;

	outgoing_compose(c, &o, s, 20000);
	CALL(c, K_SEND_FLAGS, sendmsg(s.fd, &o.msg, MSG_DONTWAIT | few));
}

static void from_source(struct caller *c, struct shared s)
{
	size_t size = any_size(c, 200000);
	struct outgoing o;
	char *data;

	outgoing_compose(c, &o, s, 0);
	data = source(c, &size);
	fill_in(c, &o, data, size);
	if (chance(c, 6))
		o.pieces[0].iov_base = chance(c, 2) ? kernel_pointer() : bad_pointer();
	CALL(c, K_SEND_SOURCE, sendmsg(s.fd, &o.msg, waiting_or_not(c)));
}

/* From more than a message may have to more than memory can hold. */
static void huge(struct caller *c, struct shared s)
{
	static const size_t sizes[] = { MAX_MESSAGE + 1, INT_MAX, 1UL << 32, SSIZE_MAX, (size_t)-1 };
	struct outgoing o;

	outgoing_compose(c, &o, s, 0);
	o.pieces[0] = (struct iovec){ c->scratch, ANY_OF(c, sizes) };
	o.msg.msg_iovlen = 1;
	CALL(c, K_SEND_HUGE, sendmsg(s.fd, &o.msg, MSG_DONTWAIT));
}

static void bad_header(struct caller *c, struct shared s)
{
	struct outgoing o;
	struct msghdr *msg = &o.msg;

	outgoing_compose(c, &o, s, 100);
	switch (pick(c, 5)) {
	case 0:
		msg = chance(c, 2) ? bad_pointer() : kernel_pointer();
		break;
	case 1:
		o.msg.msg_iov = bad_pointer();
		break;
	case 2:
		o.msg.msg_iovlen = 1025 + any_number(c) / 2;
		break;
	case 3:
		o.msg.msg_name = bad_pointer();
		o.msg.msg_namelen = 28;
		break;
	default:
		o.msg.msg_name = &o.to;
		o.msg.msg_namelen = chance(c, 2) ? 1 + pick(c, 15) : -1 - pick(c, 1000);
	}
	CALL(c, K_SEND_HEADER, sendmsg(s.fd, msg, MSG_DONTWAIT));
}

static void odd_destination(struct caller *c, struct shared s)
{
	struct addr to = odd_place(c);
	size_t size = any_size(c, 1000);
	const char *data = content(c, &size);

	CALL(c, K_SEND_ODD, sendto(s.fd, data, size, MSG_DONTWAIT, &to.sa, to.len));
}

/* ---- other system calls that send */

/* The kernel adds MSG_EOR for sockets of this type, which RDS refuses, both ours and the kernel's own. */
static void write_some(struct caller *c, int fd)
{
	size_t size = 1 + any_size(c, 20000);
	const char *data = content(c, &size);
	struct outgoing o;

	fill_in(c, &o, data, size);
	if (chance(c, 2))
		CALL(c, K_WRITE, writev(fd, o.msg.msg_iov, o.msg.msg_iovlen));
	else
		CALL(c, K_WRITE, write(fd, data, size));
}

/* Pages of a pipe: copied into it, or given to it. */
static void splice_to(struct caller *c, struct shared s)
{
	size_t size = 1 + any_size(c, 30000);
	struct iovec io = { (void *)content(c, &size), 0 };
	int ends[2];

	io.iov_len = size;
	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	if (chance(c, 2))
		vmsplice(ends[1], &io, 1, 0);
	else if (write(ends[1], io.iov_base, size) < 0)
		errno = 0;
	CALL(c, K_SPLICE_TO, splice(ends[0], NULL, s.fd, NULL, size, chance(c, 2) ? SPLICE_F_MORE : 0));
	close(ends[0]);
	close(ends[1]);
}

void call_send(struct caller *c)
{
	struct shared s = some_socket(c);

	switch (pick(c, 24)) {
	case 0:
	case 1:
		return several(c, s);
	case 2:
	case 3:
	case 4:
		return zerocopy(c, s);
	case 5:
		return ping(c, s);
	case 6:
		return send_rdma(c, s);
	case 7:
		return send_any_control(c, s);
	case 8:
		return flags(c, s);
	case 9:
	case 10:
		return from_source(c, s);
	case 11:
		return huge(c, s);
	case 12:
		return bad_header(c, s);
	case 13:
		return odd_destination(c, s);
	case 14:
		return write_some(c, s.fd);
	case 15:
		return splice_to(c, s);
	case 16:
		return chance(c, 8) ? flood(c, s) : plain(c, s);
	case 17:
	case 18:
		return many(c, s);
	default:
		return plain(c, s);
	}
}
