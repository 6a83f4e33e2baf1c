// SPDX-License-Identifier: GPL-2.0
/* setsockopt, getsockopt, and RDS_INFO. */
#include "fuzz.h"

static void set(struct caller *c, int kind, int fd, int option, const void *value, socklen_t right)
{
	CALL(c, kind, setsockopt(fd, SOL_RDS, option, value, odd_length(c, right)));
}

static void set_flag(struct caller *c, int kind, int fd, int option)
{
	int on = chance(c, 4) ? (int)any_number(c) : (int)pick(c, 2);

	set(c, kind, fd, option, &on, sizeof(on));
}

static void cancel(struct caller *c, struct shared s)
{
	struct addr to = chance(c, 8) ? odd_place(c) : some_target(c, s);

	CALL(c, K_CANCEL, setsockopt(s.fd, SOL_RDS, RDS_CANCEL_SENT_TO, &to, odd_length(c, to.len)));
}

static void regions(struct caller *c, struct shared s)
{
	struct rds_iovec range = { (uintptr_t)c->scratch + pick(c, 5000), any_number(c) };
	struct rds_get_mr_args get = { range, any_number(c), pick(c, 256) };
	struct rds_get_mr_for_dest_args dest = { .vec = range, .cookie_addr = any_number(c), .flags = pick(c, 256) };
	struct rds_free_mr_args none = { any_number(c), pick(c, 256) };
	struct addr to = some_target(c, s);

	memcpy(&dest.dest_addr, &to, sizeof(to.in6));
	switch (pick(c, 3)) {
	case 0:
		return set(c, K_GET_MR, s.fd, RDS_GET_MR, &get, sizeof(get));
	case 1:
		return set(c, K_GET_MR_DEST, s.fd, RDS_GET_MR_FOR_DEST, &dest, sizeof(dest));
	default:
		return set(c, K_FREE_MR, s.fd, RDS_FREE_MR, &none, sizeof(none));
	}
}

static void transport(struct caller *c, int fd)
{
	int type = chance(c, 4) ? (int)any_number(c) : (int)pick(c, 4) - 1;

	set(c, K_TRANSPORT, fd, SO_RDS_TRANSPORT, &type, sizeof(type));
}

static void latencies(struct caller *c, int fd)
{
	struct rds_rx_trace_so traces = { .rx_traces = chance(c, 8) ? any_number(c) : pick(c, 4) };

	for (int i = 0; i < RDS_MSG_RX_DGRAM_TRACE_MAX; i++)
		traces.rx_trace_pos[i] = chance(c, 16) ? any_number(c) : pick(c, 3);
	set(c, K_RXPATH, fd, SO_RDS_MSG_RXPATH_LATENCY, &traces, sizeof(traces));
}

/* Valid options of SOL_RDS with bad memory. */
static void bad_argument(struct caller *c, int fd)
{
	static const int options[] = { RDS_CANCEL_SENT_TO, RDS_GET_MR, RDS_FREE_MR, RDS_RECVERR, RDS_CONG_MONITOR,
				       RDS_GET_MR_FOR_DEST, SO_RDS_TRANSPORT, SO_RDS_MSG_RXPATH_LATENCY, STAMP_OLD,
				       STAMP_NEW, RDS_RECV_LENGTHS };
	size_t size = 200;
	void *where[] = { source(c, &size), bad_pointer(), kernel_pointer(), NULL };

	CALL(c, K_SET_BAD, setsockopt(fd, SOL_RDS, ANY_OF(c, options), ANY_OF(c, where),
				      chance(c, 2) ? (int)pick(c, 200) : (int)any_number(c)));
}

static void set_any(struct caller *c, struct shared s)
{
	int value = any_number(c);

	switch (pick(c, 15)) {
	case 0:
	case 1:
		return cancel(c, s);
	case 2:
		return regions(c, s);
	case 3:
		return set_flag(c, K_RECVERR, s.fd, RDS_RECVERR);
	case 4:
		return set_flag(c, K_MONITOR, s.fd, RDS_CONG_MONITOR);
	case 5:
		return transport(c, s.fd);
	case 6:
	case 7:
		return latencies(c, s.fd);
	case 8:
		return set_flag(c, K_STAMPS, s.fd, chance(c, 2) ? STAMP_OLD : STAMP_NEW);
	case 9:
		return set_flag(c, K_RECV_LENGTHS, s.fd, RDS_RECV_LENGTHS);
	case 10: /* unknown options */
		return set(c, K_SET_OTHER, s.fd, chance(c, 2) ? 11 + (int)pick(c, 18) : 64 + (int)pick(c, 1 << 20), &value,
			   sizeof(value));
	case 11:
		return bad_argument(c, s.fd);
	case 12:
		CALL(c, K_SET_LEVEL, setsockopt(s.fd, (int)pick(c, 300), (int)pick(c, 100), &value, sizeof(value)));
		return;
	default:
		return set_of_socket(c, K_SET_SOCKET, s.fd);
	}
}

void call_option(struct caller *c)
{
	struct shared s = some_socket(c);

	if (!chance(c, 3))
		return set_any(c, s);
	switch (pick(c, 4)) {
	case 0:
		return get_any(c, K_GET_RECVERR, s.fd, SOL_RDS, RDS_RECVERR);
	case 1:
		return get_any(c, K_GET_TRANSPORT, s.fd, SOL_RDS, SO_RDS_TRANSPORT);
	case 2:
		return get_any(c, K_GET_OTHER, s.fd, SOL_RDS,
			   chance(c, 2) ? RDS_RECV_LENGTHS + 1 + (int)pick(c, 1000) : 10018 + (int)pick(c, 1 << 20));
	default:
		return get_any(c, K_GET_SOCKET, s.fd, SOL_SOCKET, 1 + (int)pick(c, 84));
	}
}

/* Each item with room for all, for some, or for none, or with bad memory. */
void call_info(struct caller *c)
{
	struct shared s = some_socket(c);
	int item = pick(c, RDS_INFO_LAST - RDS_INFO_FIRST + 1);
	socklen_t room = chance(c, 4) ? any_number(c) : chance(c, 2) ? LARGEST : any_size(c, LARGEST), len;
	size_t size = room;
	bool elsewhere = room > LARGEST || chance(c, 8);
	char *where = elsewhere ? sink(c, &size) : c->inbox;
	long each;

	if (!elsewhere)
		memset(where + room, 0x77, CANARY);
	len = room;
	each = CALL(c, K_INFO_COUNTERS + item, getsockopt(s.fd, SOL_RDS, RDS_INFO_FIRST + item, where, &len));
	if (each >= 0 && (each == 0 || len > room || len % each))
		wrong(c, "length of information", len, room);
	for (int i = 0; i < CANARY && !elsewhere; i++)
		if (where[room + i] != 0x77)
			wrong(c, "byte written behind the end", i, -1);
}
