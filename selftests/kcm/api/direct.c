// SPDX-License-Identifier: GPL-2.0
/* A program's calls on the TCP socket itself while it is attached. */
#include "api.h"

#include <netinet/tcp.h>

#include "trap.h"

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static void reading_and_writing(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	EXPECT_ERRNO(recv(r.tcp, buf, 10, MSG_DONTWAIT), EAGAIN, "TCP: recv() finds no data of KCM's");
	check(kcm_takes(r.kcm, MEDIUM, 1), "TCP: the message is KCM's");
	EXPECT_EQ(send(r.tcp, "direct", 6, 0), 6, "TCP: send() works");
	check(peer_reads(r.peer, buf, 6) == 6 && !memcmp(buf, "direct", 6), "TCP: and goes out");
	check(kcm_sends(r.kcm, MEDIUM, 2) && peer_takes(r.peer, MEDIUM, 2), "TCP: KCM sends as before");
	rig_close(&r);
}

static void shutting_down(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	check(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1), "TCP: a message before shutdown()");
	EXPECT_OK(shutdown(r.tcp, SHUT_WR), "TCP: shutdown() of the own direction");
	EXPECT_EQ(recv(r.peer, buf, 10, 0), 0, "TCP: the peer sees the end");
	peer_send_frame(r.peer, MEDIUM, 2);
	check(kcm_takes(r.kcm, MEDIUM, 2), "TCP: the other direction delivers");
	rig_close(&r);
}

static void options(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	EXPECT_OK(set_int(r.tcp, IPPROTO_TCP, TCP_NODELAY, 0), "TCP: an option is set");
	EXPECT_EQ(get_int(r.tcp, IPPROTO_TCP, TCP_NODELAY), 0, "TCP: and read");
	check(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1), "TCP: KCM sends with it");
	rig_close(&r);
}

struct question {
	int tcp;
	char *name;
	socklen_t *length;
};

static long ask_ulp(void *arg)
{
	struct question *q = arg;

	return getsockopt(q->tcp, IPPROTO_TCP, TCP_ULP, q->name, q->length);
}

/* getsockopt(TCP_ULP) looks at the socket's ULP before and after it writes the length. */
static void asked_while_unattached(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct trap trap = trap_for_writes();
	struct question question = { r.tcp, trap.memory, (void *)(trap.memory + TRAP_PAGE) };
	struct task t;

	task_start(&t, ask_ulp, &question);
	NEED(trap_sprung(&trap));
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "TCP: it is unattached while getsockopt(TCP_ULP) stalls");
	trap_release(&trap);
	NEED(task_finished(&t, SOON_MS));
	EXPECT_OK(task_join(&t), "TCP: ... which then succeeds");
	check(*question.length == 16 && !strcmp(question.name, "hawser"), "TCP: ... with the name that it had");
	trap_delete(&trap);
	rig_close(&r);
}

static void never_a_listener(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	NEED(kcm_unattach(r.kcm, r.tcp) == 0 && connect(r.tcp, &nowhere, sizeof(nowhere)) == 0);
	EXPECT_ERRNO(listen(r.tcp, 1), EINVAL, "TCP: what was attached does not listen");
	rig_close(&r);
}

void api_direct(void)
{
	reading_and_writing();
	shutting_down();
	options();
	if (ktap_suite() == SUITE_OURS) {
		asked_while_unattached();
		never_a_listener();
	}
}
