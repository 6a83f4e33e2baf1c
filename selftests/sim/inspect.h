// SPDX-License-Identifier: GPL-2.0
// The internal state of a machine's RDS, to explain a failure.
#pragma once

#include "rds_host.h"

/** Prints the paths of all connections that are or were in use. */
void print_connections(RdsHost &host);

/** Without a stream a peer cannot report that a port is free again: the next sender that meets the port asks. */
enum class Streams : std::uint8_t { not_needed, needed };

/** The number of this address's ports that the host takes for congested, in all namespaces or those with a stream to it. */
unsigned full_ports(RdsHost &host, const kapi_addr &remote, Streams streams = Streams::not_needed);

/** True if all charges of sockets' queues were returned, as when all are closed. */
bool accounts_balance(RdsHost &host);
