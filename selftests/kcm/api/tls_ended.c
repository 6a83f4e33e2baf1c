// SPDX-License-Identifier: GPL-2.0
/*
 * Connections with TLS that have ended, and that no program can unattach: when there are more than KEPT of them, those go of
 * which everything was delivered.
 */
#include "api.h"

#include <hawser_kcm.h>
#include <sys/ioctl.h>

#include "tls.h"

#define KEPT 64
#define CLIENTS 80
#define RESET_CLIENTS 100
#define RECORDS 150 /* more than KCM reads of one connection at once, twice */

static struct kcm_connection_stats stats[2 * RESET_CLIENTS];

static size_t connections(int kcm)
{
	socklen_t len = sizeof(stats);

	NEED(getsockopt(kcm, SOL_KCM, KCM_STATS, stats, &len) == 0);
	return len / sizeof(*stats);
}

static size_t ended(int kcm)
{
	size_t count = connections(kcm), all = 0;

	for (size_t i = 0; i < count; i++)
		all += stats[i].error != 0;
	return all;
}

/* A client of a server that closes its descriptor when the connection is attached. Returns the client's end. */
static int client_of(int kcm, int program)
{
	struct link l = tcp_link(HERE, AF_INET);
	int room = 1 << 20;

	NEED(setsockopt(l.near, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) == 0);
	NEED(tls_secure(l.near, l.far, TLS_1_2_VERSION));
	NEED(kcm_attach(kcm, l.near, program) == 0);
	close(l.near);
	return l.far;
}

static void send_alert(int client)
{
	unsigned char alert = TLS_RECORD_ALERT;
	struct control c = { .len = 0 };

	control_add(&c, SOL_TLS, TLS_SET_RECORD_TYPE, &alert, sizeof(alert));
	NEED(send_control(client, "\x01\x00", 2, NULL, &c, 0) == 2);
}

/* Three bytes of a record's header, past TLS: the client's is not asked. */
static int client_with_a_torso(int kcm, int program)
{
	struct link l = tcp_link(HERE, AF_INET);

	NEED(tls_start(l.near) == 0);
	NEED(tls_set_key(l.near, TLS_TX, TLS_1_2_VERSION, 1) == 0 && tls_set_key(l.near, TLS_RX, TLS_1_2_VERSION, 2) == 0);
	NEED(kcm_attach(kcm, l.near, program) == 0);
	close(l.near);
	peer_send(l.far, "\x17\x03\x03", 3);
	return l.far;
}

/* Has KCM look for those that go. */
static void attach_another(int kcm, int program, const struct link *l)
{
	NEED(kcm_attach(kcm, l->near, program) == 0 && kcm_unattach(kcm, l->near) == 0);
}

/* Each look sees a few only, and not those that TLS is still reading. Returns how many connections are left. */
static size_t left_with_others_attached(int kcm, int program, const struct link *l, size_t expected)
{
	size_t left = 0;

	WAIT_UNTIL(SOON_MS, (attach_another(kcm, program, l), left = connections(kcm)) == expected);
	return left;
}

/* What TCP has of them is never delivered: a part of a record, and what is behind an alert. */
static void with_something_unread(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM), program = parser_framed(), clients[CLIENTS + 1];
	struct link l = tcp_link(HERE, AF_INET);
	size_t left;

	for (size_t i = 0; i < CLIENTS; i++) {
		if (i % 2) {
			clients[i] = client_with_a_torso(kcm, program);
		} else {
			clients[i] = client_of(kcm, program);
			send_alert(clients[i]);
			peer_send_frame(clients[i], MEDIUM, i);
		}
		NEED(shutdown(clients[i], SHUT_WR) == 0);
	}
	WAIT_UNTIL(SOON_MS, ended(kcm) == connections(kcm));
	clients[CLIENTS] = client_of(kcm, program);
	left = left_with_others_attached(kcm, program, &l, KEPT + 1);
	EXPECT_EQ(left, KEPT + 1, "tls: ended connections go, whatever TCP has that is never delivered");
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		close(clients[i]);
	tcp_link_close(&l);
	close(kcm);
}

static void send_and_reset(int client)
{
	int unsent;

	for (size_t i = 0; i < RECORDS; i++)
		peer_send_frame(client, 5, i);
	NEED(WAIT_UNTIL(SOON_MS, ioctl(client, SIOCOUTQ, &unsent) == 0 && unsent == 0));
	tcp_reset(client);
}

static void with_messages_and_a_reset(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM), program = parser_framed(), room = 64 << 20;
	struct link l = tcp_link(HERE, AF_INET);
	size_t got = 0, left;

	NEED(setsockopt(kcm, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) == 0);
	NEED(kcm_disable(kcm, 1) == 0);
	for (size_t i = 0; i < RESET_CLIENTS; i++)
		send_and_reset(client_of(kcm, program));
	NEED(WAIT_UNTIL(SOON_MS, ended(kcm) == RESET_CLIENTS));
	NEED(kcm_disable(kcm, 0) == 0);
	while (got < RESET_CLIENTS * RECORDS) {
		if (got % 20 == 0)
			attach_another(kcm, program, &l);
		if (kcm_recv_soon(kcm, buf, sizeof(buf), NULL) == 5)
			got++;
		else if (errno == EAGAIN)
			break;
	}
	EXPECT_EQ(got, RESET_CLIENTS * RECORDS, "tls: all messages before a reset are delivered, however many connections end");
	left = left_with_others_attached(kcm, program, &l, KEPT);
	EXPECT_EQ(left, KEPT, "tls: ... and then these go");
	tcp_link_close(&l);
	close(kcm);
}

void api_tls_ended(void)
{
	if (ktap_suite() != SUITE_OURS || !tls_has_readers())
		return;
	with_something_unread();
	with_messages_and_a_reset();
}
