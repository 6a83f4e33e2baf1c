// SPDX-License-Identifier: GPL-2.0
/* Messages, keys and notices. */
#include "rdma_fuzz.h"

static void check_notice(struct caller *c, const struct cmsghdr *h)
{
	struct rds_rdma_notify notice;

	memcpy(&notice, CMSG_DATA(h), sizeof(notice));
	if (notice.status < RDS_RDMA_SUCCESS || notice.status > RDS_RDMA_OTHER_ERROR)
		wrong(c, "status of an operation", notice.status, RDS_RDMA_OTHER_ERROR);
	if (notice.status != RDS_RDMA_SUCCESS && is_calm())
		connection_ended();
	else if (notice.status == RDS_RDMA_REMOTE_ERROR) /* others may end with what another key has ended */
		forget_peers(notice.user_token);
	seen(c, notice.status == RDS_RDMA_SUCCESS ? K_GOT_SUCCESS : K_GOT_FAILURE);
}

static void check_control(struct caller *c, struct msghdr *msg, const struct offer *offer)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_RDS)
			continue;
		if (h->cmsg_type == RDS_CMSG_RDMA_STATUS && h->cmsg_len >= CMSG_LEN(sizeof(struct rds_rdma_notify)))
			check_notice(c, h);
		if (h->cmsg_type == RDS_CMSG_RDMA_DEST && h->cmsg_len >= CMSG_LEN(sizeof(uint64_t))) {
			struct region r = { .size = offer ? offer->size : pick(c, LARGEST) };

			memcpy(&r.cookie, CMSG_DATA(h), sizeof(r.cookie));
			if (offer || !is_calm()) /* else an operation is beyond its end */
				keep_peers(c, r);
			seen(c, K_GOT_KEY);
		}
	}
}

static bool receive(struct caller *c, int kind, int flags)
{
	char control[512] __attribute__((aligned(8)));
	size_t room = make_room(c);
	struct iovec all = { c->inbox, room };
	struct msghdr msg = { .msg_iov = &all, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	ssize_t got = CALL(c, kind, recvmsg(some_socket(c), &msg, flags));
	struct offer *offer = (struct offer *)c->inbox;

	check_canary(c, room);
	if (got < 0)
		return false;
	if (!content_holds(c->inbox, got))
		wrong(c, "damaged message", got, 0);
	if (got >= 8 && is_content(c->inbox))
		seen(c, K_GOT_CONTENT);
	check_control(c, &msg, got == sizeof(*offer) && offer->tag == OFFER ? offer : NULL);
	return true;
}

void call_receive(struct caller *c)
{
	if (chance(c, 6)) {
		receive(c, K_WAIT, 0);
		return;
	}
	for (int i = 0; i < 20 && receive(c, K_RECEIVE, MSG_DONTWAIT); i++)
		;
}
