/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_SOCKET_H
#define HAWSER_TOOLS_KCM_SOCKET_H

/*
 * KCM sockets: functions for the kernel's ioctls, options and control messages. Those that return an int
 * return a negative errno when they fail.
 */

#include "../include/uapi/hawser_kcm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A limit of these programs; a multiplexor has none. */
#define KCM_MOST_CONNECTIONS 512

/* Opens the first socket of a new multiplexor, or dies with a message about what is missing. It does not block. */
int kcm_open(void);

/* Opens one more socket of the multiplexor of @kcm. Unlike that one it blocks. */
int kcm_clone(int kcm);

/*
 * Loads the program that splits a stream into messages, or dies. It refuses those larger than @max_size or
 * without a whole head, so that receivers need not check for them.
 */
int kcm_load_parser(size_t max_size);

/* Attaches a TCP connection, split by the program @parser, to the multiplexor of @kcm; and detaches it. */
int kcm_attach(int kcm, int tcp, int parser);
int kcm_unattach(int kcm, int tcp);

/* The connection id of the attached TCP socket @tcp, or dies. */
uint64_t kcm_id(int kcm, int tcp);

/* Sets an option of level SOL_KCM. */
int kcm_set(int kcm, int option, int value);

/* Statistics of the multiplexor's connections, at most @room of them. Returns their number. */
int kcm_connections(int kcm, struct kcm_connection_stats *stats, size_t room);

/* True if messages can still be sent to @connection. */
bool kcm_is_up(int kcm, uint64_t connection);

/* The socket's pending error, 0 for none; reading clears it. */
int kcm_take_error(int kcm);

/* Room for the control message that names a connection. */
union kcm_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(struct kcm_connection))];
};

/* True if the message names a connection. With KCM_RECV_CONNECTION received messages name their origin. */
bool kcm_names(const struct msghdr *message, uint64_t *connection);

/* Addresses @message to @connection; @control must live as long as it. */
void kcm_send_to(struct msghdr *message, union kcm_control *control, uint64_t connection);

#endif
