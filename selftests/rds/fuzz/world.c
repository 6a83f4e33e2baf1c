// SPDX-License-Identifier: GPL-2.0
/*
 * Four hosts: this namespace, a and b, which last and communicate over TCP, and one that is made and ended again
 * and again. Links, addresses and settings of lasting hosts are disturbed for short times, and restored at the end.
 */
#include "fuzz.h"

#include <sys/resource.h>

#define DOOMED_A4 "10.80.0.1"
#define DOOMED_4 "10.80.0.2"
#define DOOMED_A6 "fd80::1"
#define DOOMED_6 "fd80::2"

static struct pair pair;
static int namespaces[HOMES] = { HERE, -1, -1, -1 };
static unsigned int pair_index[2]; /* of the link, the scope of its local addresses */

int home_ns(int home)
{
	return __atomic_load_n(&namespaces[home], __ATOMIC_RELAXED);
}

static void local_addresses(bool add)
{
	net_address(pair.a, "pair", "fe80::a/64", add);
	net_address(pair.b, "pair", "fe80::b/64", add);
}

/* Addresses of the pair that are removed when their link goes down. */
static void global_addresses(void)
{
	net_address(pair.a, "pair", PAIR_A6 "/64", true);
	net_address(pair.b, "pair", PAIR_B6 "/64", true);
	local_addresses(true);
}

void world_open(void)
{
	here_addresses();
	pair = pair_new();
	namespaces[AT_A] = pair.a;
	namespaces[AT_B] = pair.b;
	pair_index[0] = net_index(pair.a, "pair");
	pair_index[1] = net_index(pair.b, "pair");
	local_addresses(true);
	net_address(pair.a, "pair", STRANGER "/24", true);
	net_address(pair.b, "pair", STRANGERS_VICTIM "/24", true);
}

void world_close(void)
{
	pair_delete(&pair);
}

/* ---- addresses of sockets and of their peers */

static struct addr port_of(struct caller *c, struct addr a)
{
	/* Few ports, so that most messages find a socket; sometimes a special port. */
	addr_set_port(&a, chance(c, 16) ? any_number(c) : 4900 + pick(c, 5));
	return a;
}

static struct addr link_local(int home, bool other)
{
	bool at_b = home == AT_B;
	struct addr a = addr(at_b != other ? "fe80::b" : "fe80::a", 0);

	a.in6.sin6_scope_id = pair_index[at_b];
	return a;
}

struct addr own_place(struct caller *c, int home, bool six)
{
	static const char *const own[HOMES][2] = {
		[AT_HERE] = { HERE4, HERE6 },
		[AT_A] = { PAIR_A4, PAIR_A6 },
		[AT_B] = { PAIR_B4, PAIR_B6 },
		[AT_DOOMED] = { DOOMED_4, DOOMED_6 },
	};

	if (six && (home == AT_A || home == AT_B) && chance(c, 6))
		return port_of(c, link_local(home, false));
	if (chance(c, 4))
		return port_of(c, addr(six ? "::1" : "127.0.0.1", 0));
	return port_of(c, addr(own[home][six], 0));
}

struct addr far_place(struct caller *c, int home, bool six)
{
	static const char *const far[HOMES][2] = {
		[AT_HERE] = { HERE4, HERE6 },
		[AT_A] = { PAIR_B4, PAIR_B6 },
		[AT_B] = { PAIR_A4, PAIR_A6 },
		[AT_DOOMED] = { DOOMED_A4, DOOMED_A6 },
	};

	if (chance(c, 6))
		return own_place(c, home, six);
	if (home == AT_A && chance(c, 6))
		return port_of(c, addr(six ? DOOMED_6 : DOOMED_4, 0));
	if (six && (home == AT_A || home == AT_B) && chance(c, 6))
		return port_of(c, link_local(home, true));
	return port_of(c, addr(far[home][six], 0));
}

bool reachable(int home, int other)
{
	return home == other || (home == AT_A && other != AT_HERE) || (home != AT_HERE && other == AT_A);
}

struct addr odd_place(struct caller *c)
{
	static const char *const odd[] = { "0.0.0.0",	"255.255.255.255", "224.0.0.1", "192.0.2.1",
					   "127.0.0.2", "::",		   "ff02::1",	"fe80::a",
					   "fe80::a%1", "::ffff:10.77.0.1", "2001:db8::1", "::127.0.0.1" };
	struct addr a = port_of(c, addr(ANY_OF(c, odd), 0));

	if (chance(c, 4))
		a.sa.sa_family = any_number(c);
	if (a.len == sizeof(a.in6) && chance(c, 4))
		a.in6.sin6_scope_id = any_number(c);
	a.len = chance(c, 2) ? odd_length(c, a.len) : a.len;
	return a;
}

/* ---- the janitor */

static void one_setting(struct caller *c, bool is_bad)
{
	/* Limits let a host recover soon; bad values are used in all namespaces. */
	static const struct {
		const char *path;
		unsigned int min, max;
	} values[] = {
		{ "/proc/sys/net/rds/reconnect_min_delay_ms", 1, 50 },
		{ "/proc/sys/net/rds/reconnect_max_delay_ms", 100, 1000 },
		{ "/proc/sys/net/rds/max_unacked_packets", 0, 100 },
		{ "/proc/sys/net/rds/max_unacked_bytes", 0, 1 << 24 },
		{ "/proc/sys/net/rds/ping_enable", 0, 1 },
		{ "/proc/sys/net/rds/congestion_refresh_ms", 10, 1000 },
		{ "/proc/sys/net/rds/receive_limit_factor", 2, 8 },
		{ "/proc/sys/net/rds/send_limit_max", 0, 1 << 24 },
		{ "/proc/sys/net/rds/tcp/rds_tcp_sndbuf", 4608, 1 << 20 },
		{ "/proc/sys/net/rds/tcp/rds_tcp_rcvbuf", 2304, 1 << 20 },
		{ "/proc/sys/net/rds/tcp/rds_tcp_dead_peer_ms", 1000, 60000 },
	};
	static const char *const bad[] = { "-1", "99999999999999999999", "text", "4294967296" };
	int which = pick(c, ARRAY_SIZE(values)), home = netns_self();
	char text[32];

	snprintf(text, sizeof(text), "%u",
		 values[which].min + (unsigned int)pick(c, values[which].max - values[which].min + 1));
	if (home_ns(pick(c, AT_DOOMED)) != HERE)
		netns_enter(chance(c, 2) ? pair.a : pair.b);
	if (is_bad)
		CALL(c, K_SYSCTL_BAD, write_file(values[which].path, ANY_OF(c, bad)));
	else
		CALL(c, K_SYSCTL, write_file(values[which].path, text));
	CALL(c, K_SYSCTL, read_file(values[which].path, text, sizeof(text)) - 1);
	netns_enter(home);
	close(home);
}

static void settings(struct caller *c)
{
	one_setting(c, true);
	for (int i = 0; i < 4; i++)
		one_setting(c, false);
}

static void addresses(struct caller *c)
{
	static const struct {
		int home;
		const char *link, *cidr;
	} disturbed[] = {
		{ AT_HERE, "lo", HERE4 "/32" },	   { AT_HERE, "lo", HERE6 "/128" }, { AT_A, "pair", PAIR_A4 "/24" },
		{ AT_A, "pair", PAIR_A6 "/64" },   { AT_B, "pair", PAIR_B4 "/24" }, { AT_B, "pair", PAIR_B6 "/64" },
		{ AT_A, "pair", "fe80::a/64" },
	};
	int which = pick(c, ARRAY_SIZE(disturbed)), ns = home_ns(disturbed[which].home);

	begin(c, K_ADDRESS);
	net_address(ns, disturbed[which].link, disturbed[which].cidr, false);
	nap_us(pick(c, 100000));
	net_address(ns, disturbed[which].link, disturbed[which].cidr, true);
	ended(c, 0);
}

static void links(struct caller *c)
{
	int ns = chance(c, 2) ? pair.a : pair.b;

	begin(c, K_LINK);
	net_set_up(ns, "pair", false);
	nap_us(pick(c, 100000));
	net_set_up(ns, "pair", true);
	global_addresses();
	ended(c, 0);
}

static int begin_host(uint64_t *cookie)
{
	int ns = netns_new(), fd = rds_socket(ns);

	*cookie = cookie_of(fd);
	close(fd);
	net_veth(pair.a, "doomed", ns, "doomed");
	net_address(pair.a, "doomed", DOOMED_A4 "/24", true);
	net_address(pair.a, "doomed", DOOMED_A6 "/64", true);
	net_address(ns, "doomed", DOOMED_4 "/24", true);
	net_address(ns, "doomed", DOOMED_6 "/64", true);
	return ns;
}

/* A host is made, used for a while, and removed while in use. */
static void hosts(struct caller *c)
{
	uint64_t cookie;
	int ns = begin_host(&cookie);
	bool gone;

	begin(c, K_NAMESPACE);
	__atomic_store_n(&namespaces[AT_DOOMED], ns, __ATOMIC_RELAXED);
	nap_us(pick(c, 700000));
	__atomic_store_n(&namespaces[AT_DOOMED], -1, __ATOMIC_RELAXED);
	close(ns);
	/* A socket may be about to enter the pool, and a child process may hold some for a short time. */
	gone = WAIT_UNTIL(4 * SOON_MS, (pool_evict(cookie), net_index(pair.a, "doomed") == 0));
	ended(c, gone - 1);
	if (!gone)
		note("a namespace whose sockets are closed is not removed");
	NEED(gone);
}

static void one_change(struct caller *c, unsigned int which)
{
	switch (which) {
	case 0:
		return links(c);
	case 1:
		return addresses(c);
	case 2:
	case 3:
		return hosts(c);
	case 4:
		return destroy_connections(c, chance(c, 2) ? pair.a : pair.b);
	default:
		return settings(c);
	}
}

static int rounds;

bool world_was_changed(void)
{
	return __atomic_load_n(&rounds, __ATOMIC_RELAXED);
}

void janitor(struct caller *c)
{
	/* Its few calls have the same weight as the many of all others. */
	NEED(setpriority(PRIO_PROCESS, gettid(), -10) == 0);
	for (int which = 0; which < 8; which++)
		one_change(c, which);
	__atomic_store_n(&rounds, 1, __ATOMIC_RELAXED);
	while (!over()) {
		one_change(c, pick(c, 8));
		nap_us(pick(c, 30000));
	}
}

/* ---- afterwards */

static bool exchange(int from_ns, const char *from_text, int to_ns, const char *to_text, size_t size)
{
	static char out[LARGEST], in[LARGEST];
	int tx = rds_bound(from_ns, from_text, 0), rx = rds_bound(to_ns, to_text, 0);
	struct addr to = addr_of(rx), from, want = addr_of(tx);
	bool well;

	set_int(tx, SOL_SOCKET, SO_SNDBUFFORCE, 4 * LARGEST);
	pattern_fill(out, size, size);
	well = WAIT_UNTIL(SOON_MS, rds_send(tx, out, size, &to, MSG_DONTWAIT) == (ssize_t)size) &&
	       rds_recv_soon(rx, in, sizeof(in), &from) == (ssize_t)size && pattern_matches(in, size, size) &&
	       addr_same(&from, &want);
	if (!well)
		note("%zu bytes from %s to %s", size, from_text, to_text);
	close(tx);
	close(rx);
	return well;
}

bool all_is_well(void)
{
	const struct {
		int from_ns, to_ns;
		const char *from, *to;
	} ways[] = {
		{ HERE, HERE, "127.0.0.1", "127.0.0.1" }, { HERE, HERE, "::1", "::1" },
		{ HERE, HERE, HERE4, HERE4 },		  { HERE, HERE, HERE6, HERE6 },
		{ pair.a, pair.b, PAIR_A4, PAIR_B4 },	  { pair.b, pair.a, PAIR_B4, PAIR_A4 },
		{ pair.a, pair.b, PAIR_A6, PAIR_B6 },	  { pair.b, pair.a, PAIR_B6, PAIR_A6 },
		{ pair.a, pair.a, "127.0.0.1", "127.0.0.1" }, { pair.b, pair.b, PAIR_B6, PAIR_B6 },
	};
	static const size_t sizes[] = { 0, 1, 5000, 100000, MAX_MESSAGE };
	bool well = true;

	for (size_t w = 0; w < ARRAY_SIZE(ways); w++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
			well = exchange(ways[w].from_ns, ways[w].from, ways[w].to_ns, ways[w].to, sizes[s]) && well;
	return well;
}
