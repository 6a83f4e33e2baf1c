// SPDX-License-Identifier: GPL-2.0
/* Streams that are not RDS, or stop within a message. */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "wire.h"

static uint64_t garbage_count(void)
{
	return ktap_suite() == SUITE_OURS ? rds_counter(scene.victim, "recv_garbage") : 0;
}

/* Data of other protocols: the connection must end, and be counted. */
static void garbage(const char *what, const void *data, size_t len)
{
	uint64_t before = garbage_count();
	int fd = wire_open();

	wire_write(fd, data, len, SOON_MS);
	differs(wire_closed(fd, ktap_suite() == SUITE_OURS ? SOON_MS : 500), "garbage",
		"garbage: %s is closed", what);
	close(fd);
	if (ktap_suite() == SUITE_OURS)
		EXPECT_EQ(garbage_count() - before, 1, "garbage: %s is counted once", what);
	check(honest_works(), "garbage: the honest host does not notice %s", what);
}

static void strangers(void)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: victim\r\nUser-Agent: somebody\r\n\r\n";
	static char ones[200], noise[200];

	memset(ones, 0xff, sizeof(ones));
	pattern_fill(noise, sizeof(noise), 4);
	garbage("a web request", http, sizeof(http) - 1);
	garbage("all ones", ones, sizeof(ones));
	garbage("noise", noise, sizeof(noise));
}

static void interrupted(void)
{
	static char payload[5000];
	int rx = rds_bound(scene.victim, VICTIM, 4700), fd;
	struct wire_header h = wire_header(4700, sizeof(payload));
	char buf[16];

	for (size_t cut = 1; cut < sizeof(h); cut += 23) {
		fd = wire_open();
		NEED(wire_write(fd, &h, cut, SOON_MS));
		close(fd);
	}
	check(honest_works(), "interrupted: in the header");
	fd = wire_open();
	NEED(wire_write(fd, &h, sizeof(h), SOON_MS) && wire_write(fd, payload, 4999, SOON_MS));
	close(fd);
	fd = wire_open();
	NEED(wire_write(fd, &h, sizeof(h), SOON_MS) && wire_write(fd, payload, 100, SOON_MS));
	wire_reset(fd);
	EXPECT_ERRNO(rds_recv(rx, buf, sizeof(buf), NULL, MSG_DONTWAIT), EAGAIN,
		     "interrupted: half a message is none");
	/* A message begun on one connection is not continued on the next. */
	fd = wire_open();
	h = wire_header(4700, 3);
	NEED(wire_message(fd, &h, "abc"));
	EXPECT_EQ(rds_recv_soon(rx, buf, sizeof(buf), NULL), 3,
		  "interrupted: the next connection begins afresh");
	close(fd);
	check(honest_works(), "interrupted: in the payload");
	close(rx);
}

static void drop_by_drop(void)
{
	int rx = rds_bound(scene.victim, VICTIM, 4701), fd = wire_open();
	struct wire_header h = wire_header(4701, 10);
	char buf[16];
	bool sent = true;

	for (size_t i = 0; i < sizeof(h); i++)
		sent = sent && wire_write(fd, (char *)&h + i, 1, SOON_MS);
	for (int i = 0; i < 10; i++)
		sent = sent && wire_write(fd, "0123456789" + i, 1, SOON_MS);
	check(sent && rds_recv_soon(rx, buf, sizeof(buf), NULL) == 10 && !memcmp(buf, "0123456789", 10),
	      "drop by drop: a message of single bytes arrives whole");
	close(fd);
	close(rx);
}

/*
 * A message has no urgent byte in it, so the connection ends there. With a second one behind the first TCP passes over that, and
 * counts what follows as unread for ever. They have to come before the path's worker has closed the connection.
 */
static void urgent_once(bool ends)
{
	int fd = wire_open(), one = 1;

	NEED(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	NEED(send(fd, "U", 1, MSG_OOB | MSG_NOSIGNAL) == 1);
	send(fd, "zzV", 3, MSG_OOB | MSG_NOSIGNAL);
	if (ends)
		shutdown(fd, SHUT_WR);
	wire_closed(fd, SOON_MS);
	close(fd);
}

static void urgent(void)
{
	int home = netns_self();

	if (ktap_suite() != SUITE_OURS)
		return;
	netns_enter(scene.attacker);
	NEED(system("tc qdisc add dev wire root netem delay 30ms") == 0); /* so that they leave it together */
	netns_enter(home);
	for (int i = 0; i < 20; i++)
		urgent_once(i % 2);
	netns_enter(scene.attacker);
	NEED(system("tc qdisc del dev wire root") == 0);
	netns_enter(home);
	close(home);
	check(honest_works(), "urgent bytes: the next connection is served, whenever they come");
}

void attack_framing(void)
{
	strangers();
	interrupted();
	drop_by_drop();
	urgent();
}
