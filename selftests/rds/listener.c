// SPDX-License-Identifier: GPL-2.0
/*
 * What an administrator can do to the socket that peers connect to, and to connections before RDS accepts them: a program of
 * sockops puts them into a sockmap, which replaces functions of theirs; ss -K closes the port.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "net.h"
#include "parser.h"
#include "rds.h"
#include "util.h"

#define GROUPS "/tmp/groups"

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int map_new(enum bpf_map_type type, unsigned int entries)
{
	union bpf_attr attr = { .map_type = type, .key_size = 4, .value_size = 8, .max_entries = entries };
	int fd = bpf(BPF_MAP_CREATE, &attr);

	NEED(fd >= 0);
	return fd;
}

#define CALL(function) ((struct bpf_insn){ .code = BPF_JMP | BPF_CALL, .imm = (function) })
#define LOAD_WORD(to, from, offset) \
	((struct bpf_insn){ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (to), .src_reg = (from), .off = (offset) })
#define STORE_WORD(to, offset, from) \
	((struct bpf_insn){ .code = BPF_STX | BPF_MEM | BPF_W, .dst_reg = (to), .src_reg = (from), .off = (offset) })
#define UNLESS_EQUAL(reg, value, skip) \
	((struct bpf_insn){ .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = (reg), .imm = (value), .off = (skip) })
#define IF_EQUAL(reg, value, skip) \
	((struct bpf_insn){ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = (reg), .imm = (value), .off = (skip) })
/* The address of a map, in two parts. */
#define LOAD_MAP(to, fd) \
	((struct bpf_insn){ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = (to), .src_reg = BPF_PSEUDO_MAP_FD, .imm = (fd) }), \
		((struct bpf_insn){})
#define COUNT(to) \
	((struct bpf_insn){ .code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = (to), .src_reg = BPF_REG_1, .imm = BPF_ADD })
#define KEY (-4)
#define PATHS 8 /* of a connection of RDS at most, each of which is one of TCP's */

/* Puts each connection that was not opened here into sockets, by its peer's port, and counts those that are in. */
static int put_into(int sockets, int count)
{
	const struct bpf_insn code[] = {
		DO_COPY(BPF_REG_6, BPF_REG_1),
		LOAD_WORD(BPF_REG_2, BPF_REG_6, offsetof(struct bpf_sock_ops, op)),
		UNLESS_EQUAL(BPF_REG_2, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB, 20),
		LOAD_WORD(BPF_REG_2, BPF_REG_6, offsetof(struct bpf_sock_ops, remote_port)),
		STORE_WORD(BPF_REG_10, KEY, BPF_REG_2),
		DO_COPY(BPF_REG_1, BPF_REG_6),
		LOAD_MAP(BPF_REG_2, sockets),
		DO_COPY(BPF_REG_3, BPF_REG_10),
		DO_ADD(BPF_REG_3, KEY),
		DO_SET(BPF_REG_4, BPF_ANY),
		CALL(BPF_FUNC_sock_hash_update),
		UNLESS_EQUAL(BPF_REG_0, 0, 10),
		DO_SET(BPF_REG_1, 0),
		STORE_WORD(BPF_REG_10, KEY, BPF_REG_1),
		LOAD_MAP(BPF_REG_1, count),
		DO_COPY(BPF_REG_2, BPF_REG_10),
		DO_ADD(BPF_REG_2, KEY),
		CALL(BPF_FUNC_map_lookup_elem),
		IF_EQUAL(BPF_REG_0, 0, 2),
		DO_SET(BPF_REG_1, 1),
		COUNT(BPF_REG_0),
		DO_SET(BPF_REG_0, 1),
		DO_EXIT,
	};

	return program_load(BPF_PROG_TYPE_SOCK_OPS, code, ARRAY_SIZE(code));
}

static long long counted(int map)
{
	int key = 0;
	long long value = -1;
	union bpf_attr attr = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)&value };

	NEED(bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0);
	return value;
}

/* Runs program for all sockets of the machine, as long as the descriptor is open. */
static int attach(int program)
{
	union bpf_attr attr = { .link_create = { .prog_fd = program, .attach_type = BPF_CGROUP_SOCK_OPS } };
	int link;

	NEED(mkdir(GROUPS, 0755) == 0 && mount("none", GROUPS, "cgroup2", 0, NULL) == 0);
	attr.link_create.target_fd = open(GROUPS, O_RDONLY);
	link = bpf(BPF_LINK_CREATE, &attr);
	NEED(link >= 0);
	close(attr.link_create.target_fd);
	return link;
}

struct ends {
	struct pair pair;
	int a, b;
};

static struct ends ends_new(void)
{
	struct ends ends = { .pair = pair_new() };

	ends.a = rds_bound(ends.pair.a, PAIR_A4, 4700);
	ends.b = rds_bound(ends.pair.b, PAIR_B4, 4701);
	return ends;
}

static void ends_delete(struct ends *ends)
{
	close(ends->a);
	close(ends->b);
	pair_delete(&ends->pair);
}

static bool send_hello(const struct ends *ends)
{
	struct addr to = addr(PAIR_B4, 4701);

	return rds_send(ends->a, "hello", 5, &to, 0) == 5;
}

static bool hello_came(const struct ends *ends)
{
	char in[8];

	return rds_recv_soon(ends->b, in, sizeof(in), NULL) == 5;
}

static void sockmap(void)
{
	int count = map_new(BPF_MAP_TYPE_ARRAY, 1), sockets = map_new(BPF_MAP_TYPE_SOCKHASH, 65536);
	int program = put_into(sockets, count), link = attach(program);
	struct ends ends = ends_new();

	NEED(send_hello(&ends));
	check(WAIT_UNTIL(SOON_MS, counted(count) > 2 * PATHS),
	      "sockmap: takes connections before they are accepted, again and again");
	note("%lld connections", counted(count));
	close(link);
	check(hello_came(&ends), "sockmap: RDS has none of those, and the first one afterwards");
	close(program);
	close(sockets);
	close(count);
	check(send_hello(&ends) && hello_came(&ends), "sockmap: the map goes");
	ends_delete(&ends);
}

/* The shell's command in ns; what it prints is in text. */
static void run_in(int ns, const char *command, char *text, size_t size)
{
	int self = netns_self();
	FILE *out;

	netns_enter(ns);
	out = popen(command, "r");
	NEED(out);
	text[fread(text, 1, size - 1, out)] = 0;
	pclose(out);
	netns_enter(self);
	close(self);
}

/* What ss(8) shows of the listener in ns, with its cookie; empty when there is none. */
static const char *listener_in(int ns)
{
	static char text[2][512];
	static unsigned int turn;

	turn = !turn;
	run_in(ns, "ss -Hlnte sport = :16385", text[turn], sizeof(text[turn]));
	return text[turn];
}

static void closed_by_administrator(void)
{
	struct ends ends = ends_new();
	const char *first = listener_in(ends.pair.b), *next = "";
	char killed[512];

	NEED(strstr(first, " sk:"));
	check(send_hello(&ends) && hello_came(&ends), "ss -K: a connection");
	run_in(ends.pair.b, "ss -HKlnt sport = :16385", killed, sizeof(killed));
	NEED(strstr(killed, ":16385"));
	check(WAIT_UNTIL(SOON_MS, strstr(next = listener_in(ends.pair.b), " sk:") && strcmp(first, next)),
	      "ss -K: RDS listens again");
	check(send_hello(&ends) && hello_came(&ends), "ss -K of the listener: the connection stays");
	run_in(ends.pair.a, "ss -HKnt dport = :16385", killed, sizeof(killed));
	check(strstr(killed, ":16385") && send_hello(&ends) && hello_came(&ends), "ss -K of the connection: there is a next one");
	ends_delete(&ends);
}

int main(int argc, char **argv)
{
	ktap_start("rds listener", argc, argv);
	closed_by_administrator();
	sockmap();
	return ktap_finish();
}
