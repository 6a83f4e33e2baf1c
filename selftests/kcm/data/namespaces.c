// SPDX-License-Identifier: GPL-2.0
/*
 * KCM sockets of one namespace over TCP sockets of another, whose peers are in a third. Their program is killed
 * under traffic: both namespaces are removed, and its peers have received only whole messages.
 */
#include "data.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/wait.h>

#define SOCKETS 3
#define LINKS 3
#define MANY 100000 /* never reached */
#define ENOUGH 200
#define ROUNDS 4
#define OUTSIDE "10.77.0.1"
#define INSIDE "10.77.0.2"

struct scene {
	struct link link[LINKS];
	int kcm[SOCKETS];
};

static struct link link_between(int inside, int listener)
{
	struct addr to = addr_of(listener);
	struct link l = { .near = socket_in(inside, AF_INET, SOCK_STREAM, 0) };

	NEED(l.near >= 0 && connect(l.near, &to.sa, to.len) == 0);
	l.far = accept(listener, NULL, NULL);
	NEED(l.far >= 0);
	return l;
}

/* Namespaces held only by the sockets in them. A link out of each disappears with it. */
static struct scene scene_open(void)
{
	int of_kcm = netns_new(), of_tcp = netns_new();
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct addr here = addr(OUTSIDE, 0);
	struct scene s;

	net_veth(of_kcm, "inner", HERE, "to-kcm");
	net_veth(of_tcp, "inner", HERE, "to-tcp");
	net_address(of_tcp, "inner", INSIDE "/24", true);
	net_address(HERE, "to-tcp", OUTSIDE "/24", true);
	NEED(bind(listener, &here.sa, here.len) == 0 && listen(listener, LINKS) == 0);
	for (int i = 0; i < SOCKETS; i++)
		s.kcm[i] = i ? kcm_clone(s.kcm[0]) : kcm_socket(of_kcm, SOCK_DGRAM);
	for (int i = 0; i < LINKS; i++) {
		s.link[i] = link_between(of_tcp, listener);
		NEED(kcm_attach(s.kcm[0], s.link[i].near, message_parser(true)) == 0);
	}
	close(listener);
	close(of_kcm);
	close(of_tcp);
	return s;
}

/* The program that will be killed. */
static _Noreturn void inside(struct scene *s)
{
	struct worker reads[SOCKETS], writes[SOCKETS];
	struct ledger *in = ledger_new(true, LINKS, MANY, SOCKETS), *out = ledger_new(true, SOCKETS, MANY, 1);

	for (int i = 0; i < LINKS; i++)
		close(s->link[i].far);
	for (uint32_t i = 0; i < SOCKETS; i++) {
		reads[i] = (struct worker){ s->kcm[i], in, i };
		writes[i] = (struct worker){ s->kcm[i], out, i };
	}
	workers_start(reads, SOCKETS, kcm_reads);
	workers_start(writes, SOCKETS, kcm_writes);
	for (;;)
		pause();
}

static pid_t start(struct scene *s)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		inside(s);
	for (int i = 0; i < SOCKETS; i++)
		close(s->kcm[i]);
	for (int i = 0; i < LINKS; i++)
		close(s->link[i].near);
	return pid;
}

static bool namespaces_are_gone(void)
{
	return !net_index(HERE, "to-kcm") && !net_index(HERE, "to-tcp");
}

/* When it is killed, peers read to the end, or close with much unread. */
static void killed(bool read_on)
{
	const char *how = read_on ? "peers that read on" : "peers that close early";
	struct ledger *in = ledger_new(true, LINKS, MANY, 1), *out = ledger_new(true, SOCKETS, MANY, LINKS);
	struct worker gets[LINKS], writes[LINKS];
	struct scene s = scene_open();
	pid_t pid = start(&s);
	long torsos = 0;

	for (uint32_t i = 0; i < LINKS; i++) {
		gets[i] = (struct worker){ s.link[i].far, out, i };
		writes[i] = (struct worker){ s.link[i].far, in, i };
	}
	workers_start(gets, LINKS, peer_gets);
	workers_start(writes, LINKS, peer_writes);
	check(WAIT_UNTIL(SOON_MS, out->total >= ENOUGH), "namespaces: %s: traffic", how);
	if (!read_on) {
		out->stop = true;
		workers_join(gets, LINKS);
	}
	NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	for (int i = 0; i < LINKS; i++) {
		long torso = read_on ? task_join(&gets[i].task) : 0;

		shutdown(s.link[i].far, SHUT_RDWR);
		/* A reset is reported once: to the reader or to the writer, and then the reader finds the end only. */
		if (task_join(&writes[i].task) != ECONNRESET)
			torsos += torso;
		tcp_reset(s.link[i].far);
	}
	note("%u messages came out of it", out->total);
	check(ledger_sound(out) && !out->misordered, "namespaces: %s: messages are whole and in order", how);
	EXPECT_EQ(torsos, 0, "namespaces: %s: no FIN within a message", how);
	check(WAIT_UNTIL(SOON_MS, namespaces_are_gone()), "namespaces: %s: both are removed", how);
	ledger_delete(in);
	ledger_delete(out);
}

void data_namespaces(void)
{
	for (int round = 0; round < ROUNDS; round++)
		killed(round % 2 == 0);
}
