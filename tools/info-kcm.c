// SPDX-License-Identifier: GPL-2.0
#include "info-kcm.h"

#include "info-tables.h"

#include "../include/uapi/hawser_kcm.h"
#include "../include/uapi/hawser_netlink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
	unsigned int flag;
	const char *name;
} states[] = {
	{ KCM_CONN_RX_STOPPED, "rx_stopped" },
	{ KCM_CONN_TX_STOPPED, "tx_stopped" },
	{ KCM_CONN_RESERVED, "reserved" },
	{ KCM_CONN_PAUSED, "paused" },
};

void kcm_connection_decode(struct attributes all, struct kcm_row *connection)
{
	*connection = (struct kcm_row){
		.mux = attribute_number(all, HAWSER_KCM_CONNECTION_MUX, 0),
		.id = attribute_number(all, HAWSER_KCM_CONNECTION_ID, 0),
		.state = attribute_number(all, HAWSER_KCM_CONNECTION_STATE, 0),
		.error = attribute_number(all, HAWSER_KCM_CONNECTION_ERROR, 0),
		.rx_messages = attribute_number(all, HAWSER_KCM_CONNECTION_RX_MESSAGES, 0),
		.rx_bytes = attribute_number(all, HAWSER_KCM_CONNECTION_RX_BYTES, 0),
		.tx_messages = attribute_number(all, HAWSER_KCM_CONNECTION_TX_MESSAGES, 0),
		.tx_bytes = attribute_number(all, HAWSER_KCM_CONNECTION_TX_BYTES, 0),
		.rx_partial = attribute_number(all, HAWSER_KCM_CONNECTION_RX_PARTIAL, 0),
	};
	attribute_address(all, HAWSER_KCM_CONNECTION_LOCAL, &connection->local);
	attribute_address(all, HAWSER_KCM_CONNECTION_REMOTE, &connection->remote);
	rds_address_set_port(&connection->local, (uint16_t)attribute_number(all, HAWSER_KCM_CONNECTION_LOCAL_PORT, 0));
	rds_address_set_port(&connection->remote, (uint16_t)attribute_number(all, HAWSER_KCM_CONNECTION_REMOTE_PORT, 0));
}

static void add_connection(void *context, uint8_t command, struct attributes attributes)
{
	struct kcm_row connection;

	if (command != HAWSER_CMD_KCM_CONNECTION_GET)
		return;
	kcm_connection_decode(attributes, &connection);
	if (!info_view.all_families && connection.local.any.sa_family == AF_INET6)
		return;
	info_add_row(context)->kcm = connection;
}

bool kcm_read(struct info_rows *rows)
{
	return info_read_reports(HAWSER_CMD_KCM_CONNECTION_GET, add_connection, rows, "connections of KCM");
}

void kcm_print_header(void)
{
	printf("\nKCM Connections:\n%4s %4s %*s %5s %*s %5s %10s %14s %10s %14s %8s %s\n", "Mux", "Id", info_address_width(),
	       "LocalAddr", "LPort", info_address_width(), "RemoteAddr", "RPort", "RxMsgs", "RxBytes", "TxMsgs", "TxBytes",
	       "Partial", "State");
}

void kcm_connection_show(const struct kcm_row *connection)
{
	size_t i;

	printf("%4" PRIu64 " %4" PRIu64 " ", connection->mux, connection->id);
	info_print_ends(&connection->local, &connection->remote);
	printf("%10" PRIu64 " %14" PRIu64 " %10" PRIu64 " %14" PRIu64 " %8" PRIu64 " ", connection->rx_messages,
	       connection->rx_bytes, connection->tx_messages, connection->tx_bytes, connection->rx_partial);
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (connection->state & states[i].flag)
			printf("%s ", states[i].name);
	}
	if (connection->error)
		printf("(%s)", strerror((int)connection->error));
	putchar('\n');
}

void kcm_connection_write(struct json *json, const struct kcm_row *connection)
{
	size_t i;

	json_unsigned(json, "mux", connection->mux);
	json_unsigned(json, "id", connection->id);
	info_write_ends(json, &connection->local, &connection->remote);
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		json_bool(json, states[i].name, connection->state & states[i].flag);
	json_unsigned(json, "error", connection->error);
	json_unsigned(json, "rx_messages", connection->rx_messages);
	json_unsigned(json, "rx_bytes", connection->rx_bytes);
	json_unsigned(json, "tx_messages", connection->tx_messages);
	json_unsigned(json, "tx_bytes", connection->tx_bytes);
	json_unsigned(json, "rx_partial", connection->rx_partial);
}

void kcm_print(const union row *row)
{
	kcm_connection_show(&row->kcm);
}

void kcm_write(struct json *json, const union row *row)
{
	kcm_connection_write(json, &row->kcm);
}

void kcm_mux_decode(struct attributes all, struct kcm_mux_row *mux)
{
	*mux = (struct kcm_mux_row){
		.number = attribute_number(all, HAWSER_KCM_MUX_NUMBER, 0),
		.sockets = attribute_number(all, HAWSER_KCM_MUX_SOCKETS, 0),
		.connections = attribute_number(all, HAWSER_KCM_MUX_CONNECTIONS, 0),
		.rx_messages = attribute_number(all, HAWSER_KCM_MUX_RX_MESSAGES, 0),
		.rx_bytes = attribute_number(all, HAWSER_KCM_MUX_RX_BYTES, 0),
		.tx_messages = attribute_number(all, HAWSER_KCM_MUX_TX_MESSAGES, 0),
		.tx_bytes = attribute_number(all, HAWSER_KCM_MUX_TX_BYTES, 0),
		.unread = attribute_number(all, HAWSER_KCM_MUX_UNREAD, 0),
		.unsent = attribute_number(all, HAWSER_KCM_MUX_UNSENT, 0),
	};
}

static void add_mux(void *context, uint8_t command, struct attributes attributes)
{
	if (command == HAWSER_CMD_KCM_MUX_GET)
		kcm_mux_decode(attributes, &info_add_row(context)->mux);
}

bool kcm_mux_read(struct info_rows *rows)
{
	return info_read_reports(HAWSER_CMD_KCM_MUX_GET, add_mux, rows, "multiplexors of KCM");
}

void kcm_mux_print_header(void)
{
	printf("\nKCM Multiplexors:\n%4s %7s %11s %10s %14s %10s %14s %8s %8s\n", "Mux", "Sockets", "Connections", "RxMsgs",
	       "RxBytes", "TxMsgs", "TxBytes", "Unread", "Unsent");
}

void kcm_mux_print(const union row *row)
{
	const struct kcm_mux_row *mux = &row->mux;

	printf("%4" PRIu64 " %7" PRIu64 " %11" PRIu64 " ", mux->number, mux->sockets, mux->connections);
	printf("%10" PRIu64 " %14" PRIu64 " %10" PRIu64 " %14" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n", mux->rx_messages,
	       mux->rx_bytes, mux->tx_messages, mux->tx_bytes, mux->unread, mux->unsent);
}

void kcm_mux_write(struct json *json, const union row *row)
{
	json_unsigned(json, "mux", row->mux.number);
	json_unsigned(json, "sockets", row->mux.sockets);
	json_unsigned(json, "connections", row->mux.connections);
	json_unsigned(json, "rx_messages", row->mux.rx_messages);
	json_unsigned(json, "rx_bytes", row->mux.rx_bytes);
	json_unsigned(json, "tx_messages", row->mux.tx_messages);
	json_unsigned(json, "tx_bytes", row->mux.tx_bytes);
	json_unsigned(json, "unread", row->mux.unread);
	json_unsigned(json, "unsent", row->mux.unsent);
}
