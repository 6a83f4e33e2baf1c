// SPDX-License-Identifier: GPL-2.0
// What a machine's RDS looks like inside, for the reader of a failure.
#pragma once

#include "rds_host.h"

/** Prints the paths of all connections that are or were in use. */
void print_connections(RdsHost &host);

/** Of how many ports of this address the host believes that their sockets are full. */
unsigned full_ports(RdsHost &host, const kapi_addr &remote);

/** Whether what sockets' queues took in and gave out again is the same: true when all are closed. */
bool accounts_balance(RdsHost &host);
