// SPDX-License-Identifier: GPL-2.0
/* recvfrom, recvmsg, recvmmsg and other calls that read from a socket, with checks of the results. */
#include "fuzz.h"

#include <fcntl.h>

/* Checks the result of a call with @room bytes of the inbox; @long_ones: it may return the message's length. */
static void check_data(struct caller *c, ssize_t got, size_t room, bool long_ones)
{
	check_canary(c, room);
	if (got < 0)
		return;
	if (got > MAX_MESSAGE || (!long_ones && got > (ssize_t)room))
		wrong(c, "bytes received", got, room);
	if ((size_t)got > room)
		got = room;
	if (got >= 8)
		seen(c, K_GOT_CONTENT);
	if (!content_holds(c->inbox, got))
		wrong(c, "damaged message", got, 0);
}

/* The messages of a run lie one behind the other. False: there is no run. */
static bool check_run(struct caller *c, struct msghdr *msg, ssize_t got, size_t room)
{
	uint32_t lengths[64];
	size_t count = 0, at = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_RDS || h->cmsg_type != RDS_CMSG_LENGTHS)
			continue;
		count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(lengths[0]);
		if (count < 1 || count > ARRAY_SIZE(lengths)) {
			wrong(c, "number of lengths", count, ARRAY_SIZE(lengths));
			return false;
		}
		memcpy(lengths, CMSG_DATA(h), count * sizeof(lengths[0]));
	}
	if (count < 2)
		return false;
	seen(c, K_GOT_RUN);
	check_canary(c, room);
	for (size_t i = 0; i < count; at += lengths[i++])
		if (at + lengths[i] > room || !content_holds(c->inbox + at, lengths[i])) {
			wrong(c, "damaged message of a run", i, count);
			return true;
		}
	if ((ssize_t)at != got)
		wrong(c, "sum of the lengths", at, got);
	return true;
}

static void check_name(struct caller *c, socklen_t len)
{
	if (len != 0 && len != sizeof(struct sockaddr_in) && len != sizeof(struct sockaddr_in6))
		wrong(c, "length of the sender's name", len, sizeof(struct sockaddr_in6));
}

static void check_cookies(struct caller *c, const struct cmsghdr *h)
{
	struct rds_zcopy_cookies cookies;

	seen(c, K_GOT_COOKIES);
	if (h->cmsg_len < CMSG_LEN(sizeof(cookies)))
		return;
	memcpy(&cookies, CMSG_DATA(h), sizeof(cookies));
	if (cookies.num < 1 || cookies.num > RDS_MAX_ZCOOKIES)
		wrong(c, "number of cookies", cookies.num, RDS_MAX_ZCOOKIES);
}

static void check_control(struct caller *c, struct msghdr *msg, size_t room)
{
	if (msg->msg_controllen > room)
		wrong(c, "control data", msg->msg_controllen, room);
	if (msg->msg_flags & MSG_CTRUNC)
		seen(c, K_GOT_CTRUNC);
	if (msg->msg_flags & MSG_TRUNC)
		seen(c, K_GOT_CUT);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level == SOL_SOCKET) {
			seen(c, K_GOT_TIME);
			continue;
		}
		switch (h->cmsg_type) {
		case RDS_CMSG_LENGTHS:
			break;
		case RDS_CMSG_CONG_UPDATE:
			seen(c, K_GOT_FREED);
			break;
		case RDS_CMSG_RXPATH_LATENCY:
			seen(c, K_GOT_TRACE);
			break;
		case RDS_CMSG_ZCOPY_COMPLETION:
			check_cookies(c, h);
			break;
		default:
			wrong(c, "type of a control message", h->cmsg_type, RDS_CMSG_ZCOPY_COMPLETION);
		}
	}
}

static void from(struct caller *c, int fd)
{
	size_t room = make_room(c);
	struct addr sender;
	socklen_t len = sizeof(sender.in6);
	ssize_t got = CALL(c, K_RECVFROM, recvfrom(fd, c->inbox, room, MSG_DONTWAIT, &sender.sa, &len));

	check_data(c, got, room, false);
	if (got >= 0)
		check_name(c, len);
}

/* recvmsg with pieces of a buffer and any room for control data. */
static void message(struct caller *c, int fd, int kind, int flags)
{
	char name[128], control[512] __attribute__((aligned(8)));
	size_t room = make_room(c), control_room = chance(c, 3) ? pick(c, 64) : pick(c, sizeof(control));
	size_t first = pick(c, room + 1);
	struct iovec pieces[2] = { { c->inbox, first }, { c->inbox + first, room - first } };
	struct msghdr msg = { .msg_name = chance(c, 4) ? NULL : name,
			      .msg_namelen = sizeof(name),
			      .msg_iov = pieces,
			      .msg_iovlen = 2,
			      .msg_control = control,
			      .msg_controllen = control_room };
	ssize_t got = CALL(c, kind, recvmsg(fd, &msg, flags));

	if (got < 0 || !check_run(c, &msg, got, room))
		check_data(c, got, room, flags & MSG_TRUNC);
	if (got < 0)
		return;
	if (msg.msg_name)
		check_name(c, msg.msg_namelen);
	check_control(c, &msg, control_room);
}

static void several(struct caller *c, int fd)
{
	struct mmsghdr all[5];
	struct iovec pieces[ARRAY_SIZE(all)];
	struct timespec soon = { 0, pick(c, 3000000) };
	int count;

	memset(all, 0, sizeof(all));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		pieces[i] = (struct iovec){ c->inbox + i * 100000, 100000 };
		all[i].msg_hdr.msg_iov = &pieces[i];
		all[i].msg_hdr.msg_iovlen = 1;
	}
	count = CALL(c, K_RECVMMSG, recvmmsg(fd, all, 1 + pick(c, ARRAY_SIZE(all)),
					     chance(c, 2) ? MSG_DONTWAIT : MSG_WAITFORONE, chance(c, 2) ? &soon : NULL));
	for (int i = 0; i < count; i++)
		if (!content_holds(pieces[i].iov_base, all[i].msg_len))
			wrong(c, "damaged message", all[i].msg_len, 0);
}

static void read_some(struct caller *c, int fd)
{
	size_t room = make_room(c), half = room / 2;
	struct iovec pieces[2] = { { c->inbox, half }, { c->inbox + half, room - half } };
	ssize_t got;

	if (chance(c, 2))
		got = CALL(c, K_READ, read(fd, c->inbox, room));
	else
		got = CALL(c, K_READ, readv(fd, pieces, 2));
	check_data(c, got, room, false);
}

static void splice_from(struct caller *c, int fd)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	CALL(c, K_SPLICE_FROM, splice(fd, NULL, ends[1], NULL, 1 + any_size(c, 60000), SPLICE_F_NONBLOCK));
	close(ends[0]);
	close(ends[1]);
}

void call_receive(struct caller *c)
{
	int fd = some_socket(c).fd;

	switch (pick(c, 24)) {
	case 0:
	case 1:
		return message(c, fd, K_RECV_PEEK, MSG_DONTWAIT | MSG_PEEK | (chance(c, 4) ? MSG_TRUNC : 0));
	case 2:
	case 3:
		return message(c, fd, K_RECV_FLAGS, MSG_DONTWAIT | any_flags(c));
	case 4:
	case 5:
		return receive_to_sink(c, K_RECV_SINK, fd);
	case 6:
		return receive_bad_header(c, K_RECV_HEADER, fd);
	case 7:
		return message(c, fd, K_RECV_ERRQUEUE, MSG_ERRQUEUE);
	case 8:
		return read_some(c, fd);
	case 9:
		return splice_from(c, fd);
	case 10:
	case 11:
		return several(c, fd);
	case 12:
	case 13:
		return message(c, fd, K_RECV_WAITING, 0);
	case 14:
	case 15:
	case 16:
	case 17:
		return from(c, fd);
	default:
		for (int i = chance(c, 4) ? 30 : 1; i > 0; i--)
			message(c, fd, K_RECVMSG, MSG_DONTWAIT);
	}
}
