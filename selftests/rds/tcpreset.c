// SPDX-License-Identifier: GPL-2.0
/*
 * tcpreset LINK ADDRESS COUNT SECONDS
 *
 * Watches the RDS connections (TCP port 16385, IPv4) that pass LINK and sends ADDRESS, which is one end of
 * them, a reset that seems to be from the other end. Each connection gets one, until COUNT were sent or SECONDS have
 * passed. The other end gets no reset, as when a middlebox forgets a connection or a host is replaced.
 *
 * A reset is accepted only if its sequence number is exactly the next expected one, which ADDRESS
 * last acknowledged. On a busy connection that is a race, so resets are repeated until the connection is silent.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "net.h"
#include "util.h"

#define PORT 16385
#define MAX_CONNECTIONS 64
#define BUSY 50 /* packets from which on a connection is reset */
#define SILENT_MS 300 /* after an accepted reset the victim sends nothing */

struct connection {
	uint32_t peer;
	uint16_t port, peer_port; /* network order, as in packets */
	int packets; /* from the victim; idle connections are not reset */
	int64_t reset_at; /* 0 before the first one */
	int64_t seen_at;
};

static struct connection connections[MAX_CONNECTIONS];
static int connection_count;
static uint32_t victim;
static int raw;

static uint32_t sum_of(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += p[i] << 8 | p[i + 1];
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static void send_reset(const struct connection *c, uint32_t sequence)
{
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} packet = {
		.ip = { .version = 4,
			.ihl = 5,
			.tot_len = htons(sizeof(packet)),
			.ttl = 64,
			.protocol = IPPROTO_TCP,
			.saddr = c->peer,
			.daddr = victim },
		.tcp = { .source = c->peer_port, .dest = c->port, .seq = sequence, .doff = 5, .rst = 1 },
	};
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = victim };
	uint32_t sum = sum_of(&packet.ip.saddr, 8, IPPROTO_TCP + sizeof(packet.tcp));

	packet.tcp.check = folded(sum_of(&packet.tcp, sizeof(packet.tcp), sum));
	NEED(sendto(raw, &packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) == sizeof(packet));
}

static struct connection *find(uint32_t peer, uint16_t port, uint16_t peer_port)
{
	for (int i = 0; i < connection_count; i++) {
		struct connection *c = &connections[i];

		if (c->peer == peer && c->port == port && c->peer_port == peer_port)
			return c;
	}
	if (connection_count == MAX_CONNECTIONS)
		return NULL;
	connections[connection_count] =
		(struct connection){ .peer = peer, .port = port, .peer_port = peer_port };
	return &connections[connection_count++];
}

static int silent_ones(void)
{
	int n = 0;

	for (int i = 0; i < connection_count; i++)
		n += connections[i].reset_at && now_ms() - connections[i].seen_at > SILENT_MS;
	return n;
}

static int tried_ones(void)
{
	int n = 0;

	for (int i = 0; i < connection_count; i++)
		n += connections[i].reset_at != 0;
	return n;
}

/* A packet from the victim shows the next expected number. */
static void look_at(const uint8_t *packet, ssize_t len, int limit)
{
	const struct iphdr *ip = (const void *)packet;
	const struct tcphdr *tcp = (const void *)(packet + ip->ihl * 4);
	struct connection *c;

	if (len < (ssize_t)(sizeof(*ip) + sizeof(*tcp)) || ip->protocol != IPPROTO_TCP || ip->saddr != victim)
		return;
	if (tcp->source != htons(PORT) && tcp->dest != htons(PORT))
		return;
	if (tcp->rst || tcp->syn || !tcp->ack)
		return;
	c = find(ip->daddr, tcp->source, tcp->dest);
	if (!c || ++c->packets < BUSY || (!c->reset_at && tried_ones() >= limit))
		return;
	c->seen_at = now_ms();
	if (!c->reset_at)
		c->reset_at = c->seen_at;
	send_reset(c, tcp->ack_seq);
}

int main(int argc, char **argv)
{
	struct sockaddr_ll link = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	uint8_t packet[2048];
	int64_t until;
	int fd, limit;

	ktap_start("tcpreset", argc, argv);
	NEED(argc == 5);
	link.sll_ifindex = net_index(HERE, argv[1]);
	victim = inet_addr(argv[2]);
	limit = atoi(argv[3]);
	until = now_ms() + atoi(argv[4]) * 1000LL;
	NEED(link.sll_ifindex && victim != INADDR_NONE);
	fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
	raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	NEED(fd >= 0 && raw >= 0);
	link.sll_protocol = htons(ETH_P_ALL);
	NEED(bind(fd, (struct sockaddr *)&link, sizeof(link)) == 0);
	while (now_ms() < until && silent_ones() < limit) {
		struct pollfd p = { fd, POLLIN };

		if (poll(&p, 1, 50) > 0)
			look_at(packet, recv(fd, packet, sizeof(packet), MSG_DONTWAIT), limit);
	}
	note("%d connections were sent resets, %d are silent", tried_ones(), silent_ones());
	check(silent_ones() > 0, "a connection was reset as %s sees it", argv[2]);
	return ktap_finish();
}
