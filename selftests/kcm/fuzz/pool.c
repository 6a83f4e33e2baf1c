// SPDX-License-Identifier: GPL-2.0
/* The descriptors that all callers share. */
#include "fuzz.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>

static const struct {
	int first, slots;
} pools[POOLS] = {
	[WILD] = { 500, 6 }, [DGRAM] = { 510, 4 }, [SEQPACKET] = { 520, 3 },
	[NEAR] = { 530, 5 }, [FAR] = { 540, 5 },   [POLITE_NEAR] = { 550, 6 },
};

int some(struct caller *c, enum pool pool)
{
	return pools[pool].first + (int)pick(c, pools[pool].slots);
}

struct shared some_kcm(struct caller *c)
{
	static const enum pool likely[] = { WILD, WILD, DGRAM, DGRAM, SEQPACKET };
	enum pool pool = ANY_OF(c, likely);

	return (struct shared){ some(c, pool), pool, pool != WILD };
}

int any_descriptor(struct caller *c)
{
	static const int none[] = { -1, 999, 0x7fffffff, -0x7fffffff };

	switch (pick(c, 4)) {
	case 0:
		return some(c, NEAR);
	case 1:
		return some(c, FAR);
	case 2:
		return some_kcm(c).fd;
	default:
		return ANY_OF(c, none);
	}
}

void into(struct caller *c, enum pool pool, int fd)
{
	CALL(c, K_DUP, dup2(fd, some(c, pool)));
	CALL(c, K_CLOSE, close(fd));
}

void pool_close(void)
{
	for (int p = 0; p < POOLS; p++)
		for (int i = 0; i < pools[p].slots; i++)
			close(pools[p].first + i);
}

static void evict(enum pool pool, uint64_t cookie, bool all)
{
	for (int i = 0; i < pools[pool].slots; i++)
		if (all || cookie_of(pools[pool].first + i) == cookie)
			close(pools[pool].first + i);
}

void pool_evict(uint64_t cookie, bool all)
{
	evict(NEAR, cookie, false);
	evict(FAR, cookie, false);
	evict(WILD, cookie, all);
}

/* ---- sockets */

static int type_of(struct caller *c, enum pool pool)
{
	if (pool == WILD)
		return chance(c, 2) ? SOCK_DGRAM : SOCK_SEQPACKET;
	return pool == DGRAM ? SOCK_DGRAM : SOCK_SEQPACKET;
}

static int clone_of(struct caller *c, int kcm)
{
	return CALL(c, K_CLONE, kcm_clone(kcm));
}

/* Settings without which most calls would wait for long; later calls change them again. */
static void prepare(struct caller *c, struct shared s)
{
	struct timeval soon = { 0, 1000 + pick(c, 10000) };

	if (!chance(c, 4))
		setsockopt(s.fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	if (!chance(c, 4))
		setsockopt(s.fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	if (chance(c, 4))
		set_int(s.fd, SOL_SOCKET, SO_SNDBUF, 4608 << pick(c, 8));
	if (chance(c, 4))
		set_int(s.fd, SOL_SOCKET, SO_RCVBUF, 4608 << pick(c, 8));
	if (chance(c, 2))
		set_int(s.fd, SOL_KCM, KCM_RECV_CONNECTION, 1);
}

/* Another socket of a multiplexor, or the first one of a new one. */
static void renew(struct caller *c, enum pool pool)
{
	int flags = (chance(c, 4) ? SOCK_NONBLOCK : 0) | (chance(c, 4) ? SOCK_CLOEXEC : 0), fd = -1;

	if (!chance(c, 3))
		fd = clone_of(c, some(c, pool));
	if (fd < 0)
		fd = CALL(c, K_SOCKET, socket(AF_KCM, type_of(c, pool) | flags, KCMPROTO_CONNECTED));
	if (fd < 0)
		return;
	prepare(c, (struct shared){ fd, pool, pool != WILD });
	for (int i = pick(c, 4); i > 0; i--)
		attach(c, (struct shared){ fd, pool, pool != WILD });
	into(c, pool, fd);
}

static void other_types(struct caller *c)
{
	int fd = CALL(c, K_SOCKET_OTHER, socket(AF_KCM, chance(c, 2) ? SOCK_STREAM : 6 + pick(c, 5), pick(c, 3))), both[2];

	if (fd >= 0)
		close(fd);
	fd = CALL(c, K_SOCKET_OTHER, socket(AF_KCM, SOCK_DGRAM, 1 + pick(c, 1000)));
	if (fd >= 0)
		close(fd);
	CALL(c, K_SOCKETPAIR, socketpair(AF_KCM, SOCK_DGRAM, 0, both));
}

void call_socket(struct caller *c)
{
	struct shared s = some_kcm(c);
	void *where[] = { bad_pointer(), kernel_pointer(), read_only_page(), NULL };

	switch (pick(c, 12)) {
	case 0:
		if (chance(c, 3))
			CALL(c, K_CLOSE, close(s.fd));
		return;
	case 1: /* two slots with one socket */
		CALL(c, K_DUP, dup2(s.fd, some(c, s.pool)));
		return;
	case 2:
		return other_types(c);
	case 3:
		CALL(c, K_CLONE_BAD, ioctl(s.fd, SIOCKCMCLONE, ANY_OF(c, where)));
		return;
	default:
		return renew(c, s.pool);
	}
}

/* ---- connections */

struct link make_link(struct caller *c, int ns)
{
	sigset_t all, before;
	struct link l;

	/* connect() and accept() are the test's own here. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	l = tcp_link(ns, chance(c, 2) ? AF_INET : AF_INET6);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (chance(c, 3))
		set_int(l.near, SOL_SOCKET, SO_RCVBUF, 2304 << pick(c, 8));
	if (chance(c, 3))
		set_int(l.near, SOL_SOCKET, SO_SNDBUF, 4608 << pick(c, 8));
	return l;
}

void call_connection(struct caller *c)
{
	struct link l;

	switch (pick(c, 8)) {
	case 0: /* closed while in use, and still attached */
		if (chance(c, 2))
			CALL(c, K_CLOSE, close(chance(c, 2) ? some(c, NEAR) : some(c, POLITE_NEAR)));
		return;
	case 1:
		CALL(c, K_DUP, dup2(some(c, NEAR), some(c, NEAR)));
		return;
	default:
		l = make_link(c, HERE);
		into(c, NEAR, l.near);
		/* Attached at both ends, so that multiplexors exchange messages. */
		into(c, chance(c, 5) ? NEAR : FAR, l.far);
	}
}

void pool_open(struct caller *c)
{
	frames_open();
	programs_open();
	for (int i = 0; i < 12; i++)
		call_connection(c);
	for (int p = WILD; p <= SEQPACKET; p++)
		for (int i = 0; i < 8; i++)
			renew(c, p);
}
