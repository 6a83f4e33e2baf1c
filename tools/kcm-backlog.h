/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_BACKLOG_H
#define HAWSER_TOOLS_KCM_BACKLOG_H

/*
 * Answers that did not fit KCM's buffers: a queue for each client, independent of the others.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A client that would have more than this unread at one worker is cut off. */
#define BACKLOG_OF_CLIENT (16u << 20)

/* The limit of all clients at all workers together. Each worker has an equal part; with 64 workers that is BACKLOG_OF_CLIENT. */
#define BACKLOG_OF_ALL (1u << 30)

struct backlog_client;

struct backlog {
	struct backlog_client *clients; /* with queued answers, or being cut off */
	size_t bytes, limit;		/* of all of them */
};

/* True if an answer to @connection waits; then later ones must wait, too. */
bool backlog_has(const struct backlog *backlog, uint64_t connection);

/*
 * Queues a copy of an answer. If its client has too much unread then, or all together the client with the most, that one is to
 * be cut off: its answers are dropped, later ones too, and *@cut is its connection. Returns the number of dropped answers.
 */
uint64_t backlog_keep(struct backlog *backlog, uint64_t connection, const void *bytes, size_t size, uint64_t *cut);

enum backlog_sent { BACKLOG_SENT, BACKLOG_NO_ROOM, BACKLOG_GONE };

typedef enum backlog_sent (*backlog_send)(void *context, uint64_t connection, const void *bytes, size_t size);

/*
 * Calls @send for the answers of each client in order. BACKLOG_NO_ROOM keeps the client's rest for the next time; with
 * BACKLOG_GONE the rest is dropped. For a client that is being cut off there is nothing to send, @bytes is NULL, and any answer
 * but BACKLOG_NO_ROOM means that its connection has ended. Returns the number of dropped answers.
 */
uint64_t backlog_flush(struct backlog *backlog, backlog_send send, void *context);

/* Drops everything; returns the number of answers. */
uint64_t backlog_drop(struct backlog *backlog);

#endif
