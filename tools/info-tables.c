// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's tables: decoding an entry, in either of its two layouts, and
 * printing it.
 */
#include "info-connections.h"
#include "info-paths.h"
#include "info-peers.h"
#include "info-reported.h"
#include "info-tables.h"

#include "owners.h"
#include "program.h"

#include "../include/uapi/hawser_netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct info_view info_view;

union row *info_add_row(struct info_rows *rows)
{
	if (rows->count == rows->room) {
		rows->room = 2 * rows->room + 16;
		rows->rows = realloc(rows->rows, rows->room * sizeof(*rows->rows));
		if (!rows->rows)
			die("out of memory");
	}
	memset(&rows->rows[rows->count], 0, sizeof(*rows->rows));
	return &rows->rows[rows->count++];
}

bool info_read_reports(uint8_t command, genetlink_message add, struct info_rows *rows, const char *what)
{
	*rows = (struct info_rows){ 0 };
	return info_read_messages(command, NULL, add, rows, what);
}

bool info_read_messages(uint8_t command, const struct genetlink_choice *choice, genetlink_message add, void *context,
			const char *what)
{
	struct genetlink link;
	int error = genetlink_open(&link, HAWSER_FAMILY_NAME);

	/* No such family; or this program may not use netlink. */
	if (error == -ENOENT || error == -EAFNOSUPPORT)
		return false;
	if (error)
		die_error(error, "opening generic netlink");
	error = genetlink_dump(&link, command, choice, add, context);
	genetlink_close(&link);
	if (error && error != -EOPNOTSUPP)
		die_error(error, "reading the %s", what);
	return !error;
}

int info_address_width(void)
{
	return info_view.all_families ? INET6_ADDRSTRLEN - 7 : INET_ADDRSTRLEN - 1;
}

void info_print_address(const union rds_address *address)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	printf("%*s ", info_address_width(), rds_address_format(address, text));
}

static void print_endpoint(const union rds_address *address)
{
	info_print_address(address);
	printf("%5u ", rds_address_port(address));
}

void info_print_ends(const union rds_address *local, const union rds_address *remote)
{
	print_endpoint(local);
	print_endpoint(remote);
}

void info_write_address(struct json *json, const char *key, const union rds_address *address)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	json_string(json, key, rds_address_format(address, text));
}

void info_write_ends(struct json *json, const union rds_address *local, const union rds_address *remote)
{
	info_write_address(json, "local_address", local);
	json_unsigned(json, "local_port", rds_address_port(local));
	info_write_address(json, "remote_address", remote);
	json_unsigned(json, "remote_port", rds_address_port(remote));
}

/* Entries of IPv4 come from the other table. */
bool info_only_here(const union rds_address *address)
{
	return address->any.sa_family == AF_INET6;
}

/* Counters */

static bool decode_counter(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	struct rds_info_counter counter;

	(void)ipv6;
	rds_info_entry(table, index, &counter, sizeof(counter));
	memcpy(row->counter.name, counter.name, sizeof(counter.name));
	row->counter.name[sizeof(counter.name)] = '\0';
	row->counter.value = counter.value;
	return true;
}

static void add_counter(void *context, uint8_t command, struct attributes attributes)
{
	const struct nlattr *name = attribute_find(attributes, HAWSER_RDS_COUNTER_NAME);
	struct counter *counter;
	const char *text;
	size_t bytes;

	if (command != HAWSER_CMD_RDS_COUNTER_GET || !name)
		return;
	counter = &info_add_row(context)->counter;
	text = attribute_bytes(name, &bytes);
	snprintf(counter->name, sizeof(counter->name), "%.*s", (int)bytes, text);
	counter->value = attribute_number(attributes, HAWSER_RDS_COUNTER_VALUE, 0);
}

/* Of hawser's modules, without a socket of RDS. */
static bool read_counters(struct info_rows *rows)
{
	return info_read_reports(HAWSER_CMD_RDS_COUNTER_GET, add_counter, rows, "counters");
}

static void print_counter_header(void)
{
	printf("\nCounters:\n%25s %16s\n", "CounterName", "Value");
}

static void print_counter(const union row *row)
{
	printf("%25s %16" PRIu64 "\n", row->counter.name, row->counter.value);
}

static void write_counter(struct json *json, const union row *row)
{
	json_unsigned(json, row->counter.name, row->counter.value);
}

/* Sockets */

static bool decode_socket(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	struct socket_row *socket = &row->socket;
	struct rds6_info_socket six;
	struct rds_info_socket four;

	if (ipv6) {
		rds_info_entry(table, index, &six, sizeof(six));
		rds_address_from_ipv6(&socket->bound, six.bound_addr, six.bound_port);
		rds_address_from_ipv6(&socket->connected, six.connected_addr, six.connected_port);
		socket->send_buffer = six.sndbuf;
		socket->receive_buffer = six.rcvbuf;
		socket->inode = six.inum;
		socket->has_bytes = false;
		return info_only_here(&socket->bound);
	}
	rds_info_entry(table, index, &four, sizeof(four));
	rds_address_from_ipv4(&socket->bound, four.bound_addr, four.bound_port);
	rds_address_from_ipv4(&socket->connected, four.connected_addr, four.connected_port);
	socket->send_buffer = four.sndbuf;
	socket->receive_buffer = four.rcvbuf;
	socket->inode = four.inum;
	socket->has_bytes = false;
	return true;
}

static void add_socket(void *context, uint8_t command, struct attributes attributes)
{
	struct socket_row socket = {
		.send_buffer = (uint32_t)attribute_number(attributes, HAWSER_RDS_SOCKET_SEND_BUFFER, 0),
		.receive_buffer = (uint32_t)attribute_number(attributes, HAWSER_RDS_SOCKET_RECEIVE_BUFFER, 0),
		.inode = attribute_number(attributes, HAWSER_RDS_SOCKET_INODE, 0),
		.has_bytes = true,
		.sending = attribute_number(attributes, HAWSER_RDS_SOCKET_SENDING, 0),
		.unread = attribute_number(attributes, HAWSER_RDS_SOCKET_UNREAD, 0),
	};

	if (command != HAWSER_CMD_RDS_SOCKET_GET)
		return;
	attribute_address(attributes, HAWSER_RDS_SOCKET_LOCAL, &socket.bound);
	attribute_address(attributes, HAWSER_RDS_SOCKET_REMOTE, &socket.connected);
	if (socket.bound.any.sa_family == AF_INET6 && rds_address_is_any(&socket.connected))
		rds_address_from_ipv6(&socket.connected, in6addr_any, 0);
	if (!info_view.all_families && socket.bound.any.sa_family == AF_INET6)
		return;
	rds_address_set_port(&socket.bound, (uint16_t)attribute_number(attributes, HAWSER_RDS_SOCKET_LOCAL_PORT, 0));
	rds_address_set_port(&socket.connected, (uint16_t)attribute_number(attributes, HAWSER_RDS_SOCKET_REMOTE_PORT, 0));
	info_add_row(context)->socket = socket;
}

static bool read_sockets(struct info_rows *rows)
{
	return info_read_reports(HAWSER_CMD_RDS_SOCKET_GET, add_socket, rows, "RDS sockets");
}

static void print_socket_header(void)
{
	printf("\nRDS Sockets:\n%*s %5s %*s %5s %10s %10s %8s%s\n", info_address_width(), "BoundAddr", "BPort",
	       info_address_width(), "ConnAddr", "CPort", "SndBuf", "RcvBuf", "Inode",
	       info_view.verbose ? "    Sending     Unread  Process" : "");
}

static void print_socket(const union row *row)
{
	struct owner owner;

	info_print_ends(&row->socket.bound, &row->socket.connected);
	printf("%10u %10u %8" PRIu64, row->socket.send_buffer, row->socket.receive_buffer,
	       row->socket.inode);
	if (info_view.verbose && row->socket.has_bytes)
		printf(" %10" PRIu64 " %10" PRIu64, row->socket.sending, row->socket.unread);
	else if (info_view.verbose)
		printf(" %10s %10s", "-", "-");
	if (info_view.verbose && owner_find(row->socket.inode, &owner)) {
		/* A program chooses its name. In JSON all bytes are shown, and escaped. */
		make_printable(owner.command, strlen(owner.command));
		printf("  %d %s", (int)owner.pid, owner.command);
	}
	printf("\n");
}

static void write_socket(struct json *json, const union row *row)
{
	struct owner owner;

	info_write_address(json, "bound_address", &row->socket.bound);
	json_unsigned(json, "bound_port", rds_address_port(&row->socket.bound));
	info_write_address(json, "connected_address", &row->socket.connected);
	json_unsigned(json, "connected_port", rds_address_port(&row->socket.connected));
	json_unsigned(json, "send_buffer", row->socket.send_buffer);
	json_unsigned(json, "receive_buffer", row->socket.receive_buffer);
	json_unsigned(json, "inode", row->socket.inode);
	if (row->socket.has_bytes) {
		json_unsigned(json, "sending", row->socket.sending);
		json_unsigned(json, "unread", row->socket.unread);
	}
	if (!owner_find(row->socket.inode, &owner))
		return;
	json_unsigned(json, "pid", (uint64_t)owner.pid);
	json_string(json, "command", owner.command);
}

/* Messages in the three kinds of queues */

static bool decode_message(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	struct message *message = &row->message;
	struct rds6_info_message six;
	struct rds_info_message four;

	if (ipv6) {
		rds_info_entry(table, index, &six, sizeof(six));
		rds_address_from_ipv6(&message->local, six.laddr, six.lport);
		rds_address_from_ipv6(&message->remote, six.faddr, six.fport);
		message->tos = six.tos;
		message->flags = six.flags;
		message->sequence = six.seq;
		message->bytes = six.len;
		return info_only_here(&message->local);
	}
	rds_info_entry(table, index, &four, sizeof(four));
	rds_address_from_ipv4(&message->local, four.laddr, four.lport);
	rds_address_from_ipv4(&message->remote, four.faddr, four.fport);
	message->tos = four.tos;
	message->flags = four.flags;
	message->sequence = four.seq;
	message->bytes = four.len;
	return true;
}

static void print_message_header(const char *queue)
{
	printf("\n%s Message Queue:\n%*s %5s %*s %5s %4s %16s %10s\n", queue, info_address_width(), "LocalAddr",
	       "LPort", info_address_width(), "RemoteAddr", "RPort", "Tos", "Seq", "Bytes");
}

static void print_receive_header(void)
{
	print_message_header("Receive");
}

static void print_send_header(void)
{
	print_message_header("Send");
}

static void print_retransmit_header(void)
{
	print_message_header("Retransmit");
}

static void print_message(const union row *row)
{
	info_print_ends(&row->message.local, &row->message.remote);
	printf("%4u %16" PRIu64 " %10u\n", row->message.tos, row->message.sequence, row->message.bytes);
}

static void write_message(struct json *json, const union row *row)
{
	info_write_ends(json, &row->message.local, &row->message.remote);
	json_unsigned(json, "tos", row->message.tos);
	json_unsigned(json, "sequence", row->message.sequence);
	json_unsigned(json, "bytes", row->message.bytes);
	json_bool(json, "ack", row->message.flags & RDS_INFO_MESSAGE_FLAG_ACK);
	json_bool(json, "fast_ack", row->message.flags & RDS_INFO_MESSAGE_FLAG_FAST_ACK);
}

/* In the order in which they are shown when none is chosen. */
const struct info_source info_sources[INFO_SOURCE_COUNT] = {
	{ 'I', RDS_INFO_IB_CONNECTIONS, RDS6_INFO_IB_CONNECTIONS, "connections over RDMA", "ib_connections",
	  ib_connection_decode, reported_ib_connections, "rds_rdma", false, ib_connection_print_header, ib_connection_print,
	  ib_connection_write },
	{ .letter = 'K', .description = "connections of KCM, which only hawser's module shows", .key = "kcm_connections",
	  .read = kcm_read, .if_chosen = true, .print_header = kcm_print_header, .print = kcm_print, .write = kcm_write },
	{ .letter = 'M', .description = "multiplexors of KCM, with what waits in their sockets, which only hawser's module shows",
	  .key = "kcm_multiplexors", .read = kcm_mux_read, .if_chosen = true, .print_header = kcm_mux_print_header,
	  .print = kcm_mux_print, .write = kcm_mux_write },
	{ .letter = 'P', .description = "peers, with the paths to each together, which only hawser's modules show",
	  .key = "peers", .read = peers_read, .if_chosen = true, .print_header = peers_print_header, .print = peers_print,
	  .write = peers_write },
	{ 'T', RDS_INFO_TCP_SOCKETS, RDS6_INFO_TCP_SOCKETS, "TCP sockets, one for each path", "tcp_sockets",
	  tcp_socket_decode, reported_tcp_sockets, "rds_tcp", false, tcp_socket_print_header, tcp_socket_print,
	  tcp_socket_write },
	{ 'c', RDS_INFO_COUNTERS, 0, "counters", "counters", decode_counter, read_counters, NULL, false, print_counter_header,
	  print_counter, write_counter },
	{ 'k', RDS_INFO_SOCKETS, RDS6_INFO_SOCKETS, "RDS sockets", "sockets", decode_socket, read_sockets, NULL, false,
	  print_socket_header, print_socket, write_socket },
	{ 'n', RDS_INFO_CONNECTIONS, RDS6_INFO_CONNECTIONS, "connections", "connections", connection_decode,
	  reported_connections, NULL, false, connection_print_header, connection_print, connection_write },
	{ .letter = 'p', .description = "paths of connections, which only hawser's modules show", .key = "paths",
	  .read = paths_read, .print_header = paths_print_header, .print = paths_print, .write = paths_write },
	{ 'r', RDS_INFO_RECV_MESSAGES, RDS6_INFO_RECV_MESSAGES, "messages received and not yet read",
	  "receive_queue", decode_message, reported_receive_queues, NULL, false, print_receive_header, print_message,
	  write_message },
	{ 's', RDS_INFO_SEND_MESSAGES, RDS6_INFO_SEND_MESSAGES, "messages not yet sent", "send_queue",
	  decode_message, reported_send_queues, NULL, false, print_send_header, print_message, write_message },
	{ 't', RDS_INFO_RETRANS_MESSAGES, RDS6_INFO_RETRANS_MESSAGES,
	  "messages sent and not yet acknowledged", "retransmit_queue", decode_message, reported_retransmit_queues, NULL,
	  false, print_retransmit_header, print_message, write_message },
};
