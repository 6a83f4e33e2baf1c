// SPDX-License-Identifier: GPL-2.0
/*
 * rdma_fuzz OWN PEER [SEED [SECONDS]]
 *
 * SEED determines each thread's calls, their order and arguments; not how the threads, and the hosts, interleave.
 */
#include "rdma_fuzz.h"

#define CALM_MS 4000
#define WILD_MS 2500

/* Both hosts begin together, and so have the same times calm; the first one, when they are connected. */
static int64_t begun_ms;

bool is_calm(void)
{
	return (now_ms() - begun_ms) % stretched(CALM_MS + WILD_MS) < stretched(CALM_MS);
}

/* A region is registered on a connection. */
static void connect_hosts(void)
{
	int fd = rds_bound(HERE, own_ip, 5299), tries = 0;
	struct addr to = addr(peer_ip, 5299);
	uint64_t cookie = 0;
	char memory[16];
	struct rds_get_mr_for_dest_args args = { .vec = { (uintptr_t)memory, sizeof(memory) },
						 .cookie_addr = (uintptr_t)&cookie,
						 .flags = RDS_RDMA_READWRITE };

	memcpy(&args.dest_addr, &to.sa, to.len);
	while (setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args)))
		NEED(errno == EAGAIN && tries++ < 10);
	close(fd);
}

static void any_call(struct caller *c)
{
	switch (pick(c, 100)) {
	case 0 ... 14:
		return call_send(c);
	case 15 ... 44:
		return call_operation(c);
	case 45 ... 79:
		return call_receive(c);
	case 80 ... 88:
		return call_get_mr(c);
	case 89 ... 92:
		return is_calm() ? call_send(c) : call_free_mr(c);
	case 93 ... 98:
		return call_socket(c);
	default:
		return odd(c, 5) ? call_process(c) : call_receive(c);
	}
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
#define FUZZ_ROW(id, text, expected) { text, expected },
		FUZZ_KINDS(FUZZ_ROW)
#undef FUZZ_ROW
	};
	const struct storm rdma = {
		.kinds = kinds,
		.kind_count = KINDS,
		.open = pool_open,
		.call = any_call,
		.helpers = { janitor },
		.fork_kind = K_FORK,
		.complete = devices_came,
	};

	argc = ktap_start("rds rdma fuzz", argc, argv);
	NEED(argc >= 3);
	own_ip = argv[1];
	peer_ip = argv[2];
	regions_open();
	connect_hosts();
	begun_ms = now_ms();
	storm(&rdma, argc - 2, argv + 2);
	pool_close();
	storm_verdict();
	check(regions_hold(), "nothing around the memory for peers was changed");
	return ktap_finish();
}
