// SPDX-License-Identifier: GPL-2.0
/*
 * data                                         everything inside this host
 * data --clock                                 durations, where the clock counts instructions
 * data --serve V4 V6                           answer a client of another host until it ends
 * data --client OWN4 PEER4 OWN6 PEER6          exchange messages with such a server
 */
#include "data.h"

const struct lane *lanes;
size_t lane_count;
struct pair pair;
char out_buf[MAX_MESSAGE + 64], in_buf[MAX_MESSAGE + 64];

/*
 * The first socket with time stamps makes the kernel patch its own code, and the last one undoes that. Once,
 * and before there is traffic, is enough: an emulator may run a stale copy of code that is patched while it
 * runs.
 */
static void keep_time_stamps_on(void)
{
	NEED(set_int(socket(AF_INET, SOCK_DGRAM, 0), SOL_SOCKET, SO_TIMESTAMP, 1) == 0);
	nap_us(200000);
}

static void make_lanes(void)
{
	static struct lane all[8];
	size_t n = 0;

	here_addresses();
	keep_time_stamps_on();
	pair = pair_new();
	all[n++] = (struct lane){ "127.0.0.1", HERE, HERE, "127.0.0.1", "127.0.0.1", false, false };
	all[n++] = (struct lane){ "::1", HERE, HERE, "::1", "::1", false, false };
	all[n++] = (struct lane){ "own IPv4", HERE, HERE, HERE4, HERE4, false, true };
	all[n++] = (struct lane){ "own IPv6", HERE, HERE, HERE6, HERE6, false, true };
	all[n++] = (struct lane){ "IPv4 up", pair.a, pair.b, PAIR_A4, PAIR_B4, true, true };
	all[n++] = (struct lane){ "IPv4 down", pair.b, pair.a, PAIR_B4, PAIR_A4, true, true };
	all[n++] = (struct lane){ "IPv6 up", pair.a, pair.b, PAIR_A6, PAIR_B6, true, true };
	all[n++] = (struct lane){ "IPv6 down", pair.b, pair.a, PAIR_B6, PAIR_A6, true, true };
	lanes = all;
	lane_count = n;
}

void room_for_big(int fd)
{
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20) == 0);
	NEED(set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20) == 0);
}

struct ends ends_open(const struct lane *lane)
{
	struct ends e = {
		.tx = rds_bound(lane->from_ns, lane->from, 0),
		.rx = rds_bound(lane->to_ns, lane->to, 0),
	};

	e.tx_addr = addr_of(e.tx);
	e.rx_addr = addr_of(e.rx);
	return e;
}

void ends_close(struct ends *e)
{
	close(e->tx);
	close(e->rx);
}

bool delivered(struct ends *e, size_t len, uint64_t seed)
{
	struct addr from;
	ssize_t n;

	pattern_fill(out_buf, len, seed);
	n = rds_send(e->tx, out_buf, len, &e->rx_addr, 0);
	if (n != (ssize_t)len) {
		note("sending %zu bytes gave %zd (%s)", len, n, strerror(errno));
		return false;
	}
	n = rds_recv_soon(e->rx, in_buf, sizeof(in_buf), &from);
	if (n != (ssize_t)len) {
		note("receiving %zu bytes gave %zd (%s)", len, n, n < 0 ? strerror(errno) : "");
		return false;
	}
	if (!addr_same(&from, &e->tx_addr)) {
		note("the sender of %zu bytes is wrong", len);
		return false;
	}
	return pattern_matches(in_buf, len, seed);
}

int main(int argc, char **argv)
{
	argc = ktap_start("rds data", argc, argv);
	if (argc > 1 && !strcmp(argv[1], "--serve"))
		return hosts_serve(argc - 2, argv + 2);
	if (argc > 1 && !strcmp(argv[1], "--client"))
		return hosts_client(argc - 2, argv + 2);
	make_lanes();
	if (argc > 1 && !strcmp(argv[1], "--clock")) {
		data_clock();
		return ktap_finish();
	}
	for (size_t i = 0; i < lane_count; i++) {
		data_sizes(&lanes[i]);
		data_ways(&lanes[i]);
		data_order(&lanes[i]);
		data_stamps(&lanes[i]);
		data_zerocopy(&lanes[i]);
		data_ping(&lanes[i]);
		data_reopen(&lanes[i]);
		if (lanes[i].tcp) {
			data_congestion(&lanes[i]);
			data_blocked(&lanes[i]);
		}
	}
	data_link_local();
	data_cancel();
	return ktap_finish();
}
