/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HOSTILE_SESSION_H
#define HOSTILE_SESSION_H

#include "hostile.h"

#define MAX_DEPTH 64
#define CONNECTIONS 2

/* A session with one path, of which all connections are this program's. */
struct session {
	struct link links[CONNECTIONS]; /* the service connection, and one for requests */
	struct descriptor chunks[MAX_DEPTH];
	uint32_t depth, chunk_bytes;
	unsigned offset_bits;
};

/* A request for a connection, of a path and a session that are new. */
struct connect_request session_request(uint16_t number, uint16_t count);

/* Connects, without the exchange of information. */
bool session_connect(struct session *session);
bool session_ask_information(struct session *session, const char *name);
/* Both; the program ends if one fails. */
void session_open(struct session *session);
void session_close(struct session *session, bool polite);

/* Writes bytes to a place in a chunk, and reports a request there. */
bool session_write(struct session *session, uint32_t chunk, uint32_t offset, const void *bytes, uint32_t length);
/* Waits for the answer about a chunk; gives its errno, or -1. Takes the chunk's new key. */
int session_answer(struct session *session, uint32_t chunk);

#endif
