/* SPDX-License-Identifier: GPL-2.0 */
/* Messages that are sent. */
#ifndef SELFTESTS_RDS_FUZZ_SEND_H
#define SELFTESTS_RDS_FUZZ_SEND_H

#include "fuzz.h"

/* A message under construction. */
struct outgoing {
	struct msghdr msg;
	struct iovec pieces[PIECES];
	struct addr to;
	struct control control;
};

/* A valid message with checked content to any target. */
void outgoing_compose(struct caller *c, struct outgoing *o, struct shared s, size_t limit);
/* With its control data. */
void outgoing_attach(struct outgoing *o);

/* Control messages of RDMA. */
void send_rdma(struct caller *c, struct shared s);
/* Control messages of every level and type, valid or not, several at once, truncated anywhere. */
void send_any_control(struct caller *c, struct shared s);

#endif
