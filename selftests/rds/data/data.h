/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Delivery: contents, order, blocking, congestion. Each subject runs over lanes, which are
 * pairs of addresses: inside this host, and over TCP between two namespaces of it.
 */
#ifndef SELFTESTS_RDS_DATA_H
#define SELFTESTS_RDS_DATA_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "task.h"
#include "util.h"

struct lane {
	const char *name;
	int from_ns, to_ns;
	const char *from, *to;
	bool tcp; /* a real connection, with congestion and blocking */
	bool zerocopy; /* the transport of the sender's address supports it */
};

extern const struct lane *lanes;
extern size_t lane_count;
extern struct pair pair;

/* A sender and a receiver at the ends of a lane, with room for the largest messages. */
struct ends {
	int tx, rx;
	struct addr tx_addr, rx_addr;
};

struct ends ends_open(const struct lane *lane);
void ends_close(struct ends *e);
/** room_for_big - buffers large enough that no size blocks */
void room_for_big(int fd);
/** delivered - send one message and take it at the other end: length, content and sender checked */
bool delivered(struct ends *e, size_t len, uint64_t seed);

/* Two buffers of the largest size, shared by all. */
extern char out_buf[MAX_MESSAGE + 64], in_buf[MAX_MESSAGE + 64];

void data_sizes(const struct lane *lane);
void data_ways(const struct lane *lane);
void data_order(const struct lane *lane);
void data_stamps(const struct lane *lane);
void data_zerocopy(const struct lane *lane);
void data_ping(const struct lane *lane);
void data_clock(void);
void data_reopen(const struct lane *lane);
void data_congestion(const struct lane *lane);
void data_blocked(const struct lane *lane);
void data_cancel(void);
void data_link_local(void);

int hosts_serve(int argc, char **argv);
int hosts_client(int argc, char **argv);

#endif
