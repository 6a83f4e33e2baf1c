// SPDX-License-Identifier: GPL-2.0
/* The error by which KCM has ended a connection with TLS, as the program finds it at its TCP socket. */
#include "api.h"

#include <hawser_kcm.h>
#include <linux/net_tstamp.h>
#include <sys/ioctl.h>

#include "tls.h"

#define LARGE 70000
#define SENT 12 /* more than the peer's TCP takes as long as nobody reads */
#define WAITING 20 /* records: less than are read at once */
#define ROUNDS 300

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

static long enable(void *arg)
{
	return kcm_disable(*(int *)arg, 0);
}

static bool has_reset(int tcp)
{
	return sock_error(tcp) == ECONNRESET;
}

/* How often the program finds the reset that follows these messages, when it looks some time after they are begun to be read. */
static int resets_found(int kcm, int program, unsigned int later_us)
{
	struct link l = tcp_link(HERE, AF_INET);
	struct task t;
	int unsent, found;

	NEED(tls_secure(l.near, l.far, TLS_1_2_VERSION));
	NEED(kcm_disable(kcm, 1) == 0 && kcm_attach(kcm, l.near, program) == 0);
	for (int i = 0; i < WAITING; i++)
		peer_send_frame(l.far, 5, i);
	NEED(WAIT_UNTIL(SOON_MS, ioctl(l.far, SIOCOUTQ, &unsent) == 0 && unsent == 0));
	tcp_reset(l.far);
	l.far = -1;
	NEED(WAIT_UNTIL(SOON_MS, error_of(kcm) == ECONNRESET));
	NEED(sock_error_soon(kcm) == ECONNRESET); /* else the next recv() reports it */
	task_start(&t, enable, &kcm);
	nap_us(later_us);
	found = has_reset(l.near);
	NEED(task_join(&t) == 0);
	for (int i = 0; i < WAITING; i++)
		NEED(kcm_recv_soon(kcm, buf, sizeof(buf), NULL) == 5);
	nap_us(3000); /* and what reads them has come to its end */
	found += has_reset(l.near);
	NEED(kcm_unattach(kcm, l.near) == 0);
	found += has_reset(l.near);
	tcp_link_close(&l);
	return found;
}

/* The program looks at any moment while records before a reset are read. */
static void while_records_are_read(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM), program = parser_framed();
	int once = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		int found = resets_found(kcm, program, i * 7 % 300);

		if (found != 1)
			note("reported %d times, looked after %u us", found, i * 7 % 300);
		once += found == 1;
	}
	EXPECT_EQ(once, ROUNDS, "tls: a reset behind records is reported once, whenever the program looks");
	close(kcm);
}

void api_tls_error(void)
{
	if (ktap_suite() != SUITE_OURS || !tls_has_readers())
		return;
	with_later_time_stamps();
	while_records_are_read();
}
