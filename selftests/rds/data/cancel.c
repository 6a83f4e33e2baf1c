// SPDX-License-Identifier: GPL-2.0
/* Unsent messages can be cancelled: by RDS_CANCEL_SENT_TO, and by closing the socket. */
#include "data.h"

#define AWAY "10.88.0.9"

static int receiver(struct addr *a)
{
	int fd = rds_bound(pair.b, AWAY, 0);

	*a = addr_of(fd);
	return fd;
}

static int sender(void)
{
	return rds_bound(pair.a, PAIR_A4, 0);
}

static void queue(int fd, const struct addr *to, const char *text)
{
	for (int i = 0; i < 3; i++)
		NEED(rds_send(fd, text, strlen(text), to, MSG_DONTWAIT) == (ssize_t)strlen(text));
}

/* The receiver exists, but the sender has no route to it before the end. */
void data_cancel(void)
{
	struct addr cancelled, kept, closed;
	int rx_cancelled, rx_kept, rx_closed, tx = sender(), gone = sender(), got = 0;

	net_address(pair.b, "lo", AWAY "/32", true);
	rx_cancelled = receiver(&cancelled);
	rx_kept = receiver(&kept);
	rx_closed = receiver(&closed);
	queue(tx, &cancelled, "cancelled");
	queue(tx, &kept, "kept");
	queue(gone, &closed, "closed");
	EXPECT_OK(setsockopt(tx, SOL_RDS, RDS_CANCEL_SENT_TO, &cancelled.sa, cancelled.len),
		  "cancel: RDS_CANCEL_SENT_TO");
	close(gone);
	net_address(pair.a, "pair", "10.88.0.1/24", true);
	while (got < 3 && rds_recv_soon(rx_kept, in_buf, 100, NULL) == 4)
		got++;
	EXPECT_EQ(got, 3, "cancel: messages to others are sent when there is a way");
	/* Later messages on the same path arrive after all earlier ones. */
	queue(tx, &cancelled, "late");
	EXPECT_EQ(rds_recv_soon(rx_cancelled, in_buf, 100, NULL), 4,
		  "cancel: only what was sent later arrives");
	EXPECT_ERRNO(rds_recv(rx_closed, in_buf, 100, NULL, MSG_DONTWAIT), EAGAIN,
		     "cancel: closing cancels the socket's messages");
	close(tx);
	close(rx_cancelled);
	close(rx_kept);
	close(rx_closed);
	net_address(pair.b, "lo", AWAY "/32", false);
	net_address(pair.a, "pair", "10.88.0.1/24", false);
}
