// SPDX-License-Identifier: GPL-2.0
#include "info-reported.h"

#include "info-paths.h"

#include "../include/uapi/hawser_netlink.h"

#include <stdlib.h>
#include <string.h>

static uint32_t number_of(struct attributes all, uint16_t type)
{
	return (uint32_t)attribute_number(all, type, 0);
}

/* ---- tables of connections: what a connection's message has of each path */

/* Adds an entry for a path, if it has one. */
typedef void (*add_path)(struct info_rows *rows, const struct path *path, struct attributes of_path);

static void add_connection(struct info_rows *rows, const struct path *path, struct attributes of_path)
{
	struct connection *connection = &info_add_row(rows)->connection;

	(void)of_path;
	connection->local = path->local;
	connection->remote = path->remote;
	memcpy(connection->transport, path->transport, sizeof(path->transport));
	connection->flags = (path->sending ? RDS_INFO_CONNECTION_FLAG_SENDING : 0) |
			    (path->state == HAWSER_RDS_CONNECTING ? RDS_INFO_CONNECTION_FLAG_CONNECTING : 0) |
			    (path->state == HAWSER_RDS_UP ? RDS_INFO_CONNECTION_FLAG_CONNECTED : 0);
	connection->has_tos = true;
	connection->tos = path->tos;
	connection->next_tx = path->next_tx;
	connection->next_rx = path->next_rx > 1 ? path->next_rx : 0; /* as the socket option has it */
	connection->shows_paths = path->index == 0;
}

static void add_tcp_socket(struct info_rows *rows, const struct path *path, struct attributes of_path)
{
	const struct nlattr *found = attribute_find(of_path, HAWSER_RDS_PATH_TCP);
	struct attributes of;
	struct tcp_socket *tcp;

	if (!found)
		return;
	of = attribute_nested(found);
	tcp = &info_add_row(rows)->tcp;
	tcp->local = path->local;
	tcp->remote = path->remote;
	rds_address_set_port(&tcp->local, (uint16_t)number_of(of, HAWSER_RDS_TCP_LOCAL_PORT));
	rds_address_set_port(&tcp->remote, (uint16_t)number_of(of, HAWSER_RDS_TCP_REMOTE_PORT));
	tcp->header_remaining = attribute_number(of, HAWSER_RDS_TCP_HEADER_LEFT, 0);
	tcp->data_remaining = attribute_number(of, HAWSER_RDS_TCP_DATA_LEFT, 0);
	tcp->sent_next = number_of(of, HAWSER_RDS_TCP_SENT_NEXT);
	tcp->expected_una = number_of(of, HAWSER_RDS_TCP_EXPECTED_UNA);
	tcp->seen_una = number_of(of, HAWSER_RDS_TCP_SEEN_UNA);
	tcp->has_tos = true;
	tcp->tos = path->tos;
}

static void read_gid(struct attributes all, uint16_t type, union rds_address *gid)
{
	const struct nlattr *found = attribute_find(all, type);
	struct in6_addr bytes = IN6ADDR_ANY_INIT;
	const void *value;
	size_t size;

	if (found) {
		value = attribute_bytes(found, &size);
		memcpy(&bytes, value, size < sizeof(bytes) ? size : sizeof(bytes));
	}
	rds_address_from_ipv6(gid, bytes, 0);
}

static void add_ib_connection(struct info_rows *rows, const struct path *path, struct attributes of_path)
{
	const struct nlattr *found = attribute_find(of_path, HAWSER_RDS_PATH_RDMA);
	struct attributes of;
	struct ib_connection *ib;

	if (!found)
		return;
	of = attribute_nested(found);
	ib = &info_add_row(rows)->ib;
	ib->local = path->local;
	ib->remote = path->remote;
	read_gid(of, HAWSER_RDS_RDMA_LOCAL_GID, &ib->local_device);
	read_gid(of, HAWSER_RDS_RDMA_REMOTE_GID, &ib->remote_device);
	ib->details.tos = (uint8_t)path->tos;
	ib->details.max_send_wr = number_of(of, HAWSER_RDS_RDMA_MAX_SEND_WR);
	ib->details.max_recv_wr = number_of(of, HAWSER_RDS_RDMA_MAX_RECV_WR);
	ib->details.max_send_sge = number_of(of, HAWSER_RDS_RDMA_MAX_SEND_SGE);
	ib->details.rdma_mr_max = number_of(of, HAWSER_RDS_RDMA_MR_MAX);
	ib->details.rdma_mr_size = number_of(of, HAWSER_RDS_RDMA_MR_SIZE);
}

/* Former modules report no more of a path than -p shows: false. */
static bool add_paths(struct info_rows *rows, struct attributes connection, add_path add)
{
	const struct nlattr *found;
	struct path path;

	path_read_connection(connection, &path);
	if (!info_view.all_families && path.local.any.sa_family == AF_INET6)
		return true;
	while ((found = path_next(&connection))) {
		if (!attribute_find(attribute_nested(found), HAWSER_RDS_PATH_SENDING))
			return false;
		path_read(attribute_nested(found), &path);
		add(rows, &path, attribute_nested(found));
	}
	return true;
}

bool reported_add_tcp_sockets(struct info_rows *rows, struct attributes connection)
{
	return add_paths(rows, connection, add_tcp_socket);
}

struct reading {
	struct info_rows *rows;
	add_path add;
	bool incomplete;
};

static void add_connection_message(void *context, uint8_t command, struct attributes attributes)
{
	struct reading *reading = context;

	if (command == HAWSER_CMD_RDS_CONNECTION_GET && !add_paths(reading->rows, attributes, reading->add))
		reading->incomplete = true;
}

static bool read_paths(struct info_rows *rows, add_path add, const char *what)
{
	struct reading reading = { .rows = rows, .add = add };

	*rows = (struct info_rows){ 0 };
	if (info_read_messages(HAWSER_CMD_RDS_CONNECTION_GET, NULL, add_connection_message, &reading, what) &&
	    !reading.incomplete)
		return true;
	free(rows->rows);
	*rows = (struct info_rows){ 0 };
	return false;
}

bool reported_connections(struct info_rows *rows)
{
	return read_paths(rows, add_connection, "connections");
}

bool reported_tcp_sockets(struct info_rows *rows)
{
	return read_paths(rows, add_tcp_socket, "TCP sockets");
}

bool reported_ib_connections(struct info_rows *rows)
{
	return read_paths(rows, add_ib_connection, "connections over RDMA");
}

/* ---- queues */

void reported_add_messages(struct info_rows *rows, struct attributes queue)
{
	union rds_address local, remote;
	const struct nlattr *found;
	struct attributes of, all = queue;
	struct message *message;

	attribute_address(all, HAWSER_RDS_QUEUE_LOCAL, &local);
	attribute_address(all, HAWSER_RDS_QUEUE_REMOTE, &remote);
	if (!info_view.all_families && local.any.sa_family == AF_INET6)
		return;
	while ((found = attribute_next(&queue))) {
		if ((found->nla_type & NLA_TYPE_MASK) != HAWSER_RDS_QUEUE_MESSAGE)
			continue;
		of = attribute_nested(found);
		message = &info_add_row(rows)->message;
		message->local = local;
		message->remote = remote;
		if (attribute_find(of, HAWSER_RDS_MESSAGE_REMOTE))
			attribute_address(of, HAWSER_RDS_MESSAGE_REMOTE, &message->remote);
		rds_address_set_port(&message->local, (uint16_t)number_of(of, HAWSER_RDS_MESSAGE_LOCAL_PORT));
		rds_address_set_port(&message->remote, (uint16_t)number_of(of, HAWSER_RDS_MESSAGE_REMOTE_PORT));
		message->tos = number_of(all, HAWSER_RDS_QUEUE_TOS);
		message->sequence = attribute_number(of, HAWSER_RDS_MESSAGE_SEQUENCE, 0);
		message->bytes = number_of(of, HAWSER_RDS_MESSAGE_BYTES);
	}
}

static void add_queue_message(void *context, uint8_t command, struct attributes attributes)
{
	if (command == HAWSER_CMD_RDS_QUEUE_GET)
		reported_add_messages(context, attributes);
}

static bool read_queues(struct info_rows *rows, uint32_t kind)
{
	const struct genetlink_choice choice = { HAWSER_RDS_QUEUE_KIND, kind };

	*rows = (struct info_rows){ 0 };
	return info_read_messages(HAWSER_CMD_RDS_QUEUE_GET, &choice, add_queue_message, rows, "queues");
}

bool reported_receive_queues(struct info_rows *rows)
{
	return read_queues(rows, HAWSER_RDS_RECEIVE);
}

bool reported_send_queues(struct info_rows *rows)
{
	return read_queues(rows, HAWSER_RDS_SEND);
}

bool reported_retransmit_queues(struct info_rows *rows)
{
	return read_queues(rows, HAWSER_RDS_RETRANSMIT);
}
