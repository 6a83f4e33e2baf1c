/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_PATHS_H
#define HAWSER_TOOLS_INFO_PATHS_H

/*
 * Paths of RDS connections, which hawser reports over generic netlink: a table of rds-info, and events.
 */

#include "info-tables.h"

/* Reads the table. False: the kernel has none. */
bool paths_read(struct info_rows *rows);

/* What all paths of a connection have in common, from its attributes; the rest of @path is zeroed. */
void path_read_connection(struct attributes all, struct path *path);
/* The next path of a connection's attributes @left, which is advanced; NULL at the end. And the rest of @path from it. */
const struct nlattr *path_next(struct attributes *left);
void path_read(struct attributes of, struct path *path);

/* Words for what answers at the other end, and for the last change. */
const char *path_peer_name(const struct path *path);
const char *path_reason_name(const struct path *path);

void paths_print_header(void);
void paths_print(const union row *row);
void paths_write(struct json *json, const union row *row);

/*
 * Prints the changes of paths, and of connections of KCM, as they happen, until interrupted. False: the kernel has no such
 * events.
 */
bool paths_follow(bool as_json);

#endif
