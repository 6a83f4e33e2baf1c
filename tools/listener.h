/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_LISTENER_H
#define HAWSER_TOOLS_LISTENER_H

#include "rds-address.h"

/*
 * Opens a TCP socket that listens on @address, its port included; @flags are of socket(). The address :: stands for all
 * addresses of both kinds; on a host without IPv6 @address becomes 0.0.0.0. Returns -1 with errno.
 */
int listen_on(union rds_address *address, int flags, int backlog);

#endif
