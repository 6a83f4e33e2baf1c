// SPDX-License-Identifier: GPL-2.0
/* setsockopt and getsockopt of KCM sockets. */
#include "fuzz.h"

static void set(struct caller *c, int kind, int fd, int option, int value)
{
	int values[64] = { value };

	CALL(c, kind, setsockopt(fd, SOL_KCM, option, values, odd_length(c, sizeof(value))));
}

/* Valid options with bad memory. */
static void bad_argument(struct caller *c, int fd)
{
	static const int options[] = { KCM_RECV_DISABLE, KCM_ERRORS, KCM_RECV_CONNECTION, KCM_MAX_MESSAGE, KCM_STEERING,
				       KCM_STATS, KCM_RECV_LENGTHS };
	size_t size = 200;
	void *where[] = { source(c, &size), bad_pointer(), kernel_pointer(), NULL };

	CALL(c, K_SET_BAD, setsockopt(fd, SOL_KCM, ANY_OF(c, options), ANY_OF(c, where),
				      chance(c, 2) ? (int)pick(c, 200) : (int)any_number(c)));
}

static void max_message(struct caller *c, int fd)
{
	/* Mostly off, or few messages would arrive. */
	set(c, K_MAX_MESSAGE, fd, KCM_MAX_MESSAGE,
	    chance(c, 3) ? (int)any_number(c) : (int)(pick(c, 2) * FRAME_MOST));
}

static void set_any(struct caller *c, struct shared s)
{
	int value = any_number(c);

	switch (pick(c, 15)) {
	case 0: /* only for a short time, or no socket receives */
		set(c, K_DISABLE, s.fd, KCM_RECV_DISABLE, 1);
		return set(c, K_DISABLE, s.fd, KCM_RECV_DISABLE, 0);
	case 1:
		return set(c, K_DISABLE, s.fd, KCM_RECV_DISABLE, chance(c, 8) ? value : 0);
	case 2:
		return set(c, K_ERRORS, s.fd, KCM_ERRORS, chance(c, 2) ? value : (int)pick(c, 2));
	case 3:
		return set(c, K_RECV_CONNECTION, s.fd, KCM_RECV_CONNECTION, chance(c, 2) ? value : 1);
	case 4:
		return max_message(c, s.fd);
	case 5:
		return set(c, K_STEERING, s.fd, KCM_STEERING, chance(c, 3) ? value : (int)pick(c, 3));
	case 6: /* unknown options, and one that cannot be set */
		return set(c, K_SET_OTHER, s.fd,
			   chance(c, 2) ? 2 + (int)pick(c, 14) :
			   chance(c, 2) ? KCM_STATS : KCM_RECV_LENGTHS + 1 + (int)pick(c, 1 << 20), value);
	case 7:
		return bad_argument(c, s.fd);
	case 8:
		CALL(c, K_SET_LEVEL, setsockopt(s.fd, 2 + (int)pick(c, 270), (int)pick(c, 100), &value, sizeof(value)));
		return;
	case 9: /* a reader of the polite world expects one message in a call */
		if (!s.polite)
			set(c, K_RECV_LENGTHS, s.fd, KCM_RECV_LENGTHS, chance(c, 2) ? value : (int)pick(c, 2));
		return;
	default:
		return set_of_socket(c, K_SET_SOCKET, s.fd);
	}
}

/* The fields of each connection must be consistent. */
static void stats(struct caller *c, int fd)
{
	socklen_t room = chance(c, 2) ? LARGEST : any_size(c, 2000), len = room;
	const struct kcm_connection_stats *all = (void *)c->inbox;
	long ret;

	memset(c->inbox + room, CANARY_BYTE, CANARY);
	ret = CALL(c, K_GET_STATS, getsockopt(fd, SOL_KCM, KCM_STATS, c->inbox, &len));
	check_canary(c, room);
	if (ret < 0)
		return;
	if (len > room || len % sizeof(*all))
		wrong(c, "length of KCM_STATS", len, room);
	for (size_t i = 0; i < len / sizeof(*all); i++) {
		seen(c, K_GOT_STATS);
		if (all[i].state >= KCM_CONN_PAUSED << 1 || all[i].error < 0 || all[i].error >= 4096)
			wrong(c, "state or error of a connection", all[i].error, all[i].state);
	}
}

void call_option(struct caller *c)
{
	static const int options[] = { KCM_RECV_DISABLE, KCM_ERRORS, KCM_RECV_CONNECTION, KCM_MAX_MESSAGE, KCM_STEERING,
				       KCM_RECV_LENGTHS };
	struct shared s = some_kcm(c);

	if (!chance(c, 3))
		return set_any(c, s);
	switch (pick(c, 6)) {
	case 0:
		return get_any(c, K_GET_OTHER, s.fd, SOL_KCM,
			       chance(c, 2) ? 2 + (int)pick(c, 14) : 1 + KCM_RECV_LENGTHS + (int)pick(c, 1 << 20));
	case 1:
		return get_any(c, K_GET_STATS, s.fd, SOL_KCM, KCM_STATS);
	case 2:
	case 3:
		return stats(c, s.fd);
	case 4:
		return get_any(c, K_GET_SOCKET, s.fd, SOL_SOCKET, chance(c, 3) ? SO_ERROR : 1 + (int)pick(c, 84));
	default:
		return get_any(c, K_GET_OPTION, s.fd, SOL_KCM, ANY_OF(c, options));
	}
}
