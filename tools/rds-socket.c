// SPDX-License-Identifier: GPL-2.0
#include "rds-socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? -errno : 0;
}

static int set_before_bind(int fd, const struct rds_socket_options *options, const char **step)
{
	int error = 0;

	if (options->transport != RDS_TRANSPORT_ANY) {
		*step = "choosing the transport";
		error = set_int(fd, SOL_RDS, SO_RDS_TRANSPORT, options->transport);
	}
	if (!error && options->buffer_bytes) {
		*step = "setting the send buffer";
		error = set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)options->buffer_bytes);
		if (!error) {
			*step = "setting the receive buffer";
			error = set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)options->buffer_bytes);
		}
	}
	if (!error && options->congestion_monitor) {
		*step = "enabling congestion notifications";
		error = set_int(fd, SOL_RDS, RDS_CONG_MONITOR, 1);
	}
	if (!error && options->zerocopy) {
		*step = "enabling zero-copy";
		error = set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	}
	return error;
}

static int bind_and_set_tos(int fd, const struct rds_socket_options *options, const union rds_address *local,
			    const char **step)
{
	rds_tos_t tos = (rds_tos_t)options->tos;

	*step = "binding";
	if (bind(fd, &local->any, rds_address_size(local)))
		return -errno;
	/* The transport translates it, so set it after bind, which chooses the transport. */
	*step = "setting the type of service";
	if (tos && ioctl(fd, SIOCRDSSETTOS, &tos))
		return -errno;
	return 0;
}

int rds_socket_open(const struct rds_socket_options *options, const union rds_address *local,
		    const char **step)
{
	int fd, error;

	*step = "opening an RDS socket";
	fd = socket(AF_RDS, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	error = set_before_bind(fd, options, step);
	if (!error)
		error = bind_and_set_tos(fd, options, local, step);
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

int rds_socket_local_address(int fd, union rds_address *address)
{
	socklen_t size = sizeof(*address);

	memset(address, 0, sizeof(*address));
	return getsockname(fd, &address->any, &size) ? -errno : 0;
}

int rds_local_address_towards(const union rds_address *remote, union rds_address *local)
{
	union rds_address to = *remote;
	int fd, error = 0;

	/* Connecting a UDP socket sends nothing, but makes routing choose the source address. The port is
	 * arbitrary. */
	rds_address_set_port(&to, 1);
	fd = socket(remote->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, &to.any, rds_address_size(&to)))
		error = -errno;
	else
		error = rds_socket_local_address(fd, local);
	close(fd);
	if (!error)
		rds_address_set_port(local, 0);
	return error;
}

bool rds_transport_parse(const char *text, int *transport)
{
	static const struct {
		const char *name;
		int transport;
	} names[] = { { "tcp", RDS_TRANS_TCP }, { "ib", RDS_TRANS_IB }, { "any", RDS_TRANSPORT_ANY } };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcasecmp(text, names[i].name)) {
			*transport = names[i].transport;
			return true;
		}
	}
	return false;
}

static void note_rdma_status(const struct cmsghdr *cmsg, struct rds_received *received)
{
	if (cmsg->cmsg_len < CMSG_LEN(sizeof(struct rds_rdma_notify)))
		return;
	if (received->rdma_count < RDS_MAX_NOTIFICATIONS)
		memcpy(&received->rdma[received->rdma_count++], CMSG_DATA(cmsg),
		       sizeof(struct rds_rdma_notify));
}

static void note_zerocopy(const struct cmsghdr *cmsg, struct rds_received *received)
{
	struct rds_zcopy_cookies cookies;
	uint32_t i;

	if (cmsg->cmsg_len < CMSG_LEN(sizeof(cookies)))
		return;
	memcpy(&cookies, CMSG_DATA(cmsg), sizeof(cookies));
	for (i = 0; i < cookies.num && i < RDS_MAX_ZCOOKIES; i++) {
		if (received->zerocopy_count < RDS_MAX_NOTIFICATIONS)
			received->zerocopy[received->zerocopy_count++] = cookies.cookies[i];
	}
}

static void note_control(const struct cmsghdr *cmsg, struct rds_received *received)
{
	if (cmsg->cmsg_level != SOL_RDS)
		return;
	switch (cmsg->cmsg_type) {
	case RDS_CMSG_CONG_UPDATE:
		if (cmsg->cmsg_len >= CMSG_LEN(sizeof(received->congestion_cleared)))
			memcpy(&received->congestion_cleared, CMSG_DATA(cmsg),
			       sizeof(received->congestion_cleared));
		break;
	case RDS_CMSG_RDMA_DEST:
		if (cmsg->cmsg_len >= CMSG_LEN(sizeof(received->rdma_cookie))) {
			memcpy(&received->rdma_cookie, CMSG_DATA(cmsg), sizeof(received->rdma_cookie));
			received->has_rdma_cookie = true;
		}
		break;
	case RDS_CMSG_RDMA_STATUS:
		note_rdma_status(cmsg, received);
		break;
	case RDS_CMSG_ZCOPY_COMPLETION:
		note_zerocopy(cmsg, received);
		break;
	}
}

int rds_socket_receive(int fd, void *buffer, size_t size, struct rds_received *received)
{
	/* As many notifications as rds_received holds and no more: the kernel keeps the
	 * rest. */
	union {
		char bytes[CMSG_SPACE(sizeof(struct rds_rdma_notify)) * RDS_MAX_NOTIFICATIONS];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = buffer, .iov_len = size };
	struct msghdr message = {
		.msg_name = &received->from,
		.msg_namelen = sizeof(received->from),
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg;
	ssize_t bytes;

	memset(received, 0, sizeof(*received));
	bytes = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC);
	if (bytes < 0)
		return -errno;
	/* Notifications come alone and without a sender; an empty message has a sender. */
	received->has_message = message.msg_namelen > 0;
	received->bytes = (size_t)bytes;
	received->truncated = message.msg_flags & MSG_TRUNC;
	for (cmsg = CMSG_FIRSTHDR(&message); cmsg; cmsg = CMSG_NXTHDR(&message, cmsg))
		note_control(cmsg, received);
	return 0;
}

/* The control messages of one send. */
struct send_control {
	size_t used;
	union {
		char bytes[CMSG_SPACE(sizeof(struct rds_rdma_args)) +
			   CMSG_SPACE(sizeof(struct rds_get_mr_args)) +
			   CMSG_SPACE(sizeof(rds_rdma_cookie_t)) + CMSG_SPACE(sizeof(uint32_t))];
		struct cmsghdr align;
	};
};

static void add_control(struct send_control *control, int type, const void *data, size_t size)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(control->bytes + control->used);

	cmsg->cmsg_level = SOL_RDS;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(cmsg), data, size);
	control->used += CMSG_SPACE(size);
}

int rds_socket_send(int fd, const union rds_address *to, const void *data, size_t size,
		    const struct rds_send_extras *extras)
{
	struct iovec part = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr message = {
		.msg_name = (void *)to,
		.msg_namelen = rds_address_size(to),
		.msg_iov = &part,
		.msg_iovlen = size ? 1 : 0,
	};
	struct send_control control;
	int flags = MSG_DONTWAIT;

	memset(&control, 0, sizeof(control));
	if (extras && extras->rdma)
		add_control(&control, RDS_CMSG_RDMA_ARGS, extras->rdma, sizeof(*extras->rdma));
	if (extras && extras->map)
		add_control(&control, RDS_CMSG_RDMA_MAP, extras->map, sizeof(*extras->map));
	if (extras && extras->rdma_destination)
		add_control(&control, RDS_CMSG_RDMA_DEST, extras->rdma_destination,
			    sizeof(*extras->rdma_destination));
	if (extras && extras->zerocopy) {
		add_control(&control, RDS_CMSG_ZCOPY_COOKIE, &extras->zerocopy_cookie,
			    sizeof(extras->zerocopy_cookie));
		flags |= MSG_ZEROCOPY;
	}
	if (control.used) {
		message.msg_control = control.bytes;
		message.msg_controllen = control.used;
	}
	return sendmsg(fd, &message, flags) < 0 ? -errno : 0;
}

/* Attempts with a table that grows between reading its size and its contents. */
#define INFO_ATTEMPTS 32

int rds_info_read(int fd, int item, struct rds_info_table *table)
{
	socklen_t size = 0;
	int attempt;

	*table = (struct rds_info_table){ 0 };
	for (attempt = 0; attempt < INFO_ATTEMPTS; attempt++) {
		/* Unlike other socket options, RDS returns the size of one entry. */
		int each = getsockopt(fd, SOL_RDS, item, table->data, &size);
		unsigned char *larger;

		if (each > 0) {
			table->each = (size_t)each;
			table->count = size / table->each;
			return 0;
		}
		if (each == 0 || errno != ENOSPC) {
			int error = each == 0 ? EPROTO : errno;

			rds_info_free(table);
			return -error;
		}
		/* Some spare room, because the table may grow before the next attempt. */
		size += size / 8 + 256;
		larger = realloc(table->data, size);
		if (!larger) {
			rds_info_free(table);
			return -ENOMEM;
		}
		table->data = larger;
	}
	rds_info_free(table);
	return -ENOSPC;
}

void rds_info_entry(const struct rds_info_table *table, size_t index, void *entry, size_t size)
{
	memset(entry, 0, size);
	memcpy(entry, table->data + index * table->each, size < table->each ? size : table->each);
}

void rds_info_free(struct rds_info_table *table)
{
	free(table->data);
	*table = (struct rds_info_table){ 0 };
}
