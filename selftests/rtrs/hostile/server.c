// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile server, to which rnbd-client wants to map a disk. Whatever it does, mapping fails in a bounded time, and the client
 * has nothing left of the session.
 */
#include "hostile.h"

#include <pthread.h>
#include <sys/stat.h>

#define DEPTH 16
#define CHUNK 131072
#define HEADER 4096
#define MAX_LINKS 12
#define MAP_MS stretched(25000) /* in which mapping has failed */
#define SESSION "/sys/class/rtrs-client/lost"

/* ---- the client */

/* Maps a disk of the hostile server, which the caller plays meanwhile. */
static struct {
	pthread_t thread;
	volatile bool done;
	int result; /* 0, or an errno */
} mapping;

static void *map(void *unused)
{
	char text[300];

	(void)unused;
	snprintf(text, sizeof(text), "sessname=lost dest_port=%d path=ip:%s device_path=/dev/ram0", HOSTILE_PORT, address);
	mapping.result = write_file("/sys/class/rnbd-client/ctl/map_device", text) ? errno : 0;
	mapping.done = true;
	return NULL;
}

/* ---- the server */

static struct link links[MAX_LINKS]; /* by number of connection */
static struct link late;             /* rejected */
static int count;                    /* of connections that are established */

static const struct connect_response good = {MAGIC, VERSION, 0, DEPTH, CHUNK - HEADER, HEADER, 0, {0}};

static struct connect_request asked_of(const struct link *link)
{
	struct connect_request request = {0};

	memcpy(&request, link->offered, link->offered_bytes < sizeof(request) ? link->offered_bytes : sizeof(request));
	return request;
}

/* Accepts a connection, the next one. */
static bool accept_next(const struct connect_response *response)
{
	NEED(count < MAX_LINKS);
	if (!link_next(&links[count], SOON_MS))
		return false;
	if (!link_accept(&links[count], response, sizeof(*response))) {
		link_close(&links[count], false);
		return false;
	}
	count++;
	return true;
}

static bool accept_all(void)
{
	int wanted;

	if (!accept_next(&good))
		return false;
	wanted = asked_of(&links[0]).count;
	NEED(wanted >= 2 && wanted <= MAX_LINKS);
	while (count < wanted)
		if (!accept_next(&good))
			return false;
	return link_receives(&links[0], 1, SOON_MS);
}

/* All that a client needs; its chunks are in the service connection's memory, which is smaller than they say. */
static bool give_information(void)
{
	struct info_response *response = (void *)links[0].scratch;

	response->type = INFO_RESPONSE;
	response->count = 1;
	response->chunks[0] = (struct descriptor){(uintptr_t)links[0].scratch, links[0].mr->rkey, DEPTH * CHUNK};
	return link_send(&links[0], response, sizeof(*response) + sizeof(response->chunks[0]));
}

static void close_all(void)
{
	while (count > 0)
		link_close(&links[--count], true);
}

/* Which connection has received the first request; NULL if none. */
static struct link *requested(void)
{
	struct link *found = NULL;

	WAIT_UNTIL(SOON_MS, ({
			   for (int i = 0; i < count && !found; i++) {
				   link_pump(&links[i]);
				   if (links[i].received > (i == 0) && links[i].imm >> 28 == IMM_REQUEST)
					   found = &links[i];
			   }
			   found;
		   }));
	return found;
}

/* Until the client has given up: whatever it asks for now is rejected. */
static void wait_for_client(void)
{
	struct connect_response no = {MAGIC, VERSION, (uint16_t)-ECONNREFUSED, 0, 0, 0, 0, {0}};
	int64_t until = now_ms() + MAP_MS;

	while (!mapping.done && now_ms() < until) {
		for (int i = 0; i < count; i++)
			link_pump(&links[i]);
		if (link_next(&late, 1))
			link_reject(&late, &no, sizeof(no));
	}
}

/* A case: the client maps while play() is the server; then it must have failed. */
static void refused(const char *what, void (*play)(const void *), const void *context)
{
	struct stat status;

	mapping.done = false;
	NEED(!pthread_create(&mapping.thread, NULL, map, NULL));
	play(context);
	wait_for_client();
	if (!check(mapping.done, "%s: mapping ends", what))
		exit(ktap_finish());
	pthread_join(mapping.thread, NULL);
	close_all();
	while (link_next(&late, 0))
		link_close(&late, false);
	if (!check(mapping.result != 0, "%s: it fails", what))
		NEED(!system("echo force >/sys/block/rnbd1/rnbd/unmap_device"));
	else
		check(mapping.result < 512, "%s: with an error of programs, %s", what, strerror(mapping.result));
	check(WAIT_UNTIL(SOON_MS, stat(SESSION, &status) < 0), "%s: the session is gone", what);
}

/* ---- answers to the request for a connection */

static const int rejections[] = {0, 1, 12, 22, 104, 110, 511, 512, 529, 4095, 4096, 32767, -5}; /* 529: EIOCBQUEUED */

static void reject(const void *context)
{
	struct connect_response no = {MAGIC, VERSION, (uint16_t)-*(const int *)context, 0, 0, 0, 0, {0}};

	if (link_next(&links[0], SOON_MS))
		link_reject(&links[0], &no, sizeof(no));
}

static void reject_bytes(const void *context)
{
	static const uint8_t garbage[100] = {1, 2, 3, 4, 5};

	if (link_next(&links[0], SOON_MS))
		link_reject(&links[0], garbage, *(const size_t *)context);
}

static const struct {
	const char *what;
	struct connect_response response;
} bad_responses[] = {
	{"another magic number", {0x1bbe, VERSION, 0, DEPTH, CHUNK - HEADER, HEADER, 0, {0}}},
	{"version 3.0", {MAGIC, 0x300, 0, DEPTH, CHUNK - HEADER, HEADER, 0, {0}}},
	{"an error", {MAGIC, VERSION, (uint16_t)-22, DEPTH, CHUNK - HEADER, HEADER, 0, {0}}},
	{"a queue depth of 0", {MAGIC, VERSION, 0, 0, CHUNK - HEADER, HEADER, 0, {0}}},
	{"a queue depth of 65535", {MAGIC, VERSION, 0, 65535, CHUNK - HEADER, HEADER, 0, {0}}},
	{"requests of 0 bytes", {MAGIC, VERSION, 0, DEPTH, 0, HEADER, 0, {0}}},
	{"chunks of 0 bytes", {MAGIC, VERSION, 0, DEPTH, 0, 0, 0, {0}}},
	{"requests of 4 GiB", {MAGIC, VERSION, 0, DEPTH, 0xffffffff, HEADER, 0, {0}}},
	{"headers of 4 GiB", {MAGIC, VERSION, 0, DEPTH, CHUNK, 0xffffffff, 0, {0}}},
	{"sizes whose sum is 0", {MAGIC, VERSION, 0, DEPTH, 0x80000000, 0x80000000, 0, {0}}},
};

static void accept_badly(const void *context)
{
	accept_next(context);
	close_all();
}

static void accept_shortly(const void *context)
{
	if (link_next(&links[0], SOON_MS) && link_accept(&links[0], &good, *(const size_t *)context))
		count = 1;
	link_ends(&links[0], SOON_MS);
	if (!count)
		link_close(&links[0], false);
}

static void accept_differently(const void *unused)
{
	struct connect_response other = good;

	(void)unused;
	other.queue_depth = DEPTH * 2;
	if (accept_next(&good))
		accept_next(&other);
	link_ends(&links[0], SOON_MS);
}

/* ---- information */

static const struct {
	const char *what;
	uint16_t type, count;
	uint32_t length; /* of the message */
	struct descriptor chunk; /* each */
} bad_information[] = {
	{"no bytes", INFO_RESPONSE, 1, 0, {0, 1, DEPTH * CHUNK}},
	{"7 bytes", INFO_RESPONSE, 1, 7, {0, 1, DEPTH * CHUNK}},
	{"a part of a descriptor", INFO_RESPONSE, 1, 20, {0, 1, DEPTH * CHUNK}},
	{"another type", 9, 1, 24, {0, 1, DEPTH * CHUNK}},
	{"no descriptor", INFO_RESPONSE, 0, 8, {0, 0, 0}},
	{"65535 descriptors", INFO_RESPONSE, 65535, 24, {0, 1, CHUNK}},
	{"too little memory", INFO_RESPONSE, 1, 24, {0, 1, (DEPTH - 1) * CHUNK}},
	{"too much memory", INFO_RESPONSE, 1, 24, {0, 1, (DEPTH + 1) * CHUNK}},
	{"no memory", INFO_RESPONSE, 1, 24, {0, 1, 0}},
	{"a part of a chunk", INFO_RESPONSE, 1, 24, {0, 1, DEPTH * CHUNK - 1}},
	{"memory around the end of the address space", INFO_RESPONSE, 1, 24, {UINT64_MAX - CHUNK, 1, DEPTH * CHUNK}},
};

static void inform_badly(const void *context)
{
	size_t i = *(const size_t *)context;
	struct info_response *response;

	if (!accept_all())
		return;
	response = (void *)links[0].scratch;
	response->type = bad_information[i].type;
	response->count = bad_information[i].count;
	response->chunks[0] = bad_information[i].chunk;
	link_send(&links[0], response, bad_information[i].length);
	link_ends(&links[0], SOON_MS);
}

static void inform_with_bad_key(const void *unused)
{
	struct info_response *response;

	(void)unused;
	if (!accept_all())
		return;
	response = (void *)links[0].scratch;
	response->type = INFO_RESPONSE;
	response->count = 1;
	response->chunks[0] = (struct descriptor){0x1000, 0x12345678, DEPTH * CHUNK};
	link_send(&links[0], response, 24);
	link_ends(&links[0], MAP_MS);
}

static void inform_too_long(const void *unused)
{
	(void)unused;
	if (!accept_all())
		return;
	link_send(&links[0], links[0].scratch, SCRATCH_BYTES);
	link_ends(&links[0], SOON_MS);
}

/* ---- answers to the first request, by which RNBD asks for information */

static const struct {
	const char *what;
	unsigned type;
	uint32_t payload;
	struct key_response key; /* sent with it unless its type is 0 */
} bad_answers[] = {
	{"an error", IMM_RESPONSE, 22u << 19, {0, 0, 0}},
	{"errno 511", IMM_RESPONSE, 511u << 19, {0, 0, 0}},
	{"a chunk that is not in use", IMM_RESPONSE, DEPTH - 1, {0, 0, 0}},
	{"a chunk behind the last", IMM_RESPONSE, DEPTH, {0, 0, 0}},
	{"chunk 524287", IMM_RESPONSE, 0x7ffff, {0, 0, 0}},
	{"a request", IMM_REQUEST, 0, {0, 0, 0}},
	{"immediate data of type 5", 5, 0, {0, 0, 0}},
	{"immediate data of type 15", 15, 0, {0, 0, 0}},
	{"a key for another chunk", IMM_RESPONSE, 0, {KEY_RESPONSE, 1, 1}},
	{"a key for a chunk behind the last", IMM_RESPONSE, 0, {KEY_RESPONSE, 65535, 1}},
	{"another message with it", IMM_RESPONSE, 0, {7, 0, 1}},
};

static void answer_badly(const void *context)
{
	size_t i = *(const size_t *)context;
	uint32_t imm = immediate(bad_answers[i].type, bad_answers[i].payload);
	struct link *link;

	if (!accept_all() || !give_information() || !(link = requested()))
		return;
	memcpy(link->scratch, &bad_answers[i].key, sizeof(bad_answers[i].key));
	if (bad_answers[i].key.type)
		link_send_imm(link, link->scratch, sizeof(bad_answers[i].key), imm);
	else
		link_write(link, NULL, 0, 0, 0, imm);
}

static void answer_twice(const void *unused)
{
	struct link *link;

	(void)unused;
	if (!accept_all() || !give_information() || !(link = requested()))
		return;
	for (int i = 0; i < 3; i++)
		link_write(link, NULL, 0, 0, 0, immediate(IMM_RESPONSE, 22u << 19));
}

static void answer_with_invalidation(const void *unused)
{
	struct link *link;

	(void)unused;
	if (!accept_all() || !give_information() || !(link = requested()))
		return;
	link_send_invalidate(link, 0x12345678);
	link_write(link, NULL, 0, 0, 0, immediate(IMM_RESPONSE_INVALIDATED, 22u << 19));
}

static void say_nothing(const void *unused)
{
	(void)unused;
	if (accept_all() && give_information())
		requested();
}

static void flood(const void *unused)
{
	(void)unused;
	if (!accept_all() || !give_information())
		return;
	for (int i = 0; i < 400 && links[0].state == ESTABLISHED; i++)
		link_write(&links[0], NULL, 0, 0, 0, immediate(IMM_HEARTBEAT, 0));
	link_completes(&links[0], SOON_MS);
}

/* ---- ends at each step */

static void leave_at(const void *context)
{
	int step = *(const int *)context;

	if (step == 0) {
		if (link_next(&links[0], SOON_MS))
			link_close(&links[0], false);
		return;
	}
	if (step == 1)
		accept_next(&good);
	else if (step == 2 && accept_next(&good))
		accept_next(&good);
	else if (step == 3)
		accept_all();
	else if (accept_all() && give_information())
		requested();
	close_all();
}

void hostile_servers(void)
{
	static const size_t lengths[] = {0, 1, 55};

	link_listen(HOSTILE_PORT);
	for (size_t i = 0; i < ARRAY_SIZE(rejections); i++) {
		char what[40];

		snprintf(what, sizeof(what), "a rejection with errno %d", rejections[i]);
		refused(what, reject, &rejections[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		refused("a rejection with other data", reject_bytes, &lengths[i]);
		refused("an acceptance that is cut off", accept_shortly, &lengths[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_responses); i++)
		refused(bad_responses[i].what, accept_badly, &bad_responses[i].response);
	refused("connections that offer different queues", accept_differently, NULL);
	honest_works("offers that cannot be");
	for (size_t i = 0; i < ARRAY_SIZE(bad_information); i++)
		refused(bad_information[i].what, inform_badly, &i);
	refused("information that is too long", inform_too_long, NULL);
	refused("a key that is not valid", inform_with_bad_key, NULL);
	honest_works("information that cannot be");
	for (size_t i = 0; i < ARRAY_SIZE(bad_answers); i++)
		refused(bad_answers[i].what, answer_badly, &i);
	refused("three answers", answer_twice, NULL);
	refused("an answer that invalidates a foreign key", answer_with_invalidation, NULL);
	refused("no answer", say_nothing, NULL);
	refused("400 heartbeats at once", flood, NULL);
	honest_works("answers that cannot be");
	for (int step = 0; step < 5; step++)
		refused("a server that leaves", leave_at, &step);
	honest_works("servers that leave");
}
