/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_CONNECTIONS_H
#define HAWSER_TOOLS_INFO_CONNECTIONS_H

/*
 * Tables of connections, as an info_source wants them.
 */

#include "info-tables.h"

/* TCP sockets: one for each path of a connection over TCP. */
bool tcp_socket_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row);
void tcp_socket_print_header(void);
void tcp_socket_print(const union row *row);
void tcp_socket_write(struct json *json, const union row *row);

/* Sorts TCP sockets as the next functions need them in info_view. */
void tcp_sockets_sort(struct info_rows *sockets);

/* Connections, and in verbose output their TCP sockets. */
bool connection_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row);
void connection_print_header(void);
void connection_print(const union row *row);
void connection_write(struct json *json, const union row *row);

/* Connections over InfiniBand, RoCE and iWARP. */
bool ib_connection_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row);
void ib_connection_print_header(void);
void ib_connection_print(const union row *row);
void ib_connection_write(struct json *json, const union row *row);

#endif
