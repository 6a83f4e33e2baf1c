// SPDX-License-Identifier: GPL-2.0
/* A hostile client of rnbd-server. Whatever it does, it is refused, loses its path, or gets an error; nothing else happens. */
#include "session.h"

#define DEAD_MS stretched(15000) /* in which a path whose client is silent has ended */

/* ---- asking for connections */

static const struct {
	const char *what;
	size_t length; /* of the private data */
	uint16_t magic, version, number, count;
	uint8_t first;
} bad_requests[] = {
	{"no private data", 0, MAGIC, VERSION, 0, 2, 1},
	{"ten bytes of private data", 10, MAGIC, VERSION, 0, 2, 1},
	{"another magic number", 56, 0x1bbe, VERSION, 0, 2, 1},
	{"version 3.0", 56, MAGIC, 0x0300, 0, 2, 1},
	{"version 1.255", 56, MAGIC, 0x01ff, 0, 2, 1},
	{"no connections", 56, MAGIC, VERSION, 0, 0, 1},
	{"4097 connections", 56, MAGIC, VERSION, 0, 4097, 1},
	{"65535 connections", 56, MAGIC, VERSION, 65534, 65535, 1},
	{"connection 2 of 2", 56, MAGIC, VERSION, 2, 2, 1},
	{"connection 65535 of 2", 56, MAGIC, VERSION, 65535, 2, 1},
	{"a session that is not there", 56, MAGIC, VERSION, 0, 2, 0},
};

static void refused_connections(void)
{
	struct link link;

	for (size_t i = 0; i < ARRAY_SIZE(bad_requests); i++) {
		struct connect_request request = session_request(bad_requests[i].number, bad_requests[i].count);

		request.magic = bad_requests[i].magic;
		request.version = bad_requests[i].version;
		request.first = bad_requests[i].first;
		EXPECT_EQ(link_ask(&link, SERVER_PORT, &request, bad_requests[i].length), REJECTED, "%s: rejected",
			  bad_requests[i].what);
		link_close(&link, false);
	}
	honest_works("requests for connections that cannot be");
}

/* Connections of one path that do not fit together. */
static void foreign_connections(void)
{
	struct connect_request request = session_request(0, 3), other = request;
	struct link first, second;

	NEED(link_ask(&first, SERVER_PORT, &request, sizeof(request)) == ESTABLISHED);
	check(link_ask(&second, SERVER_PORT, &request, sizeof(request)) != ESTABLISHED, "connection 0 twice: not accepted");
	link_close(&second, false);
	other.number = 1;
	other.count = 4;
	check(link_ask(&second, SERVER_PORT, &other, sizeof(other)) != ESTABLISHED,
	      "another number of connections: not accepted");
	link_close(&second, false);
	other = session_request(0, 3);
	memcpy(other.session, request.session, sizeof(other.session));
	check(link_ask(&second, SERVER_PORT, &other, sizeof(other)) != ESTABLISHED,
	      "a second path between the same addresses: not accepted");
	link_close(&second, false);
	link_close(&first, true);
	honest_works("connections that do not fit together");
}

/* ---- the request for information */

static const struct {
	const char *what;
	uint16_t type;
	uint32_t length;
	const char *name; /* repeated until the field is full when it ends with '*' */
} bad_information[] = {
	{"an empty message", INFO_REQUEST, 0, "hostile"},
	{"a message of one byte", INFO_REQUEST, 1, "hostile"},
	{"a message without its last byte", INFO_REQUEST, sizeof(struct info_request) - 1, "hostile"},
	{"a message of 4096 bytes", INFO_REQUEST, 4096, "hostile"},
	{"another type", 77, sizeof(struct info_request), "hostile"},
	{"no name", INFO_REQUEST, sizeof(struct info_request), ""},
	{"a name with '/'", INFO_REQUEST, sizeof(struct info_request), "../../x"},
	{"a name with a control character", INFO_REQUEST, sizeof(struct info_request), "a\nb"},
	{"a name without an end", INFO_REQUEST, sizeof(struct info_request), "x*"},
	{"the name of another session", INFO_REQUEST, sizeof(struct info_request), "steady"},
};

static void bad_names(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_information); i++) {
		struct session session;
		struct info_request *request;

		NEED(session_connect(&session));
		request = (void *)session.links[0].scratch;
		memset(request, 0, sizeof(*request));
		request->type = bad_information[i].type;
		if (strchr(bad_information[i].name, '*'))
			memset(request->name, bad_information[i].name[0], sizeof(request->name));
		else
			strcpy(request->name, bad_information[i].name);
		NEED(link_send(&session.links[0], request, bad_information[i].length));
		check(link_ends(&session.links[0], SOON_MS), "information, %s: the path ends", bad_information[i].what);
		check(!session.links[0].received, "information, %s: no answer", bad_information[i].what);
		session_close(&session, true);
	}
	honest_works("requests for information that cannot be");
}

static void early_information(void)
{
	struct connect_request request = session_request(0, 2);
	struct link link;
	struct info_request *info;

	NEED(link_ask(&link, SERVER_PORT, &request, sizeof(request)) == ESTABLISHED);
	info = (void *)link.scratch;
	strcpy(info->name, "hostile");
	NEED(link_send(&link, info, sizeof(*info)));
	check(link_ends(&link, SOON_MS), "information before all connections are there: the path ends");
	link_close(&link, true);
	honest_works("information too early");
}

/* ---- what goes into chunks */

#define END 0x20000 /* stands for the chunk's size */

static const struct {
	const char *what;
	uint32_t offset; /* of the header */
	struct request_header header;
	uint32_t length; /* of it */
} bad_headers[] = {
	{"an unknown type", 0, {77, 0, 0, 0, {0, 0, 0}}, 24},
	{"a write with a message that begins before the chunk", 16, {WRITE_REQUEST, 17, 0, 0, {0, 0, 0}}, 4},
	{"a write with a message of 65535 bytes", 100, {WRITE_REQUEST, 65535, 0, 0, {0, 0, 0}}, 4},
	{"a read with a message that begins before the chunk", 16, {READ_REQUEST, 17, 0, 0, {0, 0, 0}}, 24},
	{"a read with two descriptors", 512, {READ_REQUEST, 0, 0, 2, {0, 0, 64}}, 24},
	{"a read with 65535 descriptors", 512, {READ_REQUEST, 0, 0, 65535, {0, 0, 64}}, 24},
	{"a read of more than there is room for", 512, {READ_REQUEST, 0, 0, 1, {0, 1, 513}}, 24},
	{"a read of 4 GiB", 512, {READ_REQUEST, 0, 0, 1, {0, 1, 0xffffffff}}, 24},
	{"a read of nothing", 512, {READ_REQUEST, 0, 0, 1, {0, 1, 0}}, 24},
	{"a header at the last byte", END - 1, {WRITE_REQUEST, 0, 0, 0, {0, 0, 0}}, 1},
	{"a header of a read that ends behind the chunk", END - 8, {READ_REQUEST, 0, 0, 1, {0, 1, 64}}, 8},
};

/* Gives the errno of its answer. */
static int unknown_message(struct session *session)
{
	struct link *link = &session->links[1];
	struct request_header header = {WRITE_REQUEST, 64, 0, 0, {0, 0, 0}};

	memset(link->scratch, 77, 64);
	memcpy(link->scratch + 64, &header, 4);
	NEED(link_write(link, link->scratch, 68, session->chunks[0].address, session->chunks[0].key, immediate(IMM_REQUEST, 64)));
	return session_answer(session, 0);
}

static void bad_requests_in_chunks(void)
{
	struct session session;

	session_open(&session);
	for (size_t i = 0; i < ARRAY_SIZE(bad_headers); i++) {
		uint32_t offset = bad_headers[i].offset, chunk = i % session.depth;
		uint8_t bytes[sizeof(bad_headers[i].header)];

		if (offset > END / 2)
			offset = session.chunk_bytes - (END - offset);
		memcpy(bytes, &bad_headers[i].header, sizeof(bytes));
		NEED(session_write(&session, chunk, offset, bytes, bad_headers[i].length));
		check(session_answer(&session, chunk) > 0, "%s: an error", bad_headers[i].what);
	}
	check(unknown_message(&session) > 0, "a message that RNBD does not know: an error");
	check(session.links[1].state == ESTABLISHED, "the path still lives");
	session_close(&session, true);
	honest_works("bad requests");
}

/* Immediate data after which the path has to end. */
static void bad_immediates(void)
{
	for (unsigned type = 0; type < 16; type++) {
		struct session session;
		struct link *link = &session.links[1];
		uint32_t payload = type == IMM_REQUEST ? 0xfffffff : 0;

		if (type == IMM_HEARTBEAT || type == IMM_HEARTBEAT_ACK)
			continue;
		session_open(&session);
		NEED(link_write(link, NULL, 0, 0, 0, immediate(type, payload)));
		check(link_ends(link, SOON_MS), "immediate data of type %u: the path ends", type);
		session_close(&session, true);
	}
	for (int past = 0; past < 2; past++) {
		struct session session;
		struct link *link = &session.links[1];
		uint32_t place;

		session_open(&session);
		place = past ? session.chunk_bytes : session.depth << session.offset_bits;
		NEED(link_write(link, NULL, 0, 0, 0, immediate(IMM_REQUEST, place)));
		check(link_ends(link, SOON_MS), "a header behind %s: the path ends", past ? "the chunk" : "the last chunk");
		session_close(&session, true);
	}
	honest_works("bad immediate data");
}

static void used_keys(void)
{
	struct request_header header = {.type = 77};
	struct session session;
	struct descriptor old;
	struct link *link = &session.links[1];

	session_open(&session);
	old = session.chunks[3];
	NEED(session_write(&session, 3, 0, &header, sizeof(header)) && session_answer(&session, 3) > 0);
	check(session.chunks[3].key != old.key, "an answer has a new key");
	NEED(link_write(link, link->scratch, 64, old.address, old.key, -1) && link_completes(link, SOON_MS));
	check(link->failed == 1, "a used key: the write fails");
	session_close(&session, true);

	session_open(&session);
	old = session.chunks[session.depth - 1];
	NEED(link_write(link, link->scratch, 64, old.address + session.chunk_bytes - 32, old.key, -1));
	check(link_completes(link, SOON_MS) && link->failed == 1, "a write beyond a chunk fails");
	session_close(&session, true);
	honest_works("writes with keys that are not valid");
}

/* A read whose answer the server cannot deliver, because its key opens no region of this client. */
static void bad_target(void)
{
	/* RNBD's session information: type 0, version 2, in 36 bytes; its answer has 36. */
	uint8_t bytes[36 + sizeof(struct request_header)] = {[4] = 2};
	struct request_header header = {READ_REQUEST, 36, 0, 1, {0x1000, 0x12345678, 36}};
	struct session session;
	struct link *link = &session.links[1];

	session_open(&session);
	memcpy(bytes + 36, &header, sizeof(header));
	memcpy(link->scratch, bytes, sizeof(bytes));
	NEED(link_write(link, link->scratch, sizeof(bytes), session.chunks[0].address + 36, session.chunks[0].key,
			immediate(IMM_REQUEST, 72)));
	check(link_ends(link, DEAD_MS), "an answer to memory that is not there: the path ends");
	session_close(&session, true);
	honest_works("a read into memory that is not there");
}

/* ---- too much, too little */

static void floods(void)
{
	struct request_header header = {.type = 77};
	struct session session;
	struct link *link = &session.links[1];

	session_open(&session);
	memcpy(link->scratch, &header, sizeof(header));
	/* Each chunk twice, without waiting for an answer. */
	for (uint32_t i = 0; i < 2 * session.depth && link->state == ESTABLISHED; i++) {
		uint32_t chunk = i % session.depth;

		NEED(link_write(link, link->scratch, sizeof(header), session.chunks[chunk].address, session.chunks[chunk].key,
				immediate(IMM_REQUEST, chunk << session.offset_bits)));
	}
	check(link_completes(link, DEAD_MS), "each chunk is used twice at once: all requests end");
	session_close(&session, true);

	session_open(&session);
	for (int i = 0; i < 2000 && session.links[0].state == ESTABLISHED; i++) {
		struct link *service = &session.links[0];

		NEED(link_write(service, NULL, 0, 0, 0, immediate(i & 1 ? IMM_HEARTBEAT : IMM_HEARTBEAT_ACK, 0)));
		if (i % 100 == 99)
			NEED(link_completes(service, DEAD_MS));
	}
	check(link_completes(&session.links[0], DEAD_MS), "2000 heartbeats end");
	session_close(&session, true);
	honest_works("floods");
}

static void silence(void)
{
	struct session session;

	session_open(&session);
	check(link_ends(&session.links[0], DEAD_MS), "a client that answers no heartbeat: its path ends");
	session_close(&session, true);
	honest_works("silence");
}

static long meminfo(const char *name)
{
	char text[4096], *at;

	NEED(read_file("/proc/meminfo", text, sizeof(text)) && (at = strstr(text, name)));
	return strtol(at + strlen(name) + 1, NULL, 10);
}

/* The server gives its clients half of the machine's memory. What this program takes for its side is on this machine as well. */
static void half_open(void)
{
	enum { MOST = 1000, SESSION_KB = 4300 };
	static struct link links[MOST];
	long before = meminfo("MemAvailable"), total = meminfo("MemTotal"), used, bound, count = total / 2 / SESSION_KB + 60;
	bool is_debug = strchr(getenv("KVER"), '-'); /* its checks take memory, too */
	int accepted = 0;

	NEED(count <= MOST);
	for (int i = 0; i < count; i++) {
		struct connect_request request = session_request(0, 3);

		accepted += link_ask(&links[i], SERVER_PORT, &request, sizeof(request)) == ESTABLISHED;
	}
	used = before - meminfo("MemAvailable");
	bound = total / 10 * (is_debug ? 9 : 7);
	note("%d of %ld were accepted, which took %ld KiB", accepted, count, used);
	check(accepted > 0 && accepted < count, "paths that are never completed: some are refused");
	check(used < bound, "and they take less than %ld KiB", bound);
	check(!system("steady 3"), "a session that was there before still works");
	for (int i = 0; i < count; i++)
		link_close(&links[i], true);
	honest_works("paths that are never completed");
}

/* Dies at each step, without a word. */
static void deaths(void)
{
	for (int step = 0; step < 4; step++) {
		struct request_header header = {.type = 77};
		struct session session;

		NEED(session_connect(&session));
		if (step > 0)
			NEED(session_ask_information(&session, "hostile"));
		for (uint32_t i = 0; step > 1 && i < session.depth; i++)
			NEED(session_write(&session, i, 0, &header, 4));
		if (step == 3)
			session_close(&session, true);
		session_close(&session, false);
	}
	honest_works("clients that leave at any step");
}

void hostile_clients(void)
{
	refused_connections();
	foreign_connections();
	early_information();
	bad_names();
	bad_requests_in_chunks();
	bad_immediates();
	used_keys();
	bad_target();
	floods();
	silence();
	deaths();
	half_open();
}
