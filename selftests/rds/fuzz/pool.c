// SPDX-License-Identifier: GPL-2.0
/* The sockets shared by all callers. A slot's descriptor number is reserved, and survives close and reopen. */
#include "fuzz.h"

#include <fcntl.h>
#include <sched.h>

#define SLOTS 12
#define FIRST_SLOT 500

static struct {
	int home;
	bool six;
	struct addr place; /* its bound address, if any */
} slots[SLOTS];
static int origin; /* the first namespace */

static int slot_fd(int slot)
{
	return FIRST_SLOT + slot;
}

void pool_close(void)
{
	for (int i = 0; i < SLOTS; i++)
		close(slot_fd(i));
}

struct shared some_socket(struct caller *c)
{
	int slot = pick(c, SLOTS);

	return (struct shared){ slot_fd(slot), slots[slot].home, slots[slot].six };
}

struct addr some_target(struct caller *c, struct shared s)
{
	for (int tries = 0; tries < 6 && !chance(c, 8); tries++) {
		int slot = pick(c, SLOTS);

		if (reachable(s.home, slots[slot].home) && s.six == slots[slot].six)
			return slots[slot].place;
	}
	return far_place(c, s.home, chance(c, 16) ? !s.six : s.six);
}

void pool_evict(uint64_t cookie)
{
	for (int i = 0; i < SLOTS; i++)
		if (cookie_of(slot_fd(i)) == cookie)
			close(slot_fd(i));
}

/* socket() in @home, unless that was removed. */
static int socket_at(struct caller *c, int home, int flags)
{
	int ns = home_ns(home), fd, error;

	if (ns != HERE && setns(ns, CLONE_NEWNET) != 0) {
		errno = ENONET;
		return -1;
	}
	fd = CALL(c, K_SOCKET, socket(AF_RDS, SOCK_SEQPACKET | flags, 0));
	error = errno;
	if (ns != HERE)
		NEED(setns(origin, CLONE_NEWNET) == 0);
	errno = error;
	return fd;
}

/* Settings without which most calls would fail early; later calls change them again. */
static void prepare(struct caller *c, int fd, int home, const struct addr *place)
{
	struct timeval soon = { 0, 1000 + pick(c, 10000) };
	bool six = place->sa.sa_family == AF_INET6;

	if (!chance(c, 4))
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	if (!chance(c, 4))
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, chance(c, 2));
	set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4608 << pick(c, 10));
	set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, chance(c, 2) ? 4096 : 4608 << pick(c, 10));
	set_int(fd, SOL_RDS, RDS_CONG_MONITOR, !chance(c, 4));
	if (chance(c, 4)) {
		int transport = chance(c, 4) ? RDS_TRANS_IB : RDS_TRANS_TCP;

		CALL(c, K_TRANSPORT, setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &transport, sizeof(transport)));
	}
	if (!chance(c, 16))
		CALL(c, K_BIND, bind(fd, &place->sa, place->len));
	if (chance(c, 2)) {
		struct addr far = some_target(c, (struct shared){ fd, home, six });

		CALL(c, K_CONNECT, connect(fd, &far.sa, far.len));
	}
}

/* The slot's old socket is closed while other threads use it. */
static void replace(struct caller *c, int slot)
{
	int home = chance(c, 6) ? AT_DOOMED : (int)pick(c, AT_DOOMED), fd;
	bool six = chance(c, 2), visible = chance(c, 2);
	struct addr place = own_place(c, home, six);

	fd = socket_at(c, home, (chance(c, 4) ? SOCK_NONBLOCK : 0) | (chance(c, 4) ? SOCK_CLOEXEC : 0));
	if (fd < 0)
		return;
	/* Prepared before others use it, or at the same time. */
	if (!visible)
		prepare(c, fd, home, &place);
	slots[slot].home = home;
	slots[slot].six = six;
	slots[slot].place = place;
	CALL(c, K_DUP, dup2(fd, slot_fd(slot)));
	if (visible)
		prepare(c, fd, home, &place);
	CALL(c, K_CLOSE, close(fd));
}

void pool_open(struct caller *c)
{
	origin = netns_self();
	for (int i = 0; i < SLOTS; i++)
		replace(c, i);
}

void call_socket(struct caller *c)
{
	int from = pick(c, SLOTS), to = pick(c, SLOTS), both[2], fd;

	switch (pick(c, 12)) {
	case 0:
		if (chance(c, 3))
			CALL(c, K_CLOSE, close(slot_fd(from)));
		return;
	case 1: /* two slots with one socket */
		CALL(c, K_DUP, dup2(slot_fd(from), slot_fd(to)));
		slots[to] = slots[from];
		return;
	case 2:
		fd = CALL(c, K_SOCKET_OTHER, socket(AF_RDS, chance(c, 2) ? SOCK_DGRAM : 6 + pick(c, 5), pick(c, 3)));
		if (fd >= 0)
			close(fd);
		fd = CALL(c, K_SOCKET_OTHER, socket(AF_RDS, SOCK_SEQPACKET, 1 + pick(c, 1000)));
		if (fd >= 0)
			close(fd);
		return;
	case 3:
		CALL(c, K_SOCKETPAIR, socketpair(AF_RDS, SOCK_SEQPACKET, 0, both));
		return;
	default:
		replace(c, from);
	}
}

void call_names(struct caller *c)
{
	struct shared s = some_socket(c);
	struct addr a = own_place(c, s.home, s.six);
	char name[256];
	socklen_t len = odd_length(c, sizeof(a.in6));

	switch (pick(c, 7)) {
	case 0:
		CALL(c, K_BIND, bind(s.fd, &a.sa, a.len));
		return;
	case 1:
		a = odd_place(c);
		CALL(c, K_BIND_ODD, bind(s.fd, &a.sa, a.len));
		return;
	case 2:
	case 3:
		a = some_target(c, s);
		CALL(c, K_CONNECT, connect(s.fd, &a.sa, a.len));
		return;
	case 4:
		a = odd_place(c);
		CALL(c, K_CONNECT_ODD, connect(s.fd, &a.sa, a.len));
		return;
	case 5:
		if (CALL(c, K_GETSOCKNAME, getsockname(s.fd, (struct sockaddr *)name, &len)) == 0 && len > 28)
			wrong(c, "length of a name", len, 28);
		return;
	default:
		if (CALL(c, K_GETPEERNAME, getpeername(s.fd, (struct sockaddr *)name, &len)) == 0 && len > 28)
			wrong(c, "length of a name", len, 28);
	}
}
