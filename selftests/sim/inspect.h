// SPDX-License-Identifier: GPL-2.0
// The internal state of a machine's RDS, to explain a failure.
#pragma once

#include "rds_host.h"

/** Prints the paths of all connections that are or were in use. */
void print_connections(RdsHost &host);

/** The number of this address's ports that the host takes for congested. */
unsigned full_ports(RdsHost &host, const kapi_addr &remote);

/** True if all charges of sockets' queues were returned, as when all are closed. */
bool accounts_balance(RdsHost &host);
