/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_SERVER_OPTIONS_H
#define HAWSER_TOOLS_SERVER_OPTIONS_H

#include "rds-address.h"

#include <stdbool.h>
#include <stdint.h>

#define SERVER_MAX_WORKERS 64

struct server_settings {
	union rds_address address;
	uint64_t port, workers, max_message, timeout_ns;
	int steering;			/* KCM_STEER_* */
	bool json;
};

/* Fills @settings from the command line. Ends the program for a wrong one, and after --help and --version. */
void server_read_command_line(struct server_settings *settings, int argc, char **argv);

#endif
