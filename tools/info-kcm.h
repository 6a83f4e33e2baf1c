/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_KCM_H
#define HAWSER_TOOLS_INFO_KCM_H

/*
 * Connections of KCM, which hawser reports over generic netlink: a table of rds-info.
 */

#include "genetlink.h"
#include "json.h"
#include "rds-address.h"

#include <stdint.h>

union row;
struct info_rows;

struct kcm_row {
	uint64_t mux, id;
	union rds_address local, remote; /* with ports */
	uint64_t state;			 /* enum kcm_connection_state */
	uint64_t error;
	uint64_t rx_messages, rx_bytes, tx_messages, tx_bytes, rx_partial;
};

struct kcm_mux_row {
	uint64_t number, sockets, connections;
	uint64_t rx_messages, rx_bytes, tx_messages, tx_bytes, unread, unsent;
};

void kcm_connection_decode(struct attributes all, struct kcm_row *connection);
void kcm_connection_show(const struct kcm_row *connection);
void kcm_connection_write(struct json *json, const struct kcm_row *connection);

/* The table, for rds-info. False: the module is not loaded, or not hawser's. */
bool kcm_read(struct info_rows *rows);
void kcm_print_header(void);
void kcm_print(const union row *row);
void kcm_write(struct json *json, const union row *row);

/* The same for multiplexors. */
void kcm_mux_decode(struct attributes all, struct kcm_mux_row *mux);
bool kcm_mux_read(struct info_rows *rows);
void kcm_mux_print_header(void);
void kcm_mux_print(const union row *row);
void kcm_mux_write(struct json *json, const union row *row);

#endif
