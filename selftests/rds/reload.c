// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic for a host whose modules are reloaded, and for its peer, which never stops sending.
 *
 *   reload keep OWN PEER          sends numbered messages to PEER until SIGTERM, also through failures; receives
 *                                 all messages; fails if none arrived
 *   reload visit OWN PEER LAST    exchanges messages with a peer that keeps sending, checks that none of its
 *                                 numbers comes twice and none up to LAST comes again, prints the last one,
 *                                 leaves messages unread and unacknowledged, and kills itself
 *   reload hold OWN               has a bound socket until it is killed
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

enum {
	KEEP_PORT = 4700,
	VISIT_PORT = 4701,
	SIZE = 2000, /* more than a segment on most links */
	ENOUGH = 50, /* messages for which a visit waits */
	BURST = 200, /* messages that a visit leaves unread */
};

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

static uint64_t number_in(const char *message)
{
	uint64_t number;

	memcpy(&number, message, sizeof(number));
	return number;
}

static bool post(int fd, const struct addr *to, uint64_t number)
{
	char message[SIZE];

	memset(message, 'm', sizeof(message));
	memcpy(message, &number, sizeof(number));
	return rds_send(fd, message, sizeof(message), to, MSG_DONTWAIT) == sizeof(message);
}

static int keep(const char *own, const char *peer)
{
	int fd = rds_bound(HERE, own, KEEP_PORT);
	struct addr to = addr(peer, VISIT_PORT);
	uint64_t number = 1, taken = 0;
	char message[SIZE];

	signal(SIGTERM, stop);
	while (!told_to_stop) {
		if (post(fd, &to, number))
			number++;
		else
			nap_us(1000);
		while (rds_recv(fd, message, sizeof(message), NULL, MSG_DONTWAIT) > 0)
			taken++;
	}
	fprintf(stderr, "reload keep: sent %llu, took %llu\n", (unsigned long long)number - 1,
		(unsigned long long)taken);
	return taken ? 0 : 1;
}

/* Receives a message, if any; false when its number is wrong. */
static bool take(int fd, uint64_t *last, int *taken)
{
	char message[SIZE];
	uint64_t number;

	if (rds_recv(fd, message, sizeof(message), NULL, MSG_DONTWAIT) != SIZE)
		return true;
	number = number_in(message);
	if (number <= *last) {
		fprintf(stderr, "reload visit: number %llu after number %llu\n", (unsigned long long)number,
			(unsigned long long)*last);
		return false;
	}
	*last = number;
	++*taken;
	return true;
}

static int visit(const char *own, const char *peer, uint64_t last)
{
	int fd = rds_bound(HERE, own, VISIT_PORT), taken = 0;
	struct addr to = addr(peer, KEEP_PORT);
	int64_t until = now_ms() + 4 * SOON_MS;

	while (taken < ENOUGH) {
		if (!take(fd, &last, &taken))
			return 1;
		post(fd, &to, taken);
		if (now_ms() > until) {
			fprintf(stderr, "reload visit: only %d messages came\n", taken);
			return 1;
		}
	}
	printf("%llu\n", (unsigned long long)last);
	fflush(stdout);
	for (int i = 0; i < BURST; i++)
		post(fd, &to, i);
	raise(SIGKILL);
	return 1;
}

static _Noreturn void hold(const char *own)
{
	rds_bound(HERE, own, VISIT_PORT);
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "keep"))
		return keep(argv[2], argv[3]);
	if (argc == 5 && !strcmp(argv[1], "visit"))
		return visit(argv[2], argv[3], strtoull(argv[4], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "hold"))
		hold(argv[2]);
	fprintf(stderr, "usage: reload keep OWN PEER | visit OWN PEER LAST | hold OWN\n");
	return 2;
}
