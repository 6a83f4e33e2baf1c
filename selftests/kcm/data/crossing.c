// SPDX-License-Identifier: GPL-2.0
/* Many sockets over many connections, in both directions at the same time. */
#include "data.h"

#define SOCKETS 4
#define LINKS 3
#define TO_KCM 1500 /* messages of each connection */
#define FROM_KCM 1000 /* messages of each socket */

static void crossing(int type, const char *name, bool mixed)
{
	struct worker reads[SOCKETS], writes[SOCKETS], peer_reads_all[LINKS], peer_writes_all[LINKS];
	struct ledger *in = ledger_new(mixed, LINKS, TO_KCM, SOCKETS);
	struct ledger *out = ledger_new(mixed, SOCKETS, FROM_KCM, LINKS);
	const char *kind = message_kind(mixed);
	struct link link[LINKS];

	for (uint32_t i = 0; i < SOCKETS; i++) {
		int kcm = i ? kcm_clone(reads[0].fd) : kcm_socket(HERE, type);

		NEED(kcm >= 0);
		reads[i] = (struct worker){ kcm, in, i };
		writes[i] = (struct worker){ kcm, out, i };
	}
	for (uint32_t i = 0; i < LINKS; i++) {
		link[i] = data_link(i % 2 ? AF_INET6 : AF_INET);
		NEED(kcm_attach(reads[0].fd, link[i].near, message_parser(mixed)) == 0);
		peer_reads_all[i] = (struct worker){ link[i].far, out, i };
		peer_writes_all[i] = (struct worker){ link[i].far, in, i };
	}
	workers_start(reads, SOCKETS, kcm_reads);
	workers_start(peer_reads_all, LINKS, peer_gets);
	workers_start(peer_writes_all, LINKS, peer_writes);
	workers_start(writes, SOCKETS, kcm_writes);
	WAIT_UNTIL(4 * SOON_MS, ledger_over(in) && ledger_over(out));
	in->stop = out->stop = true;
	/* A stuck connection would block its writers without end. */
	for (int i = 0; i < LINKS; i++)
		shutdown(link[i].far, SHUT_RDWR);
	workers_join(reads, SOCKETS);
	workers_join(peer_reads_all, LINKS);
	check(ledger_complete(in), "crossing: %s, %s: every message to KCM, once and whole", name, kind);
	EXPECT_EQ(in->misordered, 0, "crossing: %s, %s: in order for each connection and socket", name, kind);
	check(ledger_complete(out), "crossing: %s, %s: every message from KCM, once and whole", name, kind);
	EXPECT_EQ(out->misordered, 0, "crossing: %s, %s: in order for each socket and connection", name, kind);
	workers_join(peer_writes_all, LINKS);
	workers_join(writes, SOCKETS);
	for (int i = 0; i < SOCKETS; i++)
		close(reads[i].fd);
	for (int i = 0; i < LINKS; i++)
		tcp_link_close(&link[i]);
	ledger_delete(in);
	ledger_delete(out);
}

void data_crossing(bool mixed)
{
	crossing(SOCK_DGRAM, "SOCK_DGRAM", mixed);
	crossing(SOCK_SEQPACKET, "SOCK_SEQPACKET", mixed);
}
