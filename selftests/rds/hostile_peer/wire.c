// SPDX-License-Identifier: GPL-2.0
#include "wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>

struct scene scene;

/*
 * A victim without a connection may connect to the peer's own port 16385, where this machine's RDS would answer and
 * disturb the attacker. So that port is blocked.
 */
static void silence_attacker(void)
{
	int home = netns_self();

	netns_enter(scene.attacker);
	NEED(system("ip rule add pref 10 lookup local && ip rule del pref 0 && "
		    "ip rule add pref 5 to " ATTACKER " ipproto 6 dport 16385 blackhole") == 0);
	netns_enter(home);
	close(home);
}

void scene_open(void)
{
	scene.attacker = netns_new();
	scene.victim = netns_new();
	scene.honest = netns_new();
	net_veth(scene.attacker, "wire", scene.victim, "wire");
	net_address(scene.attacker, "wire", ATTACKER "/24", true);
	net_address(scene.victim, "wire", VICTIM "/24", true);
	silence_attacker();
	net_veth(scene.honest, "good", scene.victim, "good");
	net_address(scene.honest, "good", HONEST "/24", true);
	net_address(scene.victim, "good", VICTIM_TOO "/24", true);
	scene.honest_fd = rds_bound(scene.honest, HONEST, 0);
	scene.victim_fd = rds_bound(scene.victim, VICTIM_TOO, 0);
	scene.honest_to = addr_of(scene.victim_fd);
	scene.sequence = 1;
	check(honest_works(), "before: the honest host reaches the victim");
}

bool honest_works(void)
{
	static uint32_t number;
	uint32_t got = 0;
	int64_t start = now_ms();

	number++;
	if (rds_send(scene.honest_fd, &number, sizeof(number), &scene.honest_to, MSG_DONTWAIT) !=
	    sizeof(number))
		return false;
	return rds_recv_soon(scene.victim_fd, &got, sizeof(got), NULL) == sizeof(got) && got == number &&
	       now_ms() - start < stretched(2000);
}

static int try_open(void)
{
	int fd = socket_in(scene.attacker, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct addr from, to = addr(VICTIM, RDS_TCP_PORT);
	struct wire_header peek;
	static uint16_t port = 40000;

	/* A peer of 7.x encodes the path in its port, modulo eight. This is always the first one. */
	port = port < 60000 ? port + 8 : 40000;
	from = addr(ATTACKER, port);
	NEED(fd >= 0);
	/* An earlier connection without a chosen port may still have this one. */
	if (bind(fd, &from.sa, from.len))
		NEED(errno == EADDRINUSE);
	else if (connect(fd, &to.sa, to.len) == 0 && polled(fd, POLLIN, 3000) &&
	    recv(fd, &peek, sizeof(peek), MSG_PEEK | MSG_DONTWAIT) > 0)
		return fd;
	close(fd);
	nap_us(50000);
	return -1;
}

int wire_open(void)
{
	int fd;

	/* While the path of the connection before is torn down, a new one is refused. */
	NEED(WAIT_UNTIL(SOON_MS, (fd = try_open()) >= 0));
	return fd;
}

struct wire_header wire_header(uint16_t dport, uint32_t length)
{
	return (struct wire_header){ .sequence = htobe64(scene.sequence++),
				     .length = htonl(length),
				     .sport = htons(77),
				     .dport = htons(dport) };
}

bool wire_write(int fd, const void *data, size_t len, int ms)
{
	const char *at = data;
	int64_t moved = now_ms();

	while (len) {
		ssize_t n = send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			at += n;
			len -= n;
			moved = now_ms();
		} else if (errno != EAGAIN || now_ms() - moved > ms) {
			return false;
		} else {
			polled(fd, POLLOUT, 20);
		}
	}
	return true;
}

bool wire_message(int fd, const struct wire_header *h, const void *payload)
{
	size_t len = ntohl(h->length);

	return wire_write(fd, h, sizeof(*h), SOON_MS) && (!len || wire_write(fd, payload, len, SOON_MS));
}

bool wire_closed(int fd, int ms)
{
	static char trash[65536];
	ssize_t n;

	return WAIT_UNTIL(ms, (n = recv(fd, trash, sizeof(trash), MSG_DONTWAIT)) == 0 ||
				      (n < 0 && errno != EAGAIN));
}

static bool read_all(int fd, void *buf, size_t len, int64_t until)
{
	char *at = buf;

	while (len && now_ms() < until) {
		ssize_t n = recv(fd, at, len, MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			len -= n;
		} else if (n == 0 || errno != EAGAIN) {
			return false;
		} else {
			polled(fd, POLLIN, 20);
		}
	}
	return !len;
}

bool wire_find(int fd, uint16_t sport, uint16_t dport, struct wire_header *h)
{
	static char payload[MAX_MESSAGE];
	int64_t until = now_ms() + SOON_MS;

	while (read_all(fd, h, sizeof(*h), until)) {
		if (ntohl(h->length) > sizeof(payload) || !read_all(fd, payload, ntohl(h->length), until))
			return false;
		if (h->flags != CONGESTION_MAP && ntohs(h->sport) == sport && ntohs(h->dport) == dport)
			return true;
	}
	return false;
}

void wire_reset(int fd)
{
	struct linger now = { 1, 0 };

	NEED(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
	close(fd);
}
