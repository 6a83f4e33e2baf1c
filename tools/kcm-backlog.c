// SPDX-License-Identifier: GPL-2.0
#include "kcm-backlog.h"

#include "program.h"

#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	size_t size;
	char bytes[];
};

struct backlog_client {
	struct backlog_client *next;
	uint64_t connection;
	struct kept *first, **end;
	size_t bytes;
};

static struct backlog_client *find(const struct backlog *backlog, uint64_t connection)
{
	struct backlog_client *client = backlog->clients;

	while (client && client->connection != connection)
		client = client->next;
	return client;
}

bool backlog_has(const struct backlog *backlog, uint64_t connection)
{
	return find(backlog, connection) != NULL;
}

static struct backlog_client *find_or_add(struct backlog *backlog, uint64_t connection)
{
	struct backlog_client *client = find(backlog, connection);

	if (client)
		return client;
	client = calloc(1, sizeof(*client));
	if (!client)
		die("no memory for the answers of a client");
	client->connection = connection;
	client->end = &client->first;
	client->next = backlog->clients;
	backlog->clients = client;
	return client;
}

bool backlog_keep(struct backlog *backlog, uint64_t connection, const void *bytes, size_t size)
{
	struct backlog_client *client = find_or_add(backlog, connection);
	struct kept *kept;

	if (client->bytes + size > BACKLOG_OF_CLIENT)
		return false;
	kept = malloc(sizeof(*kept) + size);
	if (!kept)
		die("no memory for an answer");
	kept->next = NULL;
	kept->size = size;
	memcpy(kept->bytes, bytes, size);
	*client->end = kept;
	client->end = &kept->next;
	client->bytes += size;
	return true;
}

static void drop_first(struct backlog_client *client)
{
	struct kept *kept = client->first;

	client->first = kept->next;
	client->bytes -= kept->size;
	free(kept);
}

static uint64_t drop_all(struct backlog_client *client)
{
	uint64_t dropped = 0;

	for (; client->first; dropped++)
		drop_first(client);
	return dropped;
}

uint64_t backlog_flush(struct backlog *backlog,
		       enum backlog_sent (*send)(void *context, uint64_t connection, const void *bytes, size_t size),
		       void *context)
{
	struct backlog_client **at = &backlog->clients, *client;
	uint64_t dropped = 0;

	while ((client = *at)) {
		enum backlog_sent sent = BACKLOG_SENT;

		while (client->first && sent == BACKLOG_SENT) {
			sent = send(context, client->connection, client->first->bytes, client->first->size);
			if (sent == BACKLOG_SENT)
				drop_first(client);
		}
		if (sent == BACKLOG_NO_ROOM) {
			at = &client->next;
			continue;
		}
		dropped += drop_all(client);
		*at = client->next;
		free(client);
	}
	return dropped;
}

uint64_t backlog_drop(struct backlog *backlog)
{
	struct backlog_client *client;
	uint64_t dropped = 0;

	while ((client = backlog->clients)) {
		dropped += drop_all(client);
		backlog->clients = client->next;
		free(client);
	}
	return dropped;
}
