// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's tables: decoding an entry, in either of its two layouts, and
 * printing it.
 */
#include "info-paths.h"
#include "info-tables.h"

#include "owners.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct info_view info_view;

/* Oracle's kernels report this one too. */
#define CONNECTION_FLAG_ERROR 0x08

int info_address_width(void)
{
	return info_view.all_families ? INET6_ADDRSTRLEN - 7 : INET_ADDRSTRLEN - 1;
}

static void print_address(const union rds_address *address)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	printf("%*s ", info_address_width(), rds_address_format(address, text));
}

static void print_endpoint(const union rds_address *address)
{
	print_address(address);
	printf("%5u ", rds_address_port(address));
}

static void write_address(struct json *json, const char *key, const union rds_address *address)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	json_string(json, key, rds_address_format(address, text));
}

/* Entries of IPv4 come from the other table. */
static bool only_here(const union rds_address *address)
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
		return only_here(&socket->bound);
	}
	rds_info_entry(table, index, &four, sizeof(four));
	rds_address_from_ipv4(&socket->bound, four.bound_addr, four.bound_port);
	rds_address_from_ipv4(&socket->connected, four.connected_addr, four.connected_port);
	socket->send_buffer = four.sndbuf;
	socket->receive_buffer = four.rcvbuf;
	socket->inode = four.inum;
	return true;
}

static void print_socket_header(void)
{
	printf("\nRDS Sockets:\n%*s %5s %*s %5s %10s %10s %8s%s\n", info_address_width(), "BoundAddr", "BPort",
	       info_address_width(), "ConnAddr", "CPort", "SndBuf", "RcvBuf", "Inode",
	       info_view.verbose ? "  Process" : "");
}

static void print_socket(const union row *row)
{
	struct owner owner;

	print_endpoint(&row->socket.bound);
	print_endpoint(&row->socket.connected);
	printf("%10u %10u %8" PRIu64, row->socket.send_buffer, row->socket.receive_buffer,
	       row->socket.inode);
	if (info_view.verbose && owner_find(row->socket.inode, &owner))
		printf("  %d %s", (int)owner.pid, owner.command);
	printf("\n");
}

static void write_socket(struct json *json, const union row *row)
{
	struct owner owner;

	write_address(json, "bound_address", &row->socket.bound);
	json_unsigned(json, "bound_port", rds_address_port(&row->socket.bound));
	write_address(json, "connected_address", &row->socket.connected);
	json_unsigned(json, "connected_port", rds_address_port(&row->socket.connected));
	json_unsigned(json, "send_buffer", row->socket.send_buffer);
	json_unsigned(json, "receive_buffer", row->socket.receive_buffer);
	json_unsigned(json, "inode", row->socket.inode);
	if (!owner_find(row->socket.inode, &owner))
		return;
	json_unsigned(json, "pid", (uint64_t)owner.pid);
	json_string(json, "command", owner.command);
}

/* TCP sockets: one for each path of a connection over TCP */

static bool decode_tcp_socket(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	struct tcp_socket *tcp = &row->tcp;
	struct rds6_info_tcp_socket six;
	struct rds_info_tcp_socket four;

	if (ipv6) {
		rds_info_entry(table, index, &six, sizeof(six));
		rds_address_from_ipv6(&tcp->local, six.local_addr, six.local_port);
		rds_address_from_ipv6(&tcp->remote, six.peer_addr, six.peer_port);
		tcp->header_remaining = six.hdr_rem;
		tcp->data_remaining = six.data_rem;
		tcp->sent_next = six.last_sent_nxt;
		tcp->expected_una = six.last_expected_una;
		tcp->seen_una = six.last_seen_una;
		tcp->has_tos = false;
		return only_here(&tcp->local);
	}
	rds_info_entry(table, index, &four, sizeof(four));
	rds_address_from_ipv4(&tcp->local, four.local_addr, four.local_port);
	rds_address_from_ipv4(&tcp->remote, four.peer_addr, four.peer_port);
	tcp->header_remaining = four.hdr_rem;
	tcp->data_remaining = four.data_rem;
	tcp->sent_next = four.last_sent_nxt;
	tcp->expected_una = four.last_expected_una;
	tcp->seen_una = four.last_seen_una;
	tcp->has_tos = true;
	tcp->tos = four.tos;
	return true;
}

static void print_tcp_socket_header(void)
{
	printf("\nTCP Connections:\n%*s %5s %*s %5s %10s %10s %10s %10s %10s\n", info_address_width(), "LocalAddr",
	       "LPort", info_address_width(), "RemoteAddr", "RPort", "HdrRemain", "DataRemain", "SentNxt",
	       "ExpectUna", "SeenUna");
}

static void print_tcp_socket(const union row *row)
{
	print_endpoint(&row->tcp.local);
	print_endpoint(&row->tcp.remote);
	printf("%10" PRIu64 " %10" PRIu64 " %10u %10u %10u\n", row->tcp.header_remaining,
	       row->tcp.data_remaining, row->tcp.sent_next, row->tcp.expected_una, row->tcp.seen_una);
}

static void write_tcp_numbers(struct json *json, const struct tcp_socket *tcp)
{
	json_unsigned(json, "header_remaining", tcp->header_remaining);
	json_unsigned(json, "data_remaining", tcp->data_remaining);
	json_unsigned(json, "sent_next", tcp->sent_next);
	json_unsigned(json, "expected_una", tcp->expected_una);
	json_unsigned(json, "seen_una", tcp->seen_una);
}

static void write_tcp_socket(struct json *json, const union row *row)
{
	write_address(json, "local_address", &row->tcp.local);
	json_unsigned(json, "local_port", rds_address_port(&row->tcp.local));
	write_address(json, "remote_address", &row->tcp.remote);
	json_unsigned(json, "remote_port", rds_address_port(&row->tcp.remote));
	write_tcp_numbers(json, &row->tcp);
	if (row->tcp.has_tos)
		json_unsigned(json, "tos", row->tcp.tos);
	else
		json_null(json, "tos");
}

/* Connections */

static bool is_same_connection(const struct connection *a, const struct connection *b)
{
	return !strcmp(a->transport, b->transport) && rds_address_same_host(&a->local, &b->local) &&
	       rds_address_same_host(&a->remote, &b->remote) && a->has_tos == b->has_tos &&
	       (!a->has_tos || a->tos == b->tos);
}

static bool decode_entry(const struct rds_info_table *table, size_t index, bool ipv6,
			 struct connection *connection)
{
	struct rds6_info_connection six;
	struct rds_info_connection four;

	memset(connection->transport, 0, sizeof(connection->transport));
	if (ipv6) {
		rds_info_entry(table, index, &six, sizeof(six));
		rds_address_from_ipv6(&connection->local, six.laddr, 0);
		rds_address_from_ipv6(&connection->remote, six.faddr, 0);
		memcpy(connection->transport, six.transport, sizeof(six.transport));
		connection->flags = six.flags;
		connection->has_tos = false;
		connection->next_tx = six.next_tx_seq;
		connection->next_rx = six.next_rx_seq;
		return only_here(&connection->local);
	}
	rds_info_entry(table, index, &four, sizeof(four));
	rds_address_from_ipv4(&connection->local, four.laddr, 0);
	rds_address_from_ipv4(&connection->remote, four.faddr, 0);
	memcpy(connection->transport, four.transport, sizeof(four.transport));
	connection->flags = four.flags;
	connection->has_tos = true;
	connection->tos = four.tos;
	connection->next_tx = four.next_tx_seq;
	connection->next_rx = four.next_rx_seq;
	return true;
}

/*
 * A connection has an entry for each path, in sequence, and entries do not identify their path's socket: the
 * sockets of all paths are printed with the first.
 */
static bool decode_connection(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	struct connection before;
	bool shown = decode_entry(table, index, ipv6, &row->connection);

	row->connection.shows_paths = true;
	if (index) {
		decode_entry(table, index - 1, ipv6, &before);
		row->connection.shows_paths = !is_same_connection(&before, &row->connection);
	}
	return shown;
}

static bool is_path_of(const struct tcp_socket *tcp, const struct connection *connection)
{
	return connection->shows_paths && !strcmp(connection->transport, "tcp") &&
	       rds_address_same_host(&tcp->local, &connection->local) &&
	       rds_address_same_host(&tcp->remote, &connection->remote) &&
	       (!tcp->has_tos || !connection->has_tos || tcp->tos == connection->tos);
}

static void print_connection_header(void)
{
	printf("\nRDS Connections:\n%*s %*s %4s %16s %16s %4s%s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "NextTX", "NextRX", "Flgs",
	       info_view.verbose ? "  Transport" : "");
}

static void print_paths(const struct connection *connection)
{
	size_t i;

	for (i = 0; i < info_view.tcp_sockets.count; i++) {
		const struct tcp_socket *tcp = &info_view.tcp_sockets.rows[i].tcp;

		if (is_path_of(tcp, connection))
			printf("%*s path over TCP ports %u -> %u\n", info_address_width(), "",
			       rds_address_port(&tcp->local), rds_address_port(&tcp->remote));
	}
}

static void print_connection(const union row *row)
{
	const struct connection *connection = &row->connection;

	print_address(&connection->local);
	print_address(&connection->remote);
	if (connection->has_tos)
		printf("%4u ", connection->tos);
	else
		printf("%4s ", "-");
	printf("%16" PRIu64 " %16" PRIu64 " %c%c%c%c", connection->next_tx, connection->next_rx,
	       connection->flags & RDS_INFO_CONNECTION_FLAG_SENDING ? 's' : '-',
	       connection->flags & RDS_INFO_CONNECTION_FLAG_CONNECTING ? 'c' : '-',
	       connection->flags & RDS_INFO_CONNECTION_FLAG_CONNECTED ? 'C' : '-',
	       connection->flags & CONNECTION_FLAG_ERROR ? 'E' : '-');
	if (info_view.verbose)
		printf("  %s", connection->transport);
	printf("\n");
	if (info_view.verbose)
		print_paths(connection);
}

static void write_paths(struct json *json, const struct connection *connection)
{
	size_t i;

	json_open_array(json, "paths");
	for (i = 0; i < info_view.tcp_sockets.count; i++) {
		const struct tcp_socket *tcp = &info_view.tcp_sockets.rows[i].tcp;

		if (!is_path_of(tcp, connection))
			continue;
		json_open_object(json, NULL);
		json_unsigned(json, "local_port", rds_address_port(&tcp->local));
		json_unsigned(json, "remote_port", rds_address_port(&tcp->remote));
		write_tcp_numbers(json, tcp);
		json_close(json);
	}
	json_close(json);
}

static void write_connection(struct json *json, const union row *row)
{
	const struct connection *connection = &row->connection;

	write_address(json, "local_address", &connection->local);
	write_address(json, "remote_address", &connection->remote);
	json_string(json, "transport", connection->transport);
	if (connection->has_tos)
		json_unsigned(json, "tos", connection->tos);
	else
		json_null(json, "tos");
	json_unsigned(json, "next_tx", connection->next_tx);
	json_unsigned(json, "next_rx", connection->next_rx);
	json_bool(json, "sending", connection->flags & RDS_INFO_CONNECTION_FLAG_SENDING);
	json_bool(json, "connecting", connection->flags & RDS_INFO_CONNECTION_FLAG_CONNECTING);
	json_bool(json, "connected", connection->flags & RDS_INFO_CONNECTION_FLAG_CONNECTED);
	json_bool(json, "error", connection->flags & CONNECTION_FLAG_ERROR);
	write_paths(json, connection);
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
		return only_here(&message->local);
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
	print_endpoint(&row->message.local);
	print_endpoint(&row->message.remote);
	printf("%4u %16" PRIu64 " %10u\n", row->message.tos, row->message.sequence, row->message.bytes);
}

static void write_message(struct json *json, const union row *row)
{
	write_address(json, "local_address", &row->message.local);
	json_unsigned(json, "local_port", rds_address_port(&row->message.local));
	write_address(json, "remote_address", &row->message.remote);
	json_unsigned(json, "remote_port", rds_address_port(&row->message.remote));
	json_unsigned(json, "tos", row->message.tos);
	json_unsigned(json, "sequence", row->message.sequence);
	json_unsigned(json, "bytes", row->message.bytes);
	json_bool(json, "ack", row->message.flags & RDS_INFO_MESSAGE_FLAG_ACK);
	json_bool(json, "fast_ack", row->message.flags & RDS_INFO_MESSAGE_FLAG_FAST_ACK);
}

/* Connections over InfiniBand, RoCE and iWARP */

static bool decode_ib_connection(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
{
	const size_t rest = offsetof(struct rds_info_rdma_connection, src_gid);
	const size_t rest_ipv6 = offsetof(struct rds6_info_rdma_connection, src_gid);
	struct ib_connection *ib = &row->ib;
	struct rds6_info_rdma_connection six;
	struct in6_addr device;

	if (ipv6) {
		rds_info_entry(table, index, &six, sizeof(six));
		rds_address_from_ipv6(&ib->local, six.src_addr, 0);
		rds_address_from_ipv6(&ib->remote, six.dst_addr, 0);
		/* After the addresses both layouts are equal. */
		memcpy((char *)&ib->details + rest, (char *)&six + rest_ipv6, sizeof(ib->details) - rest);
	} else {
		rds_info_entry(table, index, &ib->details, sizeof(ib->details));
		rds_address_from_ipv4(&ib->local, ib->details.src_addr, 0);
		rds_address_from_ipv4(&ib->remote, ib->details.dst_addr, 0);
	}
	memcpy(&device, ib->details.src_gid, sizeof(device));
	rds_address_from_ipv6(&ib->local_device, device, 0);
	memcpy(&device, ib->details.dst_gid, sizeof(device));
	rds_address_from_ipv6(&ib->remote_device, device, 0);
	return !ipv6 || only_here(&ib->local);
}

static void print_ib_connection_header(void)
{
	printf("\nRDS IB Connections:\n%*s %*s %4s %3s %32s %32s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "SL", "LocalDev", "RemoteDev");
}

static void print_ib_connection(const union row *row)
{
	const struct rds_info_rdma_connection *details = &row->ib.details;
	char local[RDS_ADDRESS_TEXT_SIZE], remote[RDS_ADDRESS_TEXT_SIZE];

	print_address(&row->ib.local);
	print_address(&row->ib.remote);
	printf("%4u %3u %32s %32s", details->tos, details->sl,
	       rds_address_format(&row->ib.local_device, local),
	       rds_address_format(&row->ib.remote_device, remote));
	if (info_view.verbose)
		printf("  send_wr=%u, recv_wr=%u, send_sge=%u, rdma_mr_max=%u, rdma_mr_size=%u, "
		       "cache_allocs=%u",
		       details->max_send_wr, details->max_recv_wr, details->max_send_sge,
		       details->rdma_mr_max, details->rdma_mr_size, details->cache_allocs);
	printf("\n");
}

static void write_ib_connection(struct json *json, const union row *row)
{
	const struct rds_info_rdma_connection *details = &row->ib.details;

	write_address(json, "local_address", &row->ib.local);
	write_address(json, "remote_address", &row->ib.remote);
	write_address(json, "local_gid", &row->ib.local_device);
	write_address(json, "remote_gid", &row->ib.remote_device);
	json_unsigned(json, "tos", details->tos);
	json_unsigned(json, "service_level", details->sl);
	json_unsigned(json, "max_send_wr", details->max_send_wr);
	json_unsigned(json, "max_recv_wr", details->max_recv_wr);
	json_unsigned(json, "max_send_sge", details->max_send_sge);
	json_unsigned(json, "rdma_mr_max", details->rdma_mr_max);
	json_unsigned(json, "rdma_mr_size", details->rdma_mr_size);
	json_unsigned(json, "cache_allocs", details->cache_allocs);
}

/* In the order in which they are shown when none is chosen. */
const struct info_source info_sources[INFO_SOURCE_COUNT] = {
	{ 'I', RDS_INFO_IB_CONNECTIONS, RDS6_INFO_IB_CONNECTIONS, "connections over RDMA", "ib_connections",
	  decode_ib_connection, NULL, print_ib_connection_header, print_ib_connection, write_ib_connection },
	{ 'T', RDS_INFO_TCP_SOCKETS, RDS6_INFO_TCP_SOCKETS, "TCP sockets, one for each path", "tcp_sockets",
	  decode_tcp_socket, NULL, print_tcp_socket_header, print_tcp_socket, write_tcp_socket },
	{ 'c', RDS_INFO_COUNTERS, 0, "counters", "counters", decode_counter, NULL, print_counter_header,
	  print_counter, write_counter },
	{ 'k', RDS_INFO_SOCKETS, RDS6_INFO_SOCKETS, "RDS sockets", "sockets", decode_socket, NULL,
	  print_socket_header, print_socket, write_socket },
	{ 'n', RDS_INFO_CONNECTIONS, RDS6_INFO_CONNECTIONS, "connections", "connections", decode_connection, NULL,
	  print_connection_header, print_connection, write_connection },
	{ .letter = 'p', .description = "paths of connections, which only hawser's modules show", .key = "paths",
	  .read = paths_read, .print_header = paths_print_header, .print = paths_print, .write = paths_write },
	{ 'r', RDS_INFO_RECV_MESSAGES, RDS6_INFO_RECV_MESSAGES, "messages received and not yet read",
	  "receive_queue", decode_message, NULL, print_receive_header, print_message, write_message },
	{ 's', RDS_INFO_SEND_MESSAGES, RDS6_INFO_SEND_MESSAGES, "messages not yet sent", "send_queue",
	  decode_message, NULL, print_send_header, print_message, write_message },
	{ 't', RDS_INFO_RETRANS_MESSAGES, RDS6_INFO_RETRANS_MESSAGES,
	  "messages sent and not yet acknowledged", "retransmit_queue", decode_message, NULL,
	  print_retransmit_header, print_message, write_message },
};
