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
#include <sys/types.h>

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

/* 1 if messages can still be sent to @connection, 0 if not, an errno, negative, if that is not known: as without memory. */
int kcm_is_up(int kcm, uint64_t connection);

/* The socket's pending error, 0 for none; reading clears it. */
int kcm_take_error(int kcm);

/* Messages of one connection that lie one behind the other. */
struct kcm_run {
	uint64_t connection;
	char *bytes;
	const uint32_t *lengths;
	uint32_t count;
};

#define KCM_MOST_RUNS 32   /* that kcm_receive() returns */
#define KCM_MOST_IN_RUN 64 /* that KCM returns; and that kcm_send() sends in one call */
#define KCM_RUN_CONTROL (CMSG_SPACE(sizeof(struct kcm_connection)) + CMSG_SPACE(KCM_MOST_IN_RUN * sizeof(uint32_t)))

struct kcm_runs {
	struct kcm_run run[KCM_MOST_RUNS];
	uint32_t count;
	/* Where the lengths are. */
	union {
		struct cmsghdr align;
		char bytes[KCM_MOST_RUNS * (CMSG_SPACE(sizeof(struct kcm_connection)) + CMSG_SPACE(sizeof(uint32_t)))];
	} control;
};

/*
 * Receives, without waiting, as many messages as have come and have room: the socket has KCM_RECV_CONNECTION and
 * KCM_RECV_LENGTHS. Returns their number, or a negative errno. Dies when KCM returns a message that does not fit, or does
 * not name a connection.
 */
int kcm_receive(int kcm, void *bytes, size_t room, struct kcm_runs *runs);

/* Sends messages to their connection, without waiting, whole ones as far as there is room. Returns bytes, or -1 with errno. */
ssize_t kcm_send(int kcm, const struct kcm_run *run);

/* The first messages of a run, so many bytes, are done. Returns their number. */
uint32_t kcm_run_advance(struct kcm_run *run, size_t bytes);

#endif
