// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's tables of connections, of their TCP sockets, and of connections over RDMA.
 */
#include "info-connections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Oracle's kernels report this one too. */
#define CONNECTION_FLAG_ERROR 0x08

/* TCP sockets: one for each path of a connection over TCP */

bool tcp_socket_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
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
		return info_only_here(&tcp->local);
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

void tcp_socket_print_header(void)
{
	printf("\nTCP Connections:\n%*s %5s %*s %5s %10s %10s %10s %10s %10s\n", info_address_width(), "LocalAddr",
	       "LPort", info_address_width(), "RemoteAddr", "RPort", "HdrRemain", "DataRemain", "SentNxt",
	       "ExpectUna", "SeenUna");
}

void tcp_socket_print(const union row *row)
{
	info_print_ends(&row->tcp.local, &row->tcp.remote);
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

void tcp_socket_write(struct json *json, const union row *row)
{
	info_write_ends(json, &row->tcp.local, &row->tcp.remote);
	write_tcp_numbers(json, &row->tcp);
	if (row->tcp.has_tos)
		json_unsigned(json, "tos", row->tcp.tos);
	else
		json_null(json, "tos");
}

static int compare_hosts(const struct tcp_socket *tcp, const union rds_address *local, const union rds_address *remote)
{
	int order = rds_address_compare_hosts(&tcp->local, local);

	return order ? order : rds_address_compare_hosts(&tcp->remote, remote);
}

static int compare_sockets(const void *one, const void *other)
{
	const struct tcp_socket *a = &((const union row *)one)->tcp, *b = &((const union row *)other)->tcp;
	int order = compare_hosts(a, &b->local, &b->remote);

	if (!order)
		order = rds_address_port(&a->local) - rds_address_port(&b->local);
	return order ? order : rds_address_port(&a->remote) - rds_address_port(&b->remote);
}

void tcp_sockets_sort(struct info_rows *sockets)
{
	if (sockets->count)
		qsort(sockets->rows, sockets->count, sizeof(*sockets->rows), compare_sockets);
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
		return info_only_here(&connection->local);
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
bool connection_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
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

/* Where in info_view.tcp_sockets the sockets of @connection begin, if it has any. */
static size_t first_path(const struct connection *connection)
{
	size_t first = 0, end = info_view.tcp_sockets.count;

	if (!connection->shows_paths || strcmp(connection->transport, "tcp"))
		return end;
	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (compare_hosts(&info_view.tcp_sockets.rows[middle].tcp, &connection->local, &connection->remote) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* The next socket of @connection from *@at on, or NULL; moves *@at behind it. */
static const struct tcp_socket *next_path(const struct connection *connection, size_t *at)
{
	while (*at < info_view.tcp_sockets.count) {
		const struct tcp_socket *tcp = &info_view.tcp_sockets.rows[(*at)++].tcp;

		if (compare_hosts(tcp, &connection->local, &connection->remote))
			break;
		if (!tcp->has_tos || !connection->has_tos || tcp->tos == connection->tos)
			return tcp;
	}
	return NULL;
}

void connection_print_header(void)
{
	printf("\nRDS Connections:\n%*s %*s %4s %16s %16s %4s%s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "NextTX", "NextRX", "Flgs",
	       info_view.verbose ? "  Transport" : "");
}

static void print_paths(const struct connection *connection)
{
	size_t at = first_path(connection);
	const struct tcp_socket *tcp;

	while ((tcp = next_path(connection, &at)))
		printf("%*s path over TCP ports %u -> %u\n", info_address_width(), "",
		       rds_address_port(&tcp->local), rds_address_port(&tcp->remote));
}

void connection_print(const union row *row)
{
	const struct connection *connection = &row->connection;

	info_print_address(&connection->local);
	info_print_address(&connection->remote);
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
	size_t at = first_path(connection);
	const struct tcp_socket *tcp;

	json_open_array(json, "paths");
	while ((tcp = next_path(connection, &at))) {
		json_open_object(json, NULL);
		json_unsigned(json, "local_port", rds_address_port(&tcp->local));
		json_unsigned(json, "remote_port", rds_address_port(&tcp->remote));
		write_tcp_numbers(json, tcp);
		json_close(json);
	}
	json_close(json);
}

void connection_write(struct json *json, const union row *row)
{
	const struct connection *connection = &row->connection;

	info_write_address(json, "local_address", &connection->local);
	info_write_address(json, "remote_address", &connection->remote);
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

/* Connections over InfiniBand, RoCE and iWARP */

bool ib_connection_decode(const struct rds_info_table *table, size_t index, bool ipv6, union row *row)
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
	return !ipv6 || info_only_here(&ib->local);
}

void ib_connection_print_header(void)
{
	printf("\nRDS IB Connections:\n%*s %*s %4s %3s %32s %32s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "SL", "LocalDev", "RemoteDev");
}

void ib_connection_print(const union row *row)
{
	const struct rds_info_rdma_connection *details = &row->ib.details;
	char local[RDS_ADDRESS_TEXT_SIZE], remote[RDS_ADDRESS_TEXT_SIZE];

	info_print_address(&row->ib.local);
	info_print_address(&row->ib.remote);
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

void ib_connection_write(struct json *json, const union row *row)
{
	const struct rds_info_rdma_connection *details = &row->ib.details;

	info_write_address(json, "local_address", &row->ib.local);
	info_write_address(json, "remote_address", &row->ib.remote);
	info_write_address(json, "local_gid", &row->ib.local_device);
	info_write_address(json, "remote_gid", &row->ib.remote_device);
	json_unsigned(json, "tos", details->tos);
	json_unsigned(json, "service_level", details->sl);
	json_unsigned(json, "max_send_wr", details->max_send_wr);
	json_unsigned(json, "max_recv_wr", details->max_recv_wr);
	json_unsigned(json, "max_send_sge", details->max_send_sge);
	json_unsigned(json, "rdma_mr_max", details->rdma_mr_max);
	json_unsigned(json, "rdma_mr_size", details->rdma_mr_size);
	json_unsigned(json, "cache_allocs", details->cache_allocs);
}
