// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that sends endlessly while nothing is received. The kernel's queue must be bounded in bytes of memory,
 * not of payload; above it the connection is no longer read, and nothing is dropped.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <poll.h>

#define BATCH 500 /* messages written at once */
/*
 * Memory still used after a flood. A kernel with KASAN keeps freed objects for a while, a 32nd of its memory, and more
 * for each object.
 */
#define BOUND_KIB ((access("/sys/kernel/debug/kmemleak", F_OK) ? 16 : 96) * 1024)

/* Upper limit of an unread flood's memory. */
struct flood {
	const char *what;
	uint32_t length;
	int messages;
};

static long free_kib(void)
{
	char text[4096], *at;

	NEED(read_file("/proc/meminfo", text, sizeof(text)));
	at = strstr(text, "MemAvailable:");
	NEED(at);
	return atol(at + strlen("MemAvailable:"));
}

#define STOPPED_MS (ktap_suite() == SUITE_OURS ? stretched(1500) : SOON_MS) /* without progress: the victim does not read */

/* The number of messages sent before there is no progress for @ms; all, when the victim never stops reading. */
static int pour(int fd, uint16_t port, const struct flood *flood, int ms)
{
	static char batch[BATCH * (sizeof(struct wire_header) + 64)];
	size_t each = sizeof(struct wire_header) + flood->length;
	int sent = 0;

	NEED(flood->length <= 64);
	while (sent < flood->messages) {
		for (int i = 0; i < BATCH; i++) {
			struct wire_header h = wire_header(port, flood->length);

			memcpy(batch + i * each, &h, sizeof(h));
			memset(batch + i * each + sizeof(h), i, flood->length);
		}
		/* A partly sent batch ends with the caller's close of the connection, within a
		 * message. */
		if (!wire_write(fd, batch, BATCH * each, ms))
			break;
		sent += BATCH;
	}
	return sent;
}

/* Receives @sent messages, and all that come until none comes for a while. */
static int drain(int rx, uint32_t length, int sent)
{
	char buf[128];
	int got = 0;
	int64_t quiet = now_ms();

	while (now_ms() - quiet < (got < sent ? SOON_MS : 1500)) {
		ssize_t n = rds_recv(rx, buf, sizeof(buf), NULL, MSG_DONTWAIT);

		if (n >= 0) {
			if (n != (ssize_t)length)
				return -1;
			got++;
			quiet = now_ms();
		} else {
			polled(rx, POLLIN, 20);
		}
	}
	return got;
}

static void unread(const struct flood *flood)
{
	int rx = rds_bound(scene.victim, VICTIM, 4770), fd = wire_open(), got, sent;
	long before = free_kib(), used;
	uint64_t stalled = ktap_suite() == SUITE_OURS ? rds_counter(scene.victim, "recv_stalled") : 0;

	sent = pour(fd, 4770, flood, STOPPED_MS);
	used = before - free_kib();
	note("%d of %d messages taken, %ld KiB used", sent, flood->messages, used);
	differs(used < BOUND_KIB, "flood-memory", "flood: unread %s take a bounded amount of memory",
		flood->what);
	differs(sent < flood->messages, "flood-memory", "flood: past the bound %s are left with their sender",
		flood->what);
	if (ktap_suite() == SUITE_OURS)
		check(rds_counter(scene.victim, "recv_stalled") > stalled, "flood: the stop is counted");
	check(honest_works(), "flood: the honest host does not notice %s", flood->what);
	got = drain(rx, flood->length, sent);
	/* Some whole messages of the partly sent batch were taken as well. */
	check(got >= sent && got < sent + BATCH + 1, "flood: nothing of %s is dropped", flood->what);
	if (got < sent || got >= sent + BATCH + 1)
		note("sent %d, got %d", sent, got);
	close(fd);
	close(rx);
}

/* To a port without a socket it may continue without end. */
static void unwanted(void)
{
	static const struct flood flood = { "messages to an unbound port", 16, 50000 };
	int fd = wire_open();
	long before = free_kib();

	EXPECT_EQ(pour(fd, 4779, &flood, SOON_MS), flood.messages, "flood: all of %s are taken", flood.what);
	check(before - free_kib() < BOUND_KIB, "flood: %s take no memory", flood.what);
	check(honest_works(), "flood: the honest host does not notice %s", flood.what);
	close(fd);
}

/* Answers to pings wait for the pinger, which does not read. */
static void pings(void)
{
	static const struct flood flood = { "pings", 0, 200000 };
	int fd = wire_open();
	long before = free_kib(), used;

	pour(fd, 0, &flood, STOPPED_MS);
	used = before - free_kib();
	note("%ld KiB used by pings", used);
	differs(used < BOUND_KIB, "flood-pings",
		"flood: unread answers use a bounded amount of memory");
	check(honest_works(), "flood: the honest host does not notice %s", flood.what);
	wire_reset(fd);
}

void attack_floods(void)
{
	static const struct flood floods[] = {
		{ "empty messages", 0, 300000 },
		{ "messages of one byte", 1, 200000 },
	};

	unwanted();
	for (size_t i = 0; i < ARRAY_SIZE(floods); i++)
		unread(&floods[i]);
	pings();
}
