// SPDX-License-Identifier: GPL-2.0
/*
 * TCP with TLS: messages are the records' contents, where other kernel code can read them (Linux 6.12); elsewhere
 * such a connection is refused, because KCM would read encrypted data.
 */
#include "api.h"

#include <hawser_kcm.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "tls.h"

#define MANY 400

struct rig secure_rig(int type, int family, int version)
{
	struct link l = tcp_link(HERE, family);
	struct rig r = { kcm_socket(HERE, type), l.near, l.far };

	NEED(tls_secure(r.tcp, r.peer, version));
	NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	return r;
}

static void refused(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	NEED(tls_start(l.near) == 0);
	differs(GIVES(kcm_attach(kcm, l.near, parser_framed()), EOPNOTSUPP), "tls-taken",
		"tls: a connection without keys is refused");
	close(kcm);
	kcm = kcm_socket(HERE, SOCK_DGRAM);
	check(send(l.near, "plain", 5, 0) == 5 && peer_reads(l.far, buf, 5) == 5, "tls: without keys it is as before");
	tcp_link_close(&l);

	l = tcp_link(HERE, AF_INET);
	NEED(tls_start(l.near) == 0 && tls_set_key(l.near, TLS_RX, TLS_1_2_VERSION, 1) == 0);
	differs(GIVES(kcm_attach(kcm, l.near, parser_framed()), EOPNOTSUPP), "tls-taken",
		"tls: a connection with the key of one direction is refused");
	tcp_link_close(&l);
	close(kcm);
}

static void refused_by_kernel(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	NEED(tls_secure(l.near, l.far, TLS_1_2_VERSION));
	differs(GIVES(kcm_attach(kcm, l.near, parser_framed()), EOPNOTSUPP), "tls-taken",
		"tls: refused where the kernel has no way to read records");
	close(kcm);
	check(send(l.near, "secret", 6, 0) == 6 && peer_reads(l.far, buf, 6) == 6, "tls: it is as before");
	tcp_link_close(&l);
}

static void not_afterwards(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	EXPECT_ERRNO(tls_start(r.tcp), EEXIST, "tls: not for a connection that KCM has");
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	EXPECT_ERRNO(tls_start(r.tcp), EEXIST, "tls: nor for one that it had");
	rig_close(&r);
}

/* Frames of every relation to records, which hold up to 16 KiB. */
static void both_ways(int type, int family, int version)
{
	static const size_t sizes[] = { 5, 104, 4096, 16384, 16385, 70000 };
	struct rig r = secure_rig(type, family, version);
	bool received = true, sent = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		peer_send_frame(r.peer, sizes[i], i);
		received = received && kcm_takes(r.kcm, sizes[i], i);
		sent = sent && kcm_sends(r.kcm, sizes[i], i) && peer_takes(r.peer, sizes[i], i);
	}
	check(received, "tls: %x, family %d, type %d: receives", version, family, type);
	check(sent, "tls: %x, family %d, type %d: sends", version, family, type);
	rig_close(&r);
}

/* A program that waits on its TCP socket has nothing to do with what KCM receives. */
static void undisturbed(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_2_VERSION);
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	bool good = true;

	NEED(epoll_ctl(epoll, EPOLL_CTL_ADD, r.tcp, &event) == 0 && epoll_wait(epoll, &event, 1, 0) == 1);
	for (int i = 0; i < 10; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		good = good && kcm_takes(r.kcm, MEDIUM, i);
	}
	check(good && epoll_wait(epoll, &event, 1, 20) == 0, "tls: what KCM receives wakes nobody who waits for the TCP socket");
	close(epoll);
	rig_close(&r);
}

/* A record may hold many messages, and a message many records. */
static void pieces(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_3_VERSION);
	bool good = true;
	size_t i;

	for (i = 0; i < 20; i++)
		frame_fill(buf + i * MEDIUM, MEDIUM, i);
	peer_send(r.peer, buf, 20 * MEDIUM);
	for (i = 0; i < 20; i++)
		good = good && kcm_takes(r.kcm, MEDIUM, i);
	check(good, "tls: twenty messages in one record");
	frame_fill(buf, MEDIUM, 7);
	for (i = 0; i < MEDIUM; i++)
		peer_send(r.peer, buf + i, 1);
	check(kcm_takes(r.kcm, MEDIUM, 7), "tls: a message of one record a byte");
	rig_close(&r);
}

static void encrypted(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	char plain[MEDIUM];

	NEED(tls_start(l.near) == 0);
	NEED(tls_set_key(l.near, TLS_TX, TLS_1_2_VERSION, 1) == 0 && tls_set_key(l.near, TLS_RX, TLS_1_2_VERSION, 2) == 0);
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	NEED(kcm_sends(kcm, MEDIUM, 1));
	frame_fill(plain, MEDIUM, 1);
	check(peer_reads(l.far, buf, MEDIUM + 29) == MEDIUM + 29 && !memcmp(buf, "\x17\x03\x03", 3) &&
		      !memmem(buf, MEDIUM + 29, plain + FRAME_HEADER, 16),
	      "tls: sent messages are encrypted records");
	EXPECT_ERRNO(tls_set_key(l.near, TLS_TX, TLS_1_2_VERSION, 9), EBUSY, "tls: keys do not change while it is attached");
	peer_send(l.far, "\x17\x03\x03\x00\x20this was never encrypted by TLS.", 37);
	EXPECT_EQ(sock_error_soon(l.near), EBADMSG, "tls: a forged record ends the connection");
	check(!kcm_sends(kcm, MEDIUM, 2) || polled(kcm, POLLERR, SOON_MS), "tls: ... for KCM, too");
	close(kcm);
	tcp_link_close(&l);
}

/* What TLS of Linux refuses by its header, and what it has to decrypt first. */
static const struct forgery {
	const char *name, *record;
	size_t length;
} forgeries[] = {
	{ "of a wrong version", "\x17\x02\x04\x00\x20this was never encrypted by TLS.", 37 },
	{ "that is too long", "\x17\x03\x03\xff\xffthis was never encrypted by TLS.", 37 },
	{ "that is too short", "\x17\x03\x03\x00\x08this was never encrypted by TLS.", 37 },
	{ "with wrong contents", "\x17\x03\x03\x00\x20this was never encrypted by TLS.", 37 },
};

static int error_of_connection(int kcm)
{
	struct kcm_connection_stats stats;
	socklen_t len = sizeof(stats);

	NEED(getsockopt(kcm, SOL_KCM, KCM_STATS, &stats, &len) == 0 && len == sizeof(stats));
	return stats.error;
}

/* Only the near end has TLS, so that the far end can forge. */
static struct link link_to_forger(void)
{
	struct link l = tcp_link(HERE, AF_INET);

	NEED(tls_start(l.near) == 0);
	NEED(tls_set_key(l.near, TLS_TX, TLS_1_2_VERSION, 1) == 0 && tls_set_key(l.near, TLS_RX, TLS_1_2_VERSION, 2) == 0);
	return l;
}

/* The first record of one who has that key, with a frame in it. */
static size_t sealed_frame(char *record)
{
	struct link l = tcp_link(HERE, AF_INET);

	NEED(tls_start(l.near) == 0 && tls_set_key(l.near, TLS_TX, TLS_1_2_VERSION, 2) == 0);
	peer_send_frame(l.near, MEDIUM, 1);
	NEED(peer_reads(l.far, record, MEDIUM + 29) == MEDIUM + 29);
	tcp_link_close(&l);
	return MEDIUM + 29;
}

static void forged(const struct forgery *forgery)
{
	struct link l = link_to_forger();
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	peer_send(l.far, forgery->record, forgery->length);
	check(polled(l.near, POLLERR, SOON_MS) & POLLERR, "tls: a record %s is reported", forgery->name);
	EXPECT_EQ(sock_error_soon(l.near), EBADMSG, "tls: a record %s is forged", forgery->name);
	check(WAIT_UNTIL(SOON_MS, error_of_connection(kcm)) && error_of_connection(kcm) == EBADMSG, "tls: ... and is the end");
	close(kcm);
	tcp_link_close(&l);
}

static void forged_behind_a_good_one(const struct forgery *forgery)
{
	struct link l = link_to_forger();
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	char records[1000];
	size_t length = sealed_frame(records);

	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	memcpy(records + length, forgery->record, forgery->length);
	peer_send(l.far, records, length + forgery->length);
	check(kcm_takes(kcm, MEDIUM, 1), "tls: a message before a record %s is delivered", forgery->name);
	EXPECT_EQ(sock_error_soon(l.near), EBADMSG, "tls: a record %s behind a good one is forged", forgery->name);
	check(WAIT_UNTIL(SOON_MS, error_of_connection(kcm)) && error_of_connection(kcm) == EBADMSG, "tls: ... and is the end");
	close(kcm);
	tcp_link_close(&l);
}

/* TLS has found it when KCM gets the connection; the program may have taken TLS's error, and the peer may be gone. */
static void forged_before(const struct forgery *forgery, bool taken, bool ended)
{
	struct link l = link_to_forger();
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	bool found = false;

	peer_send(l.far, forgery->record, forgery->length);
	if (ended)
		NEED(shutdown(l.far, SHUT_WR) == 0);
	nap_us(20000);
	if (taken)
		sock_error(l.near);
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	WAIT_UNTIL(SOON_MS, (found = sock_error(l.near) == EBADMSG));
	check(found, "tls: a record %s is forged that came before%s%s", forgery->name, taken ? ", reported before" : "",
	      ended ? ", with a FIN" : "");
	close(kcm);
	tcp_link_close(&l);
}

static void all_forged(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(forgeries); i++) {
		forged(&forgeries[i]);
		forged_behind_a_good_one(&forgeries[i]);
		forged_before(&forgeries[i], false, false);
		forged_before(&forgeries[i], true, false);
		forged_before(&forgeries[i], false, true);
	}
}

static void given_back(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET6, TLS_1_3_VERSION);
	char frames[3 * MEDIUM];
	size_t i;

	for (i = 0; i < 3; i++)
		frame_fill(frames + i * MEDIUM, MEDIUM, i);
	peer_send(r.peer, frames, 2 * MEDIUM + 10);
	NEED(kcm_takes(r.kcm, MEDIUM, 0));
	NEED(kcm_takes(r.kcm, MEDIUM, 1));
	NEED(stays_quiet(r.kcm));
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	peer_send(r.peer, frames + 2 * MEDIUM + 10, MEDIUM - 10);
	check(peer_reads(r.tcp, buf, MEDIUM) == MEDIUM && !memcmp(buf, frames + 2 * MEDIUM, MEDIUM),
	      "tls: unattach gives a part of a message back, decrypted");
	check(send(r.tcp, "back", 4, 0) == 4 && peer_reads(r.peer, buf, 4) == 4, "tls: and TCP writes records");
	NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	NEED(kcm_disable(r.kcm, 1) == 0);
	peer_send(r.peer, frames, 3 * MEDIUM);
	nap_us(100000);
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	check(peer_reads(r.tcp, buf, 3 * MEDIUM) == 3 * MEDIUM && !memcmp(buf, frames, 3 * MEDIUM),
	      "tls: and whole messages that were not received");
	rig_close(&r);
}

/* A peer that does not read fills all buffers; when it reads, it gets everything and there is room again. */
static void filled(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_2_VERSION);
	char frame[4000];
	int sent = 0, i;
	bool good = true;

	for (;; sent++) {
		frame_fill(frame, sizeof(frame), sent);
		if (send(r.kcm, frame, sizeof(frame), MSG_EOR | MSG_DONTWAIT) != sizeof(frame))
			break;
		NEED(sent < 100000);
	}
	check(errno == EAGAIN && sent > 10, "tls: a peer that does not read stops the sender");
	for (i = 0; i < sent; i++)
		good = good && peer_takes(r.peer, sizeof(frame), i);
	check(good, "tls: ... and finds everything when it reads");
	check(polled(r.kcm, POLLOUT, SOON_MS) & POLLOUT, "tls: ... and the sender finds room");
	rig_close(&r);
}

static size_t size_of(int number)
{
	return number % 7 ? 5 + (size_t)number * 37 % 3000 : 20000;
}

static long send_many(void *arg)
{
	char *frame = malloc(20000);
	int i;

	for (i = 0; frame && i < MANY; i++) {
		frame_fill(frame, size_of(i), i);
		if (send(*(int *)arg, frame, size_of(i), MSG_EOR) != (ssize_t)size_of(i))
			break;
	}
	free(frame);
	return i;
}

static void many(void)
{
	struct rig r = secure_rig(SOCK_SEQPACKET, AF_INET, TLS_1_3_VERSION);
	struct task near = { 0 }, far = { 0 };
	int i, received = 0, taken = 0;

	task_start(&far, send_many, &r.peer);
	for (i = 0; i < MANY; i++)
		received += kcm_takes(r.kcm, size_of(i), i);
	EXPECT_EQ(task_join(&far), MANY, "tls: a peer sends many messages");
	EXPECT_EQ(received, MANY, "tls: ... which arrive whole and in order");
	task_start(&near, send_many, &r.kcm);
	for (i = 0; i < MANY; i++)
		taken += peer_takes(r.peer, size_of(i), i);
	EXPECT_EQ(task_join(&near), MANY, "tls: KCM sends many messages");
	EXPECT_EQ(taken, MANY, "tls: ... which arrive whole and in order");
	rig_close(&r);
}

void api_tls(void)
{
	refused();
	if (ktap_suite() == SUITE_OURS)
		not_afterwards();
	if (!tls_has_readers()) {
		refused_by_kernel();
		return;
	}
	both_ways(SOCK_DGRAM, AF_INET, TLS_1_2_VERSION);
	both_ways(SOCK_DGRAM, AF_INET6, TLS_1_3_VERSION);
	both_ways(SOCK_SEQPACKET, AF_INET, TLS_1_3_VERSION);
	pieces();
	if (ktap_suite() == SUITE_OURS)
		undisturbed();
	encrypted();
	if (ktap_suite() == SUITE_OURS)
		all_forged();
	given_back();
	filled();
	many();
}
