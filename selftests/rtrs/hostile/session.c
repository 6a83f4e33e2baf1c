// SPDX-License-Identifier: GPL-2.0
/* A session as a client should have it, up to the place where the hostile one departs from it. */
#include "session.h"

struct connect_request session_request(uint16_t number, uint16_t count)
{
	static uint64_t serial = 1;
	struct connect_request request = {.magic = MAGIC, .version = VERSION, .number = number, .count = count, .reconnects = 1,
					  .first = 1};

	serial++;
	memcpy(request.path, &serial, sizeof(serial));
	memcpy(request.session, &serial, sizeof(serial));
	return request;
}

bool session_connect(struct session *session)
{
	struct connect_request request = session_request(0, CONNECTIONS);
	const struct connect_response *response = (void *)session->links[0].offered;

	memset(session, 0, sizeof(*session));
	for (uint16_t i = 0; i < CONNECTIONS; i++) {
		request.number = i;
		if (link_ask(&session->links[i], SERVER_PORT, &request, sizeof(request)) != ESTABLISHED)
			return false;
	}
	session->depth = response->queue_depth;
	session->chunk_bytes = response->max_io + response->max_header;
	NEED(response->magic == MAGIC && session->depth > 1 && session->depth <= MAX_DEPTH);
	session->offset_bits = 28;
	while (1u << (28 - session->offset_bits) < session->depth)
		session->offset_bits--;
	return true;
}

bool session_ask_information(struct session *session, const char *name)
{
	struct link *service = &session->links[0];
	struct info_request *request = (void *)service->scratch;
	const struct info_response *response = (void *)service->last;

	memset(request, 0, sizeof(*request));
	snprintf(request->name, sizeof(request->name), "%s", name);
	if (!link_send(service, request, sizeof(*request)) || !link_receives(service, 1, SOON_MS))
		return false;
	NEED(response->type == INFO_RESPONSE && response->count == session->depth);
	memcpy(session->chunks, response->chunks, response->count * sizeof(response->chunks[0]));
	return true;
}

void session_close(struct session *session, bool polite)
{
	for (int i = CONNECTIONS - 1; i >= 0; i--)
		link_close(&session->links[i], polite);
}

void session_open(struct session *session)
{
	NEED(session_connect(session));
	NEED(session_ask_information(session, "hostile"));
}

/* Writes bytes to a place in a chunk, and says that a header is there. */
bool session_write(struct session *session, uint32_t chunk, uint32_t offset, const void *bytes, uint32_t length)
{
	struct link *link = &session->links[1];

	memcpy(link->scratch, bytes, length);
	return link_write(link, link->scratch, length, session->chunks[chunk].address + offset, session->chunks[chunk].key,
			  immediate(IMM_REQUEST, chunk << session->offset_bits | offset));
}

/* Waits for the answer about a chunk; gives its errno, or -1. Takes the chunk's new key. */
int session_answer(struct session *session, uint32_t chunk)
{
	struct link *link = &session->links[1];
	const struct key_response *key = (void *)link->last;

	if (!link_receives(link, link->received + 1, SOON_MS))
		return -1;
	if ((link->imm >> 28 != IMM_RESPONSE && link->imm >> 28 != IMM_RESPONSE_INVALIDATED) || (link->imm & 0x7ffff) != chunk)
		return -1;
	if (link->length == sizeof(*key) && key->type == KEY_RESPONSE && key->chunk == chunk)
		session->chunks[chunk].key = key->key;
	return (int)(link->imm >> 19 & 0x1ff);
}
