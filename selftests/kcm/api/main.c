// SPDX-License-Identifier: GPL-2.0
/*
 * kcm_api                      everything
 * kcm_api --before-loading     tests that need the module unloaded
 * kcm_api --clock              tests of time
 */
#include "api.h"

const struct type types[TYPES] = { { SOCK_DGRAM, "SOCK_DGRAM" }, { SOCK_SEQPACKET, "SOCK_SEQPACKET" } };
char buf[FRAME_MAX + 1];

int main(int argc, char **argv)
{
	argc = ktap_start("kcm api", argc, argv);
	net_set_up(HERE, "lo", true);
	if (argc > 1 && !strcmp(argv[1], "--before-loading")) {
		api_before_loading();
		return ktap_finish();
	}
	if (argc > 1 && !strcmp(argv[1], "--clock")) {
		api_clock();
		return ktap_finish();
	}
	api_socket();
	api_options();
	api_attach();
	api_unattach();
	api_clone();
	api_receive();
	api_send();
	api_vectors();
	api_seqpacket();
	api_splice();
	api_poll();
	api_signals();
	api_direct();
	api_limits();
	api_pinned();
	api_peers();
	api_parser();
	api_disable();
	api_close();
	api_crossing();
	api_proc();
	api_namespaces();
	api_tls();
	api_tls_end();
	api_tls_ended();
	api_tls_error();
	api_new();
	api_lengths();
	api_uring();
	api_smc();
	return ktap_finish();
}
