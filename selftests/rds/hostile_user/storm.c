// SPDX-License-Identifier: GPL-2.0
/*
 * Many threads that make any call on any of a few sockets, for some seconds. Results of calls are not
 * checked; but the machine must survive, and fresh sockets must work.
 */
#include "hostile.h"

#include <poll.h>
#include <sys/ioctl.h>

#define THREADS 6
#define SLOTS 8
#define SECONDS 6

static int slots[SLOTS];
static struct pair pair;
static int64_t until;
static unsigned long calls;

/* Addresses for bind() and for messages, also ones without a socket. */
static struct addr some_place(struct random *r)
{
	static const char *const texts[] = { "127.0.0.1", "::1",   HERE4,   HERE6,     PAIR_A4,
					     PAIR_B4,	  PAIR_A6, PAIR_B6, "0.0.0.0", "192.0.2.1" };

	return addr(texts[random_below(r, ARRAY_SIZE(texts))],
		    random_below(r, 4) ? 4900 + random_below(r, 6) : random_below(r, 3));
}

static void replace(struct random *r, int slot)
{
	int where[] = { HERE, pair.a, pair.b };
	int fd = rds_socket(where[random_below(r, 3)]);
	struct addr a = some_place(r);

	set_timeout_ms(fd, SO_SNDTIMEO, 5);
	set_timeout_ms(fd, SO_RCVTIMEO, 5);
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, random_below(r, 2));
	set_int(fd, SOL_SOCKET, SO_RCVBUF, random_below(r, 2) ? 5000 : 200000);
	rds_bind(fd, &a);
	/* The slot's old socket is closed while other threads use it. */
	dup2(fd, slots[slot]);
	close(fd);
}

static void any_send(struct random *r, int fd, char *memory)
{
	struct addr to = some_place(r);
	struct control c = { .len = 0 };
	uint32_t cookie = random_next(r);
	int flags = MSG_DONTWAIT;

	if (!random_below(r, 4)) {
		flags |= MSG_ZEROCOPY;
		control_add(&c, SOL_RDS, RDS_CMSG_ZCOPY_COOKIE, &cookie, sizeof(cookie));
	}
	send_control(fd, memory, random_below(r, 1UL << random_below(r, 17)),
			 random_below(r, 4) ? &to : NULL, &c, flags);
}

static void any_call(struct random *r, char *memory)
{
	int slot = random_below(r, SLOTS), fd = slots[slot];
	struct addr place = some_place(r);
	struct control c;
	socklen_t len = 65536;
	uint8_t tos = 1;

	switch (random_below(r, 16)) {
	case 0:
		return replace(r, slot);
	case 1:
		rds_connect(fd, &place);
		return;
	case 2:
		setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &place.sa, place.len);
		return;
	case 3:
		getsockopt(fd, SOL_RDS, RDS_INFO_FIRST + random_below(r, 18), memory, &len);
		return;
	case 4:
		set_int(fd, SOL_RDS, random_below(r, 2) ? RDS_CONG_MONITOR : RDS_RECVERR, random_below(r, 2));
		return;
	case 5:
		ioctl(fd, random_below(r, 2) ? SIOCRDSSETTOS : SIOCRDSGETTOS, &tos);
		return;
	case 6:
		polled(fd, POLLIN | POLLOUT, 1);
		return;
	case 7:
		getsockname(fd, &place.sa, &place.len);
		return;
	case 8:
	case 9:
	case 10:
		recv_control(fd, memory, random_below(r, 65536), &c,
				 MSG_DONTWAIT | (random_below(r, 4) ? 0 : MSG_PEEK), NULL);
		return;
	default:
		any_send(r, fd, memory);
	}
}

static void *run(void *arg)
{
	struct random r = { seed * 1000 + (uintptr_t)arg };
	char *memory = malloc(1 << 17);
	unsigned long made = 0;

	NEED(memory);
	memset(memory, 7, 1 << 17);
	while (now_ms() < until) {
		any_call(&r, memory);
		made++;
	}
	free(memory);
	__atomic_fetch_add(&calls, made, __ATOMIC_RELAXED);
	return NULL;
}

void user_storm(void)
{
	pthread_t threads[THREADS];

	pair = pair_new();
	for (int i = 0; i < SLOTS; i++)
		slots[i] = rds_socket(HERE);
	until = now_ms() + SECONDS * 1000;
	for (uintptr_t i = 0; i < THREADS; i++)
		NEED(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < SLOTS; i++)
		close(slots[i]);
	note("%lu calls", calls);
	check(calls > 1000, "storm: thousands of calls from %d threads", THREADS);
	pair_delete(&pair);
	check(all_is_well(), "storm: all is well afterwards");
}
