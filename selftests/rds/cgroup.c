// SPDX-License-Identifier: GPL-2.0
/*
 * A program in a memory cgroup makes RDS hold as much as possible, in every way: it is charged for that and refused with
 * ENOMEM at its limit, nothing is killed, programs outside of the cgroup work on, and the memory is freed at its end. The same
 * without a cgroup, for a user who fills as many sockets as possible.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define ROOT "/cgroup"
#define GROUP ROOT "/hungry"
#define MIB (1 << 20)
#define LIMIT_MIB 64
/* Memory above the limit that the kernel grants where it cannot wait, and memory that it charges late. */
#define ABOVE_MIB 12
#define SOCKETS 900
#define PORT 5000
#ifndef SO_RESERVE_MEM
#define SO_RESERVE_MEM 73
#endif
#define USER 1000

static char text[64 << 10];
static struct pair pair;

/* The number after @key in a file of lines "key number", or the first number of the file when @key is empty. */
static long long number_in(const char *path, const char *key)
{
	static char content[8192];
	char *at;

	NEED(read_file(path, content, sizeof(content)));
	at = *key ? strstr(content, key) : content;
	NEED(at);
	return atoll(at + strlen(key));
}

static long long charged_mib(void)
{
	return number_in(GROUP "/memory.current", "") / MIB;
}

static long long available_mib(void)
{
	return number_in("/proc/meminfo", "MemAvailable:") / 1024;
}

/* How much less there is than @before; what TCP and RCU still have in flight does not count when it is above @limit. */
static long long memory_gone(long long before, long long limit)
{
	long long gone;

	WAIT_UNTIL(SOON_MS, (gone = before - available_mib()) <= limit);
	return gone;
}

static void group_create(void)
{
	char limit[32];

	NEED(mkdir(ROOT, 0755) == 0 && mount("none", ROOT, "cgroup2", 0, NULL) == 0);
	NEED(write_file(ROOT "/cgroup.subtree_control", "+memory") == 0);
	NEED(mkdir(GROUP, 0755) == 0);
	snprintf(limit, sizeof(limit), "%d", LIMIT_MIB * MIB);
	NEED(write_file(GROUP "/memory.max", limit) == 0);
}

/* Messages go through from outside of the cgroup, here and between hosts. */
static bool others_work(void)
{
	int a = rds_bound(pair.a, PAIR_A4, 0), b = rds_bound(pair.b, PAIR_B4, 0);
	int tx = rds_bound(HERE, "127.0.0.1", 0), rx = rds_bound(HERE, "127.0.0.1", 0);
	struct addr to_b = addr_of(b), to_rx = addr_of(rx);
	char in[8];
	bool work = rds_send(a, "hello", 5, &to_b, 0) == 5 && rds_recv_soon(b, in, sizeof(in), NULL) == 5 &&
		    rds_send(tx, "hello", 5, &to_rx, 0) == 5 && rds_recv_soon(rx, in, sizeof(in), NULL) == 5;

	close(a);
	close(b);
	close(tx);
	close(rx);
	return work;
}

/* Runs in the cgroup. Its memory and sockets exist before, so that only RDS allocates more. */
struct hungry {
	int socket[SOCKETS];
	int refused; /* the errno of the first call that failed with more than EAGAIN */
	unsigned int sent;
	int done; /* read and written atomically */
};

static void open_all(struct hungry *h, int ns, const char *address)
{
	for (int i = 0; i < SOCKETS; i++)
		h->socket[i] = rds_bound(ns, address, PORT + i);
}

/* False: stop, with the reason in @refused. */
static bool one_more(struct hungry *h, int fd, size_t len, const struct addr *to)
{
	if (rds_send(fd, text, len, to, MSG_DONTWAIT) == (ssize_t)len) {
		h->sent++;
		return true;
	}
	if (errno != EAGAIN && errno != ENOBUFS)
		h->refused = errno;
	return false;
}

/* To hosts that do not answer: messages stay in the sockets. */
static void unsent(struct hungry *h, size_t len)
{
	struct addr to = addr("10.99.99.99", PORT);

	for (int i = 0; i < SOCKETS && !h->refused; i++)
		while (one_more(h, h->socket[i], len, &to))
			;
}

static void unsent_small(struct hungry *h)
{
	open_all(h, pair.a, PAIR_A4);
	unsent(h, 100);
}

static void unsent_large(struct hungry *h)
{
	open_all(h, pair.a, PAIR_A4);
	unsent(h, sizeof(text) - 1);
}

/* Every socket to every other, without receiving; then into the send buffers. */
static void loopback(struct hungry *h)
{
	open_all(h, HERE, "127.0.0.1");
	for (int i = 0; i < SOCKETS && !h->refused; i++) {
		struct addr to = addr("127.0.0.1", PORT + i);

		for (int n = 0; n < 30 && one_more(h, h->socket[(i + n) % SOCKETS], sizeof(text) - 1, &to); n++)
			;
	}
}

/* Tiny messages of others, which cost hundreds of times their size. */
static void received(struct hungry *h)
{
	open_all(h, pair.b, PAIR_B4);
}

static unsigned int send_to_hungry(void)
{
	int tx[8];
	struct hungry out = { .sent = 0 };
	int64_t end = now_ms() + 6 * SOON_MS; /* where the room comes back slowly, it would go on for hours */

	for (size_t i = 0; i < ARRAY_SIZE(tx); i++)
		tx[i] = rds_bound(pair.a, PAIR_A4, 0);
	for (int i = 0; i < 200; i++) {
		struct addr to = addr(PAIR_B4, PORT + i);

		for (int n = 0; n < 2000; n++) {
			int fd = tx[n % ARRAY_SIZE(tx)];

			if (now_ms() > end || !WAIT_UNTIL(stretched(2000), one_more(&out, fd, 1, &to)))
				goto full;
		}
	}
full:
	for (size_t i = 0; i < ARRAY_SIZE(tx); i++)
		close(tx[i]);
	return out.sent;
}

/* A debug kernel keeps a record of each allocation, and for a while what was freed: nobody is charged for that. */
static long long debug_mib(void)
{
	return access("/sys/kernel/debug/kmemleak", F_OK) ? 0 : 2 * LIMIT_MIB;
}

struct way {
	const char *name;
	void (*eat)(struct hungry *h);
	unsigned int (*feed)(void); /* from outside, when it is ready; or NULL */
	bool refused; /* must end with ENOMEM */
};

static const struct way ways[] = {
	{ "small messages that are not sent", unsent_small, NULL, true },
	{ "large messages that are not sent", unsent_large, NULL, true },
	{ "loopback", loopback, NULL, false },
	{ "tiny messages received", received, send_to_hungry, false },
};

/* Reports its errno in existing memory (a pipe would need more), and then keeps its memory. */
static _Noreturn void hungry_main(const struct way *way, struct hungry *h)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", getpid());
	if (mlockall(MCL_CURRENT | MCL_FUTURE) || write_file(GROUP "/cgroup.procs", pid))
		_exit(1);
	way->eat(h);
	__atomic_store_n(&h->done, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void try_way(const struct way *way)
{
	long long before = available_mib(), most = LIMIT_MIB + 3 * ABOVE_MIB + debug_mib(), charged, gone;
	struct hungry *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int fed = 0;
	pid_t child;

	NEED(h != MAP_FAILED);
	memset(h, 0, sizeof(*h));
	child = fork();
	NEED(child >= 0);
	if (!child)
		hungry_main(way, h);
	WAIT_UNTIL(6 * SOON_MS, __atomic_load_n(&h->done, __ATOMIC_ACQUIRE) || waitpid(child, NULL, WNOHANG) == child);
	if (!check(__atomic_load_n(&h->done, __ATOMIC_ACQUIRE), "%s: the program is not killed", way->name)) {
		child = kill(child, 0) == 0 ? child : 0;
		goto end;
	}
	if (way->feed)
		fed = way->feed();
	charged = charged_mib();
	gone = memory_gone(before, most);
	note("%s: %u sent, %u fed, refused with %s; %lld MiB are charged, %lld are gone", way->name, h->sent, fed,
	     h->refused ? strerror(h->refused) : "nothing", charged, gone);
	check(h->refused == ENOMEM || (!h->refused && !way->refused), "%s: ENOMEM", way->name);
	check(charged >= LIMIT_MIB / 2, "%s: is charged", way->name);
	check(charged <= LIMIT_MIB + ABOVE_MIB, "%s: not above the limit", way->name);
	check(gone <= most, "%s: and nothing beside it", way->name);
	if (!way->feed)
		check(others_work(), "%s: others work", way->name);
end:
	if (child) {
		kill(child, SIGKILL);
		NEED(waitpid(child, NULL, 0) == child);
	}
	munmap(h, sizeof(*h));
	check(WAIT_UNTIL(SOON_MS, charged_mib() <= 4), "%s: memory is freed", way->name);
	check(others_work(), "%s: others work afterwards", way->name);
}

/* Reserved memory would be in the socket's accounts, which are changed under another lock than this option takes. */
static void try_reserve(void)
{
	pid_t child = fork();
	int status = -1;

	NEED(child >= 0);
	if (!child) {
		int bytes = MIB, tcp, rds;
		char pid[16];

		snprintf(pid, sizeof(pid), "%d", getpid());
		if (write_file(GROUP "/cgroup.procs", pid))
			_exit(1);
		tcp = socket(AF_INET, SOCK_STREAM, 0);
		rds = socket(AF_RDS, SOCK_SEQPACKET, 0);
		if (setsockopt(tcp, SOL_SOCKET, SO_RESERVE_MEM, &bytes, sizeof(bytes)))
			_exit(2); /* or nothing is tested */
		if (!setsockopt(rds, SOL_SOCKET, SO_RESERVE_MEM, &bytes, sizeof(bytes)) || errno != EOPNOTSUPP)
			_exit(3);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0, "SO_RESERVE_MEM: EOPNOTSUPP in a cgroup, where TCP has it");
}

/* Many sockets of a user, each filled to its limit: together above the user's limit. */
static void try_user(void)
{
	static struct hungry h, out;
	long long before = available_mib(), gone;
	long long share = number_in("/proc/meminfo", "MemTotal:") / 1024 / 8;
	int tx[8];

	/* The real user owns the sockets; entering the namespace needs root's rights. */
	NEED(setresuid(USER, 0, 0) == 0);
	open_all(&h, pair.b, PAIR_B4);
	NEED(setresuid(0, 0, 0) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(tx); i++)
		tx[i] = rds_bound(pair.a, PAIR_A4, 0);
	for (int i = 0; i < 8 * SOCKETS; i++) {
		struct addr to = addr(PAIR_B4, PORT + i % SOCKETS);
		int fd = tx[i % ARRAY_SIZE(tx)];

		if (i % 64 == 0)
			nap_us(10000); /* congestion is signalled with pauses of 5 ms; what is sent meanwhile can stop the path */
		if (!one_more(&out, fd, 16 << 10, &to) && errno == EAGAIN &&
		    !WAIT_UNTIL(SOON_MS, one_more(&out, fd, 16 << 10, &to) || errno == ENOBUFS)) {
			note("many sockets: the path stands still after %d messages", i);
			break;
		}
	}
	check(others_work(), "many sockets: others work");
	gone = memory_gone(before, share + 4 * ABOVE_MIB);
	note("many sockets: %u sent, %lld MiB are gone; a user may have %lld", out.sent, gone, share);
	/* On a machine with much memory the share is more than what was offered. */
	check(out.sent / 64 > share / 2 || out.sent > 6 * SOCKETS, "many sockets: are full");
	check(gone <= share + 4 * ABOVE_MIB, "many sockets: their user does not exceed its share");
	for (size_t i = 0; i < ARRAY_SIZE(tx); i++)
		close(tx[i]);
	for (size_t i = 0; i < SOCKETS; i++)
		close(h.socket[i]);
	check(WAIT_UNTIL(SOON_MS, before - available_mib() <= ABOVE_MIB), "many sockets: memory is freed");
	check(others_work(), "many sockets: others work afterwards");
}

int main(int argc, char **argv)
{
	ktap_start("rds cgroup", argc, argv);
	memset(text, 'x', sizeof(text));
	pair = pair_new();
	group_create();
	NEED(others_work());
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		try_way(&ways[i]);
	EXPECT_EQ(number_in(GROUP "/memory.events", "oom_kill "), 0, "no program was killed");
	try_reserve();
	try_user();
	NEED(rmdir(GROUP) == 0);
	umount(ROOT);
	pair_delete(&pair);
	return ktap_finish();
}
