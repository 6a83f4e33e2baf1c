/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_PEERS_H
#define HAWSER_TOOLS_INFO_PEERS_H

/*
 * Peers of RDS: what the paths of each connection have together, a line for each; a table of rds-info.
 */

#include "info-tables.h"

/* Adds a row to @peers for each connection of @paths, in their order. */
void peers_collect(const struct info_rows *paths, struct info_rows *peers);

/* The table, for rds-info. False: the kernel has none. */
bool peers_read(struct info_rows *rows);
void peers_print_header(void);
void peers_print(const union row *row);
void peers_write(struct json *json, const union row *row);

#endif
