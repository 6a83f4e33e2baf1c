// SPDX-License-Identifier: GPL-2.0
/* TCP with an upper layer protocol: what KCM would read there is not what the protocol delivers. */
#include "api.h"

#include <netinet/tcp.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static int set_tls(int tcp)
{
	return setsockopt(tcp, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"));
}

void api_ulp(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	NEED(set_tls(l.near) == 0);
	differs(GIVES(kcm_attach(kcm, l.near, parser_framed()), EOPNOTSUPP), "tls-taken",
		"tls: a connection that TLS has is refused");
	close(kcm);
	check(send(l.near, "plain", 5, 0) == 5 && peer_reads(l.far, buf, 5) == 5, "tls: without keys it is as before");
	tcp_link_close(&l);
	if (ktap_suite() == SUITE_OURS) {
		struct rig r = rig_open(SOCK_DGRAM, parser_framed());

		EXPECT_ERRNO(set_tls(r.tcp), EEXIST, "tls: not for a connection that KCM has");
		NEED(kcm_unattach(r.kcm, r.tcp) == 0);
		EXPECT_OK(set_tls(r.tcp), "tls: again when KCM has given it back");
		rig_close(&r);
	}
}
