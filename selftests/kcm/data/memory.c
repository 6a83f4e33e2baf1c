// SPDX-License-Identifier: GPL-2.0
/* A program's memory that faults or stalls in the middle of a call: framing stays intact, and no other call waits. */
#include "data.h"

#include "trap.h"

static char buf[FRAME_MAX + 1];

/*
 * A message whose last 100 bytes cannot be read. It fails as a whole; or, with SOCK_SEQPACKET, a part of it may be
 * taken, and the rest completes it.
 */
static bool faults(struct rig *r, int type, size_t len)
{
	char *edge = before_hole(len);
	ssize_t n;

	frame_fill(buf, len + 100, 3);
	memcpy(edge, buf, len);
	n = send(r->kcm, edge, len + 100, MSG_EOR);
	if (n < 0)
		return errno == EFAULT;
	if (type != SOCK_SEQPACKET || n > (ssize_t)len)
		return false;
	return send(r->kcm, buf + n, len + 100 - n, MSG_EOR) == (ssize_t)len + 100 - n && peer_takes(r->peer, len + 100, 3);
}

/* Between good messages from two sockets. */
static void framing(int type, const char *name)
{
	static const size_t sizes[] = { 50, 5000, 20000, 100000 };
	struct rig r = rig_open(type, parser_framed());
	int clone = kcm_clone(r.kcm);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		check(faults(&r, type, sizes[i]), "memory: %s: a message that faults after %zu bytes", name, sizes[i]);
		check(kcm_sends(clone, 200, i) && peer_takes(r.peer, 200, i), "memory: %s: another socket is in frame", name);
		check(kcm_sends(r.kcm, 300, i) && peer_takes(r.peer, 300, i), "memory: %s: and so is this one", name);
	}
	close(clone);
	rig_close(&r);
}

static long send_medium(void *arg)
{
	return kcm_sends(*(int *)arg, 200, 7);
}

/* More than SO_SNDBUF holds. */
static void large_fault(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm);
	struct task t;
	bool sent;

	check(faults(&r, SOCK_DGRAM, 300000), "memory: a message beyond SO_SNDBUF that faults");
	check(kcm_sends(clone, 200, 1) && peer_takes(r.peer, 200, 1), "memory: another socket sends");
	task_start(&t, send_medium, &r.kcm);
	sent = task_finished(&t, ktap_suite() == SUITE_KERNEL ? 500 : SOON_MS);
	if (!sent)
		task_signal(&t);
	NEED(task_finished(&t, SOON_MS));
	sent = task_join(&t) && sent;
	differs(sent && peer_takes(r.peer, 200, 7), "fault-blocks", "memory: and this one sends, too");
	close(clone);
	rig_close(&r);
}

struct call {
	int fd;
	char *memory;
};

static long send_call(void *arg)
{
	struct call *c = arg;

	return send(c->fd, c->memory, TRAP_SIZE, MSG_EOR);
}

static long receive_call(void *arg)
{
	struct call *c = arg;

	return recv(c->fd, c->memory, TRAP_SIZE, 0);
}

static bool trap_content(const char *memory)
{
	return memory[TRAP_PAGE - 1] == 1 && memory[TRAP_PAGE] == 0 && memory[2 * TRAP_PAGE] == 3;
}

/* A send that stalls after its first page; meanwhile a message by @other. */
static void sending(bool same_socket)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int other = same_socket ? dup(r.kcm) : kcm_clone(r.kcm);
	struct trap trap = trap_new();
	struct call call = { r.kcm, trap.memory };
	struct task t, u;
	bool overtakes;

	task_start(&t, send_call, &call);
	NEED(trap_sprung(&trap));
	task_start(&u, send_medium, &other);
	overtakes = task_finished(&u, same_socket && ktap_suite() == SUITE_KERNEL ? 300 : SOON_MS);
	if (same_socket)
		differs(overtakes, "send-stall", "memory: a send that stalls holds up no other send of the socket");
	else
		check(overtakes, "memory: a send that stalls holds up no other socket");
	if (overtakes) {
		check(peer_takes(r.peer, 200, 7), "memory: whose message goes out");
		check(!task_finished(&t, 50), "memory: the stalled one is still stalled");
	}
	trap_release(&trap);
	NEED(task_finished(&t, SOON_MS) && task_finished(&u, SOON_MS));
	EXPECT_EQ(task_join(&t), TRAP_SIZE, "memory: it continues");
	check(task_join(&u) && peer_reads(r.peer, buf, TRAP_SIZE) == TRAP_SIZE && trap_content(buf),
	      "memory: and its message is whole");
	close(other);
	trap_delete(&trap);
	rig_close(&r);
}

static void receiving(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct trap trap = trap_new();
	struct call call = { r.kcm, trap.memory };
	struct task t;
	int flags = 0;
	ssize_t n;

	peer_send_frame(r.peer, TRAP_SIZE, 1);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	task_start(&t, receive_call, &call);
	NEED(trap_sprung(&trap));
	peer_send_frame(r.peer, 200, 2);
	/* The first message again, or the second: either is right, but not a wait. */
	check(polled(r.kcm, POLLIN, SOON_MS), "memory: with a receiver that stalls poll() reports the next message");
	n = kcm_recv_soon(r.kcm, buf, sizeof(buf), &flags);
	check(frame_is(buf, n, 200, 2), "memory: and another receiver gets it");
	trap_release(&trap);
	NEED(task_finished(&t, SOON_MS));
	check(frame_is(trap.memory, task_join(&t), TRAP_SIZE, 1), "memory: the first one continues, and gets its own");
	check(stays_quiet(r.kcm), "memory: each message is received once");
	trap_delete(&trap);
	rig_close(&r);
}

/*
 * A program's own send() stalls with TCP's lock. A message waits for the lock; what the peer sends, and ends the connection, is
 * looked at before it.
 */
static void ending(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct trap trap = trap_new();
	struct call call = { r.tcp, trap.memory };
	struct task t, u;
	struct link other;

	peer_send_frame(r.peer, 200, 1);
	NEED(kcm_takes(r.kcm, 200, 1));
	task_start(&t, send_call, &call);
	NEED(trap_sprung(&trap));
	task_start(&u, send_medium, &r.kcm);
	NEED(task_locked_out(&u));
	peer_send(r.peer, "\x7f\xff\xff\x00", 4);
	trap_release(&trap);
	NEED(task_finished(&t, SOON_MS) && task_finished(&u, SOON_MS));
	check(task_join(&t) == TRAP_SIZE && task_join(&u), "memory: TCP stalls, and behind it a message and the end");
	check(polled(r.tcp, 0, SOON_MS) & POLLERR, "memory: the end is an error of TCP's");
	EXPECT_EQ(sock_error(r.tcp), EMSGSIZE, "memory: EMSGSIZE, which the message has not taken");
	other = rig_link(&r, parser_framed());
	check(peer_takes(other.far, 200, 7), "memory: the message goes over another connection");
	tcp_link_close(&other);
	trap_delete(&trap);
	rig_close(&r);
}

void data_memory(void)
{
	framing(SOCK_DGRAM, "SOCK_DGRAM");
	framing(SOCK_SEQPACKET, "SOCK_SEQPACKET");
	large_fault();
	sending(false);
	sending(true);
	receiving();
	if (ktap_suite() == SUITE_OURS)
		ending();
}
