/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_KCM_BACKLOG_H
#define HAWSER_TOOLS_KCM_BACKLOG_H

/*
 * Answers that did not fit KCM's buffers: a queue for each client, independent of the others.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A client with more than this unread at one worker is disconnected. */
#define BACKLOG_OF_CLIENT (16u << 20)

struct backlog_client;

struct backlog {
	struct backlog_client *clients; /* with queued answers */
};

/* True if an answer to @connection waits; then later ones must wait, too. */
bool backlog_has(const struct backlog *backlog, uint64_t connection);

/* Queues a copy of an answer. False: the client's queue is full. */
bool backlog_keep(struct backlog *backlog, uint64_t connection, const void *bytes, size_t size);

enum backlog_sent { BACKLOG_SENT, BACKLOG_NO_ROOM, BACKLOG_GONE };

/*
 * Calls @send for the answers of each client in order. BACKLOG_NO_ROOM keeps the client's rest for the next time; with
 * BACKLOG_GONE the rest is dropped. Returns the number of dropped answers.
 */
uint64_t backlog_flush(struct backlog *backlog,
		       enum backlog_sent (*send)(void *context, uint64_t connection, const void *bytes, size_t size),
		       void *context);

/* Drops everything; returns the number of answers. */
uint64_t backlog_drop(struct backlog *backlog);

#endif
