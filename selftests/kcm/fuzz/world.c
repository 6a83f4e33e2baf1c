// SPDX-License-Identifier: GPL-2.0
/* Namespaces that are made and removed with sockets and connections in them, and the final tests. */
#include "fuzz.h"

#include <sys/resource.h>

#define MARK "doomed" /* a link whose other end is removed with the namespace */

static void fill(struct caller *c, int ns)
{
	for (int i = 0; i < 2; i++) {
		struct link l = make_link(c, ns);

		into(c, NEAR, l.near);
		into(c, FAR, l.far);
		into(c, WILD, kcm_socket(ns, chance(c, 2) ? SOCK_DGRAM : SOCK_SEQPACKET));
	}
}

/*
 * A connection attached in another namespace holds its own namespace until it is unattached. All wild sockets are closed
 * for that once a second only: a namespace that waits long for TCP must not leave the others' calls without a socket.
 */
static void let_go(uint64_t cookie, int64_t *all_at)
{
	bool all = now_ms() >= *all_at;

	pool_evict(cookie, all);
	if (all)
		*all_at = now_ms() + stretched(1000);
}

static bool ends(uint64_t cookie)
{
	int64_t all_at = now_ms() + stretched(1000);

	return WAIT_UNTIL(DRAINED_MS, (let_go(cookie, &all_at), net_index(HERE, MARK) == 0));
}

static void one_host(struct caller *c)
{
	int ns = netns_new(), fd = kcm_socket(ns, SOCK_DGRAM);
	uint64_t cookie = cookie_of(fd);
	bool gone;

	close(fd);
	net_veth(HERE, MARK, ns, MARK);
	begin(c, K_NAMESPACE);
	fill(c, ns);
	nap_us(pick(c, 500000));
	fill(c, ns);
	nap_us(pick(c, 100000));
	close(ns);
	begin(c, K_NAMESPACE);
	gone = ends(cookie);
	ended(c, gone - 1);
	if (!gone)
		note("a namespace whose sockets are closed is not removed");
	NEED(gone);
}

void janitor(struct caller *c)
{
	/* Its few calls have the same weight as the many of all others. */
	NEED(setpriority(PRIO_PROCESS, gettid(), -10) == 0);
	do {
		one_host(c);
		nap_us(pick(c, 100000));
	} while (!over());
}

/* ---- afterwards */

static bool exchange(int type, int family, size_t size)
{
	struct link l = tcp_link(HERE, family);
	int kcm = kcm_socket(HERE, type);
	bool well = kcm_attach(kcm, l.near, parser_framed()) == 0;

	peer_send_frame(l.far, size, size);
	well = well && kcm_takes(kcm, size, size) && kcm_sends(kcm, size, size + 1) && peer_takes(l.far, size, size + 1);
	if (!well)
		note("%zu bytes, type %d, family %d", size, type, family);
	close(kcm);
	tcp_link_close(&l);
	return well;
}

bool all_is_well(void)
{
	static const size_t sizes[] = { 4, 5, 300, 5000, 60000 };
	bool well = true;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (int type = SOCK_DGRAM; type <= SOCK_SEQPACKET; type += SOCK_SEQPACKET - SOCK_DGRAM)
			well = exchange(type, AF_INET, sizes[i]) && exchange(type, AF_INET6, sizes[i]) && well;
	return well;
}
