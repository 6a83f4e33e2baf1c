/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_PING_OPTIONS_H
#define HAWSER_TOOLS_PING_OPTIONS_H

#include "rds-socket.h"

#define PING_MAX_SOCKETS 64

struct ping_settings {
	uint64_t count;			/* probes to send; 0: until interrupted */
	uint64_t interval_ns;
	uint64_t timeout_ns;		/* how long an answer may take */
	uint64_t sockets;
	bool has_source;
	bool json;
	union rds_address source;
	union rds_address destination;
	struct rds_socket_options socket;
};

/* Fills @settings from the command line. Ends the program for a wrong one, and after --help and --version. */
void ping_read_command_line(struct ping_settings *settings, int argc, char **argv);

#endif
