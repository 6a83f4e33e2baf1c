/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_SOCKET_H
#define HAWSER_TOOLS_KCM_SOCKET_H

/*
 * KCM sockets: what the kernel offers by ioctls, options and control messages, as functions. Those that return an int
 * return a negative errno when they fail.
 */

#include "../include/uapi/hawser_kcm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A multiplexor takes as many as it is given; these programs give it no more than this. */
#define KCM_MOST_CONNECTIONS 512

/* Opens the first socket of a new multiplexor, or dies saying what this kernel lacks. It does not block. */
int kcm_open(void);

/* Opens one more socket of the multiplexor of @kcm. Unlike that one it blocks. */
int kcm_clone(int kcm);

/*
 * Loads the program that finds the messages in a stream of frames, or dies. It refuses those larger than @max_size or
 * without a whole head, so that nobody behind it has to expect them.
 */
int kcm_load_parser(size_t max_size);

/* Gives the multiplexor of @kcm a TCP connection, cut by the program @parser; and takes it away again. */
int kcm_attach(int kcm, int tcp, int parser);
int kcm_unattach(int kcm, int tcp);

/* Sets an option of level SOL_KCM. */
int kcm_set(int kcm, int option, int value);

/* What is known of the connections of the multiplexor: at most @room of them go to @stats. Returns how many. */
int kcm_connections(int kcm, struct kcm_connection_stats *stats, size_t room);

/* Can messages still go to @connection? */
bool kcm_is_up(int kcm, uint64_t connection);

/* The error that is to be told of the socket, 0 for none; it is told once. */
int kcm_take_error(int kcm);

/* Room for the control message that names a connection. */
union kcm_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(struct kcm_connection))];
};

/* Does the message name a connection? A received one does with KCM_RECV_CONNECTION: the one that it came from. */
bool kcm_names(const struct msghdr *message, uint64_t *connection);

/* Makes @message go to @connection; @control has to live as long as it. */
void kcm_send_to(struct msghdr *message, union kcm_control *control, uint64_t connection);

#endif
