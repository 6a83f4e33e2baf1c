// SPDX-License-Identifier: GPL-2.0
/* The peer ends a connection with TLS: what it sent before comes first. */
#include "api.h"

#include "tls.h"

#define MANY 400

/* The peer ends the stream by a TLS alert, not by a FIN. */
static void alerted(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_3_VERSION);
	unsigned char alert = TLS_RECORD_ALERT, *type;
	struct control c = { .len = 0 };
	int flags = 0;

	peer_send_frame(r.peer, MEDIUM, 1);
	control_add(&c, SOL_TLS, TLS_SET_RECORD_TYPE, &alert, sizeof(alert));
	NEED(send_control(r.peer, "\x01\x00", 2, NULL, &c, 0) == 2);
	check(kcm_takes(r.kcm, MEDIUM, 1), "tls: messages before an alert are delivered");
	EXPECT_EQ(sock_error_soon(r.tcp), EPIPE, "tls: an alert is the end, as a FIN is");
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	NEED(recv_control(r.tcp, buf, sizeof(buf), &c, MSG_DONTWAIT, &flags) == 2);
	type = control_find(&c, SOL_TLS, TLS_GET_RECORD_TYPE, 1);
	check(type && *type == TLS_RECORD_ALERT && buf[0] == 1, "tls: ... which the program may read");
	rig_close(&r);
}

static void closed_by_peer(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_2_VERSION);

	peer_send_frame(r.peer, 50000, 1);
	peer_send_frame(r.peer, MEDIUM, 2);
	close(r.peer);
	r.peer = -1;
	check(kcm_takes(r.kcm, 50000, 1) && kcm_takes(r.kcm, MEDIUM, 2), "tls: messages before a FIN are delivered");
	EXPECT_EQ(sock_error_soon(r.tcp), EPIPE, "tls: then the connection is at its end");
	close(r.kcm);
	close(r.tcp);
}

/* While no KCM socket receives, and with more records than are read in one piece of work. */
static void closed_by_peer_before_it_is_read(void)
{
	struct rig r = secure_rig(SOCK_DGRAM, AF_INET, TLS_1_2_VERSION);
	int sent = 0, taken = 0;

	NEED(kcm_disable(r.kcm, 1) == 0);
	for (; sent < MANY; sent++)
		peer_send_frame(r.peer, MEDIUM, sent);
	close(r.peer);
	r.peer = -1;
	EXPECT_EQ(sock_error_soon(r.tcp), EPIPE, "tls: the end of the connection is reported at once");
	NEED(kcm_disable(r.kcm, 0) == 0);
	while (taken < MANY && kcm_takes(r.kcm, MEDIUM, taken))
		taken++;
	EXPECT_EQ(taken, MANY, "tls: all of many messages before a FIN are delivered");
	EXPECT_EQ(sock_error_soon(r.kcm), EPIPE, "tls: and then its end");
	close(r.kcm);
	close(r.tcp);
}

void api_tls_end(void)
{
	if (!tls_has_readers())
		return;
	alerted();
	closed_by_peer();
	if (ktap_suite() == SUITE_OURS)
		closed_by_peer_before_it_is_read();
}
