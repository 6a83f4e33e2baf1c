// SPDX-License-Identifier: GPL-2.0
/* The error by which KCM has ended a connection with TLS, as the program finds it at its TCP socket. */
#include "api.h"

#include <hawser_kcm.h>
#include <linux/net_tstamp.h>
#include <sys/ioctl.h>

#include "tls.h"

#define LARGE 70000
#define SENT 12 /* more than the peer's TCP takes as long as nobody reads */

static int error_of(int kcm)
{
	struct kcm_connection_stats stats;
	socklen_t len = sizeof(stats);

	NEED(getsockopt(kcm, SOL_KCM, KCM_STATS, &stats, &len) == 0 && len == sizeof(stats));
	return stats.error;
}

/* TCP reports each time stamp of what it has sent as it reports errors. */
static struct link link_with_time_stamps(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int stamps = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;

	NEED(set_int(l.near, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20) == 0);
	NEED(set_int(l.near, SOL_SOCKET, SO_TIMESTAMPING, stamps) == 0);
	NEED(tls_secure(l.near, l.far, TLS_1_2_VERSION));
	return l;
}

static bool has_unsent(int tcp)
{
	int unsent;

	return ioctl(tcp, SIOCOUTQNSD, &unsent) == 0 && unsent != 0;
}

static void with_later_time_stamps(void)
{
	struct link l = link_with_time_stamps();
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	bool sent = true;

	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	for (int i = 0; i < SENT; i++)
		sent = sent && kcm_sends(kcm, LARGE, i);
	NEED(sent && has_unsent(l.near));
	peer_send(l.far, "\x7f\xff\xff\x00", 4);
	NEED(WAIT_UNTIL(SOON_MS, error_of(kcm) == EMSGSIZE));
	for (int i = 0; i < SENT; i++)
		sent = sent && peer_takes(l.far, LARGE, i);
	check(sent && !has_unsent(l.near), "tls: what was sent before an error arrives");
	EXPECT_EQ(sock_error(l.near), EMSGSIZE, "tls: time stamps that come later leave the error as it is");
	tcp_link_close(&l);
	close(kcm);
}

void api_tls_error(void)
{
	if (ktap_suite() == SUITE_OURS && tls_has_readers())
		with_later_time_stamps();
}
