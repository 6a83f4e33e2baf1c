// SPDX-License-Identifier: GPL-2.0
#include "api.h"
#include "modprobe.h"

const struct place places[PLACES] = {
	{ "127.0.0.1", false },
	{ "::1", false },
	{ HERE4, true },
	{ HERE6, true },
};

int main(int argc, char **argv)
{
	modprobe_if_called(argc, argv);
	ktap_start("rds api", argc, argv);
	here_addresses();
	api_create();
	api_bind();
	api_connect();
	api_names();
	api_send();
	api_send_control();
	api_rdma();
	api_receive();
	api_runs();
	api_options();
	api_transport();
	api_ioctl();
	api_poll();
	api_timeouts();
	api_sysctl();
	return ktap_finish();
}
