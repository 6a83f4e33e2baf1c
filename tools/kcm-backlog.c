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
	bool is_cut;
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

/* What a queued answer takes. */
static size_t cost_of(size_t size)
{
	return sizeof(struct kept) + size;
}

static void append(struct backlog *backlog, struct backlog_client *client, const void *bytes, size_t size)
{
	struct kept *kept = malloc(cost_of(size));

	if (!kept)
		die("no memory for an answer");
	kept->next = NULL;
	kept->size = size;
	memcpy(kept->bytes, bytes, size);
	*client->end = kept;
	client->end = &kept->next;
	client->bytes += cost_of(size);
	backlog->bytes += cost_of(size);
}

static void drop_first(struct backlog *backlog, struct backlog_client *client)
{
	struct kept *kept = client->first;

	client->first = kept->next;
	client->bytes -= cost_of(kept->size);
	backlog->bytes -= cost_of(kept->size);
	free(kept);
}

static uint64_t drop_all(struct backlog *backlog, struct backlog_client *client)
{
	uint64_t dropped = 0;

	for (; client->first; dropped++)
		drop_first(backlog, client);
	return dropped;
}

static struct backlog_client *with_most(const struct backlog *backlog)
{
	struct backlog_client *client = backlog->clients, *most = client;

	for (; client; client = client->next) {
		if (client->bytes > most->bytes)
			most = client;
	}
	return most;
}

uint64_t backlog_keep(struct backlog *backlog, uint64_t connection, const void *bytes, size_t size, uint64_t *cut)
{
	struct backlog_client *client = find_or_add(backlog, connection);
	uint64_t dropped = 0;

	if (client->is_cut || client->bytes + cost_of(size) > BACKLOG_OF_CLIENT) {
		dropped = 1;
	} else {
		append(backlog, client, bytes, size);
		if (backlog->bytes <= backlog->limit)
			return 0;
		client = with_most(backlog);
	}
	/* It stays in the list: an answer that was sent now would follow those that are missing. */
	client->is_cut = true;
	*cut = client->connection;
	return dropped + drop_all(backlog, client);
}

static enum backlog_sent flush_client(struct backlog *backlog, struct backlog_client *client, backlog_send send, void *context)
{
	enum backlog_sent sent = BACKLOG_SENT;

	if (client->is_cut)
		return send(context, client->connection, NULL, 0);
	while (client->first && sent == BACKLOG_SENT) {
		sent = send(context, client->connection, client->first->bytes, client->first->size);
		if (sent == BACKLOG_SENT)
			drop_first(backlog, client);
	}
	return sent;
}

uint64_t backlog_flush(struct backlog *backlog, backlog_send send, void *context)
{
	struct backlog_client **at = &backlog->clients, *client;
	uint64_t dropped = 0;

	while ((client = *at)) {
		if (flush_client(backlog, client, send, context) == BACKLOG_NO_ROOM) {
			at = &client->next;
			continue;
		}
		dropped += drop_all(backlog, client);
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
		dropped += drop_all(backlog, client);
		backlog->clients = client->next;
		free(client);
	}
	return dropped;
}
