/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_RDS_SOCKET_H
#define HAWSER_TOOLS_RDS_SOCKET_H

/*
 * The socket engine that rds-ping, rds-info and rds-stress share: opening and binding, sending and receiving
 * with control messages, and reading the kernel's information tables. It has no policy: every call returns
 * a result or a negative errno, and its caller reports errors to the user.
 */

#include "rds-address.h"

#include <linux/rds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The largest message that RDS carries. */
#define RDS_MAX_MESSAGE (1024u * 1024u)

/* The transport of the address. */
#define RDS_TRANSPORT_ANY (-1)

struct rds_socket_options {
	int transport;			/* RDS_TRANS_TCP, RDS_TRANS_IB or RDS_TRANSPORT_ANY */
	unsigned int tos;		/* type of service, 0..255 */
	unsigned int buffer_bytes;	/* SO_SNDBUF and SO_RCVBUF to set; 0 keeps the system's default */
	bool congestion_monitor;	/* get notified of ports that are no longer congested */
	bool zerocopy;			/* allow MSG_ZEROCOPY */
};

/*
 * Opens an RDS socket and binds it to @local, whose port may be zero. Returns the descriptor or a negative
 * errno; on failure *@step names the call that failed.
 */
int rds_socket_open(const struct rds_socket_options *options, const union rds_address *local,
		    const char **step);

/* The address that the socket is bound to. */
int rds_socket_local_address(int fd, union rds_address *address);

/* The address of this host that routing chooses for @remote. */
int rds_local_address_towards(const union rds_address *remote, union rds_address *local);

/* Names of transports, for options: "tcp", "ib", "any". */
bool rds_transport_parse(const char *text, int *transport);

/* The results of one receive call. */
#define RDS_MAX_NOTIFICATIONS 16

struct rds_received {
	bool has_message;		/* false: control messages alone */
	size_t bytes;			/* the message's full length, which may exceed the buffer */
	bool truncated;
	union rds_address from;
	uint64_t congestion_cleared;	/* bit (port % 64): a congested port of that class has room again */
	bool has_rdma_cookie;
	rds_rdma_cookie_t rdma_cookie;	/* the local destination of the peer's RDMA */
	unsigned int rdma_count;
	struct rds_rdma_notify rdma[RDS_MAX_NOTIFICATIONS];
	unsigned int zerocopy_count;
	uint32_t zerocopy[RDS_MAX_NOTIFICATIONS]; /* cookies of completed zero-copy sends */
};

/* Receives without waiting. Returns 0 or a negative errno (-EAGAIN: nothing there). */
int rds_socket_receive(int fd, void *buffer, size_t size, struct rds_received *received);

/* Options of a message beyond its bytes. All-zero means none. */
struct rds_send_extras {
	bool zerocopy;
	uint32_t zerocopy_cookie;
	const struct rds_rdma_args *rdma; /* do this RDMA operation, then deliver the message */
	const struct rds_get_mr_args *map; /* map this memory and send its key to the peer */
	const rds_rdma_cookie_t *rdma_destination; /* send the key of memory mapped before */
};

/* Sends without waiting. Returns 0 or a negative errno: -EAGAIN no buffer, -ENOBUFS the peer's port is
 * congested. */
int rds_socket_send(int fd, const union rds_address *to, const void *data, size_t size,
		    const struct rds_send_extras *extras);

/* A snapshot of one of the kernel's tables (RDS_INFO_*, RDS6_INFO_*). */
struct rds_info_table {
	unsigned char *data;
	size_t each; /* the kernel's size of an entry, which other versions may have grown */
	size_t count;
};

/* Reads table @item. Returns 0 or a negative errno (-ENOPROTOOPT: the kernel has no such table). */
int rds_info_read(int fd, int item, struct rds_info_table *table);

/* Copies entry @index into @entry, @size bytes; what an older kernel does not fill is zero. */
void rds_info_entry(const struct rds_info_table *table, size_t index, void *entry, size_t size);

void rds_info_free(struct rds_info_table *table);

#endif
