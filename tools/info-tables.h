/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_TABLES_H
#define HAWSER_TOOLS_INFO_TABLES_H

/*
 * The tables that rds-info shows, each described by an info_source.
 */

#include "genetlink.h"
#include "info-kcm.h"
#include "info-latency.h"
#include "json.h"
#include "rds-socket.h"

struct counter {
	char name[sizeof(((struct rds_info_counter *)NULL)->name) + 1];
	uint64_t value;
};

struct connection {
	union rds_address local;
	union rds_address remote;
	char transport[TRANSNAMSIZ + 1];
	unsigned int flags;
	bool has_tos;
	unsigned int tos;
	uint64_t next_tx;
	uint64_t next_rx;
	bool shows_paths; /* the first of its connection's entries */
};

struct message {
	union rds_address local;
	union rds_address remote;
	unsigned int tos;
	unsigned int flags;
	uint64_t sequence;
	uint32_t bytes;
};

struct socket_row {
	union rds_address bound;
	union rds_address connected;
	uint32_t send_buffer;
	uint32_t receive_buffer;
	uint64_t inode;
	bool has_bytes;			/* hawser's modules alone report the next two */
	uint64_t sending, unread;
};

struct tcp_socket {
	union rds_address local;
	union rds_address remote;
	uint64_t header_remaining;
	uint64_t data_remaining;
	uint32_t sent_next;
	uint32_t expected_una;
	uint32_t seen_una;
	bool has_tos;
	unsigned int tos;
};

struct ib_connection {
	union rds_address local;
	union rds_address remote;
	union rds_address local_device;
	union rds_address remote_device;
	struct rds_info_rdma_connection details; /* its addresses are not used */
};

struct path {
	union rds_address local;
	union rds_address remote;
	char transport[TRANSNAMSIZ + 1];
	unsigned int tos;
	unsigned int index;
	uint64_t peer, state, reason, from;	/* as enum hawser_rds_* */
	uint64_t age_ms;
	uint64_t next_tx, next_rx;
	uint64_t tx_bytes, rx_bytes;
	bool sending;
	uint64_t queued, drops, retransmits;
	bool has_rtt;
	uint64_t rtt_us;
	struct latency latency;
};

/* The paths of a connection together. */
struct peer_row {
	struct path sum;
	unsigned int paths, up;
};

/* One entry of any table, from either of the kernel's two layouts. */
union row {
	struct counter counter;
	struct connection connection;
	struct message message;
	struct socket_row socket;
	struct tcp_socket tcp;
	struct ib_connection ib;
	struct path path;
	struct peer_row peer;
	struct kcm_row kcm;
	struct kcm_mux_row mux;
};

struct info_rows {
	union row *rows;
	size_t count, room;
};

/* Appends a row of zeroes; there is memory, or the program ends. */
union row *info_add_row(struct info_rows *rows);

/* A kind of table: its source and its format. */
struct info_source {
	char letter;
	int item;
	int item_ipv6;			/* 0: there is only one */
	const char *description;
	const char *key;		/* in JSON */
	/* Fills @row from entry @index. Returns false for an entry that the IPv4 table has shown already. */
	bool (*decode)(const struct rds_info_table *table, size_t index, bool ipv6, union row *row);
	/* Reads the whole table without a socket of RDS; false: there is none, or only that of item, if it is not 0. */
	bool (*read)(struct info_rows *rows);
	const char *module;		/* without which there is no table, then; NULL: none */
	bool if_chosen;			/* not one of all */
	void (*print_header)(void);
	void (*print)(const union row *row);
	void (*write)(struct json *json, const union row *row);
};

#define INFO_SOURCE_COUNT 12

extern const struct info_source info_sources[INFO_SOURCE_COUNT];

/* The user's choices, and the data that they need. */
struct info_view {
	bool verbose;
	bool all_families;		/* IPv6 too */
	struct info_rows tcp_sockets;	/* the paths of connections, if shown */
};

extern struct info_view info_view;

/* Reads a table that hawser's modules report over generic netlink. False: there is none. @what is for messages. */
bool info_read_reports(uint8_t command, genetlink_message add, struct info_rows *rows, const char *what);
/* The same by @choice, if it is not NULL, and with any context of @add. */
bool info_read_messages(uint8_t command, const struct genetlink_choice *choice, genetlink_message add, void *context,
			const char *what);

/* The width of a column of addresses. */
int info_address_width(void);

/* Prints a column with an address; for either of two ends, such a column and one with the port. */
void info_print_address(const union rds_address *address);
void info_print_ends(const union rds_address *local, const union rds_address *remote);

/* The same in JSON. */
void info_write_address(struct json *json, const char *key, const union rds_address *address);
void info_write_ends(struct json *json, const union rds_address *local, const union rds_address *remote);

/* Whether an entry of an IPv6 table is only there; those of IPv4 come from the other table, too. */
bool info_only_here(const union rds_address *address);

#endif
