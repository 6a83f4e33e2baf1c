// SPDX-License-Identifier: GPL-2.0
/* Options that the kernel's own KCM refuses (include/uapi/hawser_kcm.h). */
#include "api.h"

#include <arpa/inet.h>
#include <hawser_kcm.h>
#include <sched.h>

static void absent(void)
{
	static const int options[] = { KCM_ERRORS, KCM_RECV_CONNECTION, KCM_MAX_MESSAGE, KCM_STEERING, KCM_STATS,
				       KCM_RECV_LENGTHS };
	int fd = kcm_socket(HERE, SOCK_DGRAM);

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		socklen_t len = sizeof(buf);

		EXPECT_ERRNO(set_int(fd, SOL_KCM, options[i], 1), ENOPROTOOPT, "new: option %d cannot be set", options[i]);
		EXPECT_ERRNO(getsockopt(fd, SOL_KCM, options[i], buf, &len), ENOPROTOOPT,
			     "new: option %d cannot be read", options[i]);
	}
	close(fd);
}

/* Rules of every option of four bytes. */
static void four_bytes(int option, const char *name)
{
	int fd = kcm_socket(HERE, SOCK_DGRAM), value[2] = { -1, -1 };
	socklen_t len = sizeof(value);
	long wide = 1;

	check(getsockopt(fd, SOL_KCM, option, value, &len) == 0 && len == 4 && value[0] == 0, "%s: 0 at first", name);
	check(value[1] == -1, "%s: writes no more than it returns", name);
	len = -1;
	EXPECT_ERRNO(getsockopt(fd, SOL_KCM, option, value, &len), EINVAL, "%s: a negative buffer length", name);
	len = 4;
	EXPECT_ERRNO(getsockopt(fd, SOL_KCM, option, bad_pointer(), &len), EFAULT, "%s: bad buffer", name);
	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, option, &wide, 3), EINVAL, "%s: short", name);
	EXPECT_ERRNO(setsockopt(fd, SOL_KCM, option, bad_pointer(), 4), EFAULT, "%s: bad pointer", name);
	EXPECT_EQ(get_int(fd, SOL_KCM, option), 0, "%s: a refused value changes nothing", name);
	EXPECT_OK(setsockopt(fd, SOL_KCM, option, &wide, 8), "%s: longer than needed", name);
	EXPECT_EQ(get_int(fd, SOL_KCM, option), 1, "%s: is set", name);
	close(fd);
}

/* KCM_ERRORS: sockets with it report each connection, others only the last one. */
static void errors(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct link other = rig_link(&r, parser_framed());
	int clone = kcm_clone(r.kcm);

	NEED(set_int(r.kcm, SOL_KCM, KCM_ERRORS, 1) == 0 && set_int(clone, SOL_KCM, KCM_ERRORS, 0) == 0);
	tcp_reset(r.peer);
	EXPECT_EQ(polled(r.kcm, 0, SOON_MS), POLLERR, "KCM_ERRORS: the end of one connection of two is reported");
	EXPECT_EQ(sock_error(r.kcm), ECONNRESET, "KCM_ERRORS: as TCP's error");
	EXPECT_EQ(sock_error(r.kcm), 0, "KCM_ERRORS: once");
	check(!polled(clone, 0, 0) && !sock_error(clone), "KCM_ERRORS: a socket without it does not report it");
	NEED(kcm_disable(clone, 1) == 0);
	peer_send_frame(other.far, MEDIUM, 1);
	check(kcm_takes(r.kcm, MEDIUM, 1), "KCM_ERRORS: the other connection delivers");
	check(kcm_sends(r.kcm, MEDIUM, 2) && peer_takes(other.far, MEDIUM, 2), "KCM_ERRORS: and sends");
	NEED(shutdown(other.far, SHUT_WR) == 0);
	check(polled(clone, 0, SOON_MS) == POLLERR && sock_error(clone) == EPIPE,
	      "KCM_ERRORS: every socket reports the last one");
	check(polled(r.kcm, 0, SOON_MS) == POLLERR && sock_error(r.kcm) == EPIPE, "KCM_ERRORS: this one, too");
	close(clone);
	tcp_link_close(&other);
	r.peer = -1;
	rig_close(&r);
}

/* Receive a message within SOON_MS; returns its connection, or 0 without one. */
static uint64_t comes_from(int kcm, size_t len, uint64_t seed)
{
	struct kcm_connection *c;
	struct control control;
	int flags;
	ssize_t n;

	NEED(polled(kcm, POLLIN, SOON_MS));
	n = recv_control(kcm, buf, sizeof(buf), &control, MSG_DONTWAIT, &flags);
	if (!frame_is(buf, n, len, seed) || flags != MSG_EOR)
		return 0;
	c = control_find(&control, SOL_KCM, KCM_CONNECTION, sizeof(*c));
	return c ? c->id : 0;
}

static ssize_t send_to(int kcm, size_t len, uint64_t seed, uint64_t id)
{
	struct kcm_connection c = { .id = id };
	struct control control = { .len = 0 };

	control_add(&control, SOL_KCM, KCM_CONNECTION, &c, sizeof(c));
	frame_fill(buf, len, seed);
	return send_control(kcm, buf, len, NULL, &control, MSG_EOR);
}

/* Receives a message from a peer, to get its connection's id. */
static uint64_t name_of(struct rig *r, int peer)
{
	uint64_t id;

	peer_send_frame(peer, MEDIUM, 5);
	id = comes_from(r->kcm, MEDIUM, 5);
	NEED(id);
	return id;
}

static void receiving(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	struct link other = rig_link(&r, parser_framed());
	struct control control;
	uint64_t first, second;
	int flags;

	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(comes_from(r.kcm, MEDIUM, 1), 0, "KCM_CONNECTION: not given by default, %s", type->name);
	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_CONNECTION, 1) == 0);
	peer_send_frame(r.peer, MEDIUM, 1);
	first = comes_from(r.kcm, MEDIUM, 1);
	check(first, "KCM_CONNECTION: given, %s", type->name);
	peer_send_frame(other.far, MEDIUM, 2);
	second = comes_from(r.kcm, MEDIUM, 2);
	check(second && second != first, "KCM_CONNECTION: another one for another connection, %s", type->name);
	peer_send_frame(r.peer, 64, 3);
	check(comes_from(r.kcm, 64, 3) == first, "KCM_CONNECTION: the same for the same connection, %s", type->name);
	peer_send_frame(r.peer, MEDIUM, 4);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	check(recv_control(r.kcm, buf, 40, &control, MSG_PEEK, &flags) == 40 &&
		      control_find(&control, SOL_KCM, KCM_CONNECTION, sizeof(struct kcm_connection)),
	      "KCM_CONNECTION: with MSG_PEEK, too, %s", type->name);
	check(kcm_recv(r.kcm, buf, sizeof(buf), (flags = 0, &flags)) == MEDIUM && flags == (MSG_EOR | MSG_CTRUNC),
	      "KCM_CONNECTION: MSG_CTRUNC when there is no room for it, %s", type->name);
	NEED(kcm_unattach(r.kcm, r.tcp) == 0 && kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	peer_send_frame(r.peer, MEDIUM, 6);
	second = comes_from(r.kcm, MEDIUM, 6);
	check(second && second != first, "KCM_CONNECTION: a new one after attaching again, %s", type->name);
	tcp_link_close(&other);
	rig_close(&r);
}

static void sending(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	struct link other = rig_link(&r, parser_framed());
	struct control wrong = { .len = 0 };
	uint64_t first, second;
	bool right = true;

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_CONNECTION, 1) == 0);
	first = name_of(&r, r.peer);
	second = name_of(&r, other.far);
	for (int i = 0; i < 20; i++) {
		bool which = i % 3;

		right = right && send_to(r.kcm, MEDIUM, i, which ? first : second) == MEDIUM &&
			peer_takes(which ? r.peer : other.far, MEDIUM, i);
	}
	check(right, "KCM_CONNECTION: a message goes to the given connection, %s", type->name);
	EXPECT_ERRNO(send_to(r.kcm, MEDIUM, 1, first + second + 1000), ENOTCONN,
		     "KCM_CONNECTION: one that does not exist, %s", type->name);
	EXPECT_ERRNO(send_to(r.kcm, MEDIUM, 1, 0), ENOTCONN, "KCM_CONNECTION: 0 is none, %s", type->name);
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	EXPECT_ERRNO(send_to(r.kcm, MEDIUM, 1, first), ENOTCONN, "KCM_CONNECTION: one that is unattached, %s", type->name);
	control_add(&wrong, SOL_KCM, KCM_CONNECTION, &first, 4);
	EXPECT_ERRNO(send_control(r.kcm, buf, MEDIUM, NULL, &wrong, MSG_EOR), EINVAL, "KCM_CONNECTION: short, %s",
		     type->name);
	check(stays_quiet(other.far), "KCM_CONNECTION: refused messages are not sent, %s", type->name);
	check(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(other.far, MEDIUM, 1),
	      "KCM_CONNECTION: without it any connection is used, %s", type->name);
	tcp_link_close(&other);
	rig_close(&r);
}

/* A reply from a clone: any socket of the multiplexor can send it. */
static void by_a_clone(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct link other = rig_link(&r, parser_framed());
	int clone = kcm_clone(r.kcm);
	uint64_t id;

	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_CONNECTION, 1) == 0 && kcm_disable(clone, 1) == 0);
	id = name_of(&r, other.far);
	check(send_to(clone, MEDIUM, 1, id) == MEDIUM && peer_takes(other.far, MEDIUM, 1),
	      "KCM_CONNECTION: is valid for all sockets of the multiplexor");
	close(clone);
	tcp_link_close(&other);
	rig_close(&r);
}

/* A message of @len bytes over a connection with this limit and 16384 bytes of SO_RCVBUF. */
static void max_message(uint32_t limit, size_t len, bool fits)
{
	struct link l = tcp_link(HERE, AF_INET);
	struct rig r = { kcm_socket(HERE, SOCK_DGRAM), l.near, l.far };

	NEED(set_int(r.tcp, SOL_SOCKET, SO_RCVBUF, 8192) == 0 && set_int(r.kcm, SOL_KCM, KCM_MAX_MESSAGE, limit) == 0);
	EXPECT_EQ(get_int(r.kcm, SOL_KCM, KCM_MAX_MESSAGE), limit, "KCM_MAX_MESSAGE: %u is read back", limit);
	NEED(kcm_attach(r.kcm, r.tcp, parser_framed()) == 0);
	if (fits) {
		peer_send_frame(r.peer, len, 1);
		check(kcm_takes(r.kcm, len, 1), "KCM_MAX_MESSAGE: %u, a message of %zu bytes", limit, len);
	} else {
		uint32_t header = htonl(len - FRAME_HEADER);

		peer_send(r.peer, &header, sizeof(header));
		EXPECT_EQ(sock_error_soon(r.tcp), EMSGSIZE, "KCM_MAX_MESSAGE: %u, a message of %zu bytes", limit, len);
	}
	rig_close(&r);
}

static void max_message_later(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());

	NEED(set_int(r.kcm, SOL_KCM, KCM_MAX_MESSAGE, 50) == 0);
	peer_send_frame(r.peer, MEDIUM, 1);
	check(kcm_takes(r.kcm, MEDIUM, 1), "KCM_MAX_MESSAGE: attached connections keep their limit");
	rig_close(&r);
}

static void steering_option(void)
{
	int fd = kcm_socket(HERE, SOCK_DGRAM), clone = kcm_clone(fd);
	static const int wrong[] = { 3, -1, 1000 };

	for (int way = KCM_STEER_CPU; way >= KCM_STEER_ROUND_ROBIN; way--) {
		EXPECT_OK(set_int(fd, SOL_KCM, KCM_STEERING, way), "KCM_STEERING: %d", way);
		EXPECT_EQ(get_int(clone, SOL_KCM, KCM_STEERING), way, "KCM_STEERING: %d is the multiplexor's", way);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_ERRNO(set_int(fd, SOL_KCM, KCM_STEERING, wrong[i]), EINVAL, "KCM_STEERING: %d is refused", wrong[i]);
	close(clone);
	close(fd);
}

static void least_loaded(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm), idle, right = 0;

	NEED(set_int(r.kcm, SOL_KCM, KCM_STEERING, KCM_STEER_LEAST_LOADED) == 0);
	peer_send_frame(r.peer, 10000, 1);
	NEED(WAIT_UNTIL(SOON_MS, polled(r.kcm, POLLIN, 0) || polled(clone, POLLIN, 0)));
	idle = polled(r.kcm, POLLIN, 0) ? clone : r.kcm;
	for (int i = 0; i < 5; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	for (int i = 0; i < 5; i++)
		right += kcm_takes(idle, MEDIUM, i);
	EXPECT_EQ(right, 5, "KCM_STEERING: the socket with least to read gets the next message");
	close(clone);
	rig_close(&r);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu < 0)
		memset(&set, 0xff, sizeof(set));
	else
		CPU_SET(cpu, &set);
	NEED(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* On loopback a message arrives on the CPU that sent it. */
static void by_cpu(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int kcm[2] = { r.kcm, kcm_clone(r.kcm) }, right = 0;

	NEED(set_int(r.kcm, SOL_KCM, KCM_STEERING, KCM_STEER_CPU) == 0);
	for (int cpu = 0; cpu < 2; cpu++) {
		run_on(cpu);
		NEED(kcm_disable(kcm[!cpu], 1) == 0);
		peer_send_frame(r.peer, MEDIUM, cpu);
		NEED(kcm_takes(kcm[cpu], MEDIUM, cpu));
		NEED(kcm_disable(kcm[!cpu], 0) == 0);
	}
	for (int i = 0; i < 20; i++) {
		run_on(i % 2);
		peer_send_frame(r.peer, MEDIUM, i);
		nap_us(2000);
		right += polled(kcm[i % 2], POLLIN, SOON_MS) && kcm_takes(kcm[i % 2], MEDIUM, i);
	}
	run_on(-1);
	EXPECT_EQ(right, 20, "KCM_STEERING: the CPU of the message is the CPU of the socket");
	close(kcm[1]);
	rig_close(&r);
}

static const struct kcm_connection_stats *stats_of(int kcm, size_t *count)
{
	static struct kcm_connection_stats stats[4];
	socklen_t len = sizeof(stats);

	memset(stats, 0xee, sizeof(stats));
	NEED(getsockopt(kcm, SOL_KCM, KCM_STATS, stats, &len) == 0);
	*count = len / sizeof(stats[0]);
	NEED(len % sizeof(stats[0]) == 0);
	return stats;
}

static bool endpoint_is(const struct addr *a, const uint8_t *address, uint16_t port)
{
	uint8_t want[16] = { 0 };

	want[10] = want[11] = 0xff;
	memcpy(want + 12, &a->in4.sin_addr, 4);
	return !memcmp(address, want, 16) && port == addr_port(a);
}

static void stats(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct addr near = addr_of(r.tcp), far = addr_of(r.peer);
	const struct kcm_connection_stats *s;
	struct link other;
	uint64_t id;
	size_t count;

	EXPECT_ERRNO(set_int(r.kcm, SOL_KCM, KCM_STATS, 1), ENOPROTOOPT, "KCM_STATS: cannot be set");
	NEED(set_int(r.kcm, SOL_KCM, KCM_RECV_CONNECTION, 1) == 0);
	id = name_of(&r, r.peer);
	NEED(kcm_sends(r.kcm, 64, 1) && peer_takes(r.peer, 64, 1));
	peer_send(r.peer, "\0\0", 2);
	NEED(stays_quiet(r.kcm));
	s = stats_of(r.kcm, &count);
	EXPECT_EQ(count, 1, "KCM_STATS: one for each connection");
	check(s->id == id, "KCM_STATS: id");
	check(s->rx_msgs == 1 && s->rx_bytes == MEDIUM, "KCM_STATS: received messages");
	check(s->tx_msgs == 1 && s->tx_bytes == 64 && s->tx_reserved == 1, "KCM_STATS: sent messages");
	EXPECT_EQ(s->rx_partial, 2, "KCM_STATS: bytes of a partial message");
	check(s->state == 0 && s->error == 0, "KCM_STATS: no state, no error");
	check(endpoint_is(&near, s->local_addr, s->local_port), "KCM_STATS: the own end");
	check(endpoint_is(&far, s->remote_addr, s->remote_port), "KCM_STATS: the other end");
	other = rig_link(&r, parser_framed());
	stats_of(r.kcm, &count);
	EXPECT_EQ(count, 2, "KCM_STATS: two for two");
	NEED(kcm_unattach(r.kcm, other.near) == 0 && shutdown(r.peer, SHUT_WR) == 0);
	NEED(sock_error_soon(r.tcp) == EPIPE);
	s = stats_of(r.kcm, &count);
	check(count == 1 && s->error == EPIPE && s->state & KCM_CONN_RX_STOPPED, "KCM_STATS: a connection that has ended");
	tcp_link_close(&other);
	rig_close(&r);
}

static void stats_paused(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	size_t count;

	NEED(kcm_disable(r.kcm, 1) == 0);
	peer_send_frame(r.peer, MEDIUM, 1);
	check(WAIT_UNTIL(SOON_MS, stats_of(r.kcm, &count)->state == KCM_CONN_PAUSED),
	      "KCM_STATS: a connection that waits for a socket with room");
	rig_close(&r);
}

void api_new(void)
{
	if (ktap_suite() == SUITE_KERNEL) {
		absent();
		return;
	}
	four_bytes(KCM_ERRORS, "KCM_ERRORS");
	four_bytes(KCM_RECV_CONNECTION, "KCM_RECV_CONNECTION");
	four_bytes(KCM_MAX_MESSAGE, "KCM_MAX_MESSAGE");
	four_bytes(KCM_STEERING, "KCM_STEERING");
	four_bytes(KCM_RECV_LENGTHS, "KCM_RECV_LENGTHS");
	errors();
	for (size_t i = 0; i < TYPES; i++) {
		receiving(&types[i]);
		sending(&types[i]);
	}
	by_a_clone();
	max_message(200, 200, true);
	max_message(200, 201, false);
	max_message(100000, 100000, true);
	max_message(100000, 100001, false);
	max_message_later();
	steering_option();
	least_loaded();
	by_cpu();
	stats();
	stats_paused();
}
