/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_REPORTED_H
#define HAWSER_TOOLS_INFO_REPORTED_H

/*
 * Tables of RDS's socket options as hawser's modules report them over generic netlink, which needs no socket of RDS. As read
 * of an info_source: false if the modules are not hawser's, or of a version that reports less.
 */

#include "info-tables.h"

bool reported_connections(struct info_rows *rows);
bool reported_tcp_sockets(struct info_rows *rows);
bool reported_ib_connections(struct info_rows *rows);
bool reported_receive_queues(struct info_rows *rows);
bool reported_send_queues(struct info_rows *rows);
bool reported_retransmit_queues(struct info_rows *rows);

/* Adds the TCP sockets of the connection that a message describes. False: its modules do not report them. */
bool reported_add_tcp_sockets(struct info_rows *rows, struct attributes connection);

/* Adds the messages of the queue that a message describes. */
void reported_add_messages(struct info_rows *rows, struct attributes queue);

#endif
