// SPDX-License-Identifier: GPL-2.0
/* Several sockets over several connections, and sockets that are opened and closed. */
#include "api.h"

#define SOCKETS 4
#define LINKS 3
#define EACH 100

struct cross {
	int kcm[SOCKETS];
	struct link link[LINKS];
};

static struct cross cross_open(void)
{
	int program = parser_constant(MEDIUM);
	struct cross x;

	x.kcm[0] = kcm_socket(HERE, SOCK_DGRAM);
	for (int i = 1; i < SOCKETS; i++)
		NEED((x.kcm[i] = kcm_clone(x.kcm[0])) >= 0);
	for (int i = 0; i < LINKS; i++) {
		x.link[i] = tcp_link(HERE, AF_INET);
		NEED(kcm_attach(x.kcm[0], x.link[i].near, program) == 0);
	}
	close(program);
	return x;
}

static void cross_close(struct cross *x)
{
	for (int i = 0; i < SOCKETS; i++)
		close(x->kcm[i]);
	for (int i = 0; i < LINKS; i++)
		tcp_link_close(&x->link[i]);
}

/* A message begins with its link, and its number there. */
static void label(char *message, uint32_t link, uint32_t number)
{
	memset(message, 0, MEDIUM);
	memcpy(message, &link, 4);
	memcpy(message + 4, &number, 4);
}

static void receiving(void)
{
	struct cross x = cross_open();
	int by_link[LINKS] = { 0 }, by_kcm[SOCKETS] = { 0 }, total = 0, misordered = 0;
	uint32_t next[SOCKETS][LINKS] = { 0 };
	int64_t until = now_ms() + SOON_MS;
	char message[MEDIUM];

	for (uint32_t n = 0; n < EACH; n++) {
		for (uint32_t l = 0; l < LINKS; l++) {
			label(message, l, n);
			peer_send(x.link[l].far, message, MEDIUM);
		}
	}
	while (total < LINKS * EACH && now_ms() < until) {
		for (int k = 0; k < SOCKETS; k++) {
			uint32_t who[2];

			if (recv(x.kcm[k], buf, sizeof(buf), MSG_DONTWAIT) != MEDIUM)
				continue;
			memcpy(who, buf, sizeof(who));
			NEED(who[0] < LINKS);
			misordered += who[1] < next[k][who[0]];
			next[k][who[0]] = who[1] + 1;
			by_link[who[0]]++;
			by_kcm[k]++;
			total++;
		}
	}
	EXPECT_EQ(total, LINKS * EACH, "crossing: every message is received");
	check(by_link[0] == EACH && by_link[1] == EACH && by_link[2] == EACH, "crossing: as many of each connection");
	EXPECT_EQ(misordered, 0, "crossing: in order for each connection and socket");
	note("per socket: %d %d %d %d", by_kcm[0], by_kcm[1], by_kcm[2], by_kcm[3]);
	check(by_kcm[0] && by_kcm[1] && by_kcm[2] && by_kcm[3], "crossing: by every socket");
	cross_close(&x);
}

static void sending(void)
{
	struct cross x = cross_open();
	int total = 0;
	bool whole = true;
	char message[MEDIUM];

	for (uint32_t n = 0; n < EACH; n++) {
		for (uint32_t k = 0; k < SOCKETS; k++) {
			label(message, k, n);
			NEED(send(x.kcm[k], message, MEDIUM, 0) == MEDIUM);
		}
	}
	for (int l = 0; l < LINKS; l++) {
		while (total < SOCKETS * EACH && polled(x.link[l].far, POLLIN, stretched(100))) {
			uint32_t who[2];

			whole = whole && peer_reads(x.link[l].far, buf, MEDIUM) == MEDIUM;
			memcpy(who, buf, sizeof(who));
			whole = whole && who[0] < SOCKETS && who[1] < EACH;
			total++;
		}
	}
	EXPECT_EQ(total, SOCKETS * EACH, "crossing: every message is sent");
	check(whole, "crossing: each of them whole");
	cross_close(&x);
}

static void churn(void)
{
	struct link l = tcp_link(HERE, AF_INET);

	for (int i = 0; i < 300; i++) {
		int kcm = kcm_socket(HERE, SOCK_DGRAM), clone;

		NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
		NEED((clone = kcm_clone(kcm)) >= 0);
		if (i % 2)
			NEED(kcm_unattach(clone, l.near) == 0);
		close(kcm);
		close(clone);
	}
	check(send(l.near, "plain", 5, 0) == 5 && peer_reads(l.far, buf, 5) == 5, "churn: TCP is as before");
	tcp_link_close(&l);
}

void api_crossing(void)
{
	receiving();
	sending();
	churn();
}
