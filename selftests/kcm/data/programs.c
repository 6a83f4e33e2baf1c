// SPDX-License-Identifier: GPL-2.0
/* Any return value of a parser program: messages, nothing, or an error of TCP, and TCP is usable afterwards. */
#include "data.h"

#include <limits.h>

#define BYTES 1000
#define LAST_ERRNO EHWPOISON

static char pattern[BYTES];

/* Receives the sent data as consecutive messages of @len bytes. */
static bool splits(int kcm, size_t len)
{
	char buf[BYTES];

	for (size_t at = 0; at + len <= BYTES; at += len)
		if (kcm_recv_soon(kcm, buf, sizeof(buf), NULL) != (ssize_t)len || memcmp(buf, pattern + at, len))
			return false;
	return true;
}

/* An error that a call on a socket does not return for another reason. */
static bool is_plain(int error)
{
	return error > 0 && error <= LAST_ERRNO && error != EAGAIN && error != EINTR;
}

static void ends(struct rig *r, int value)
{
	int error = sock_error_soon(r->tcp);
	bool quiet = stays_quiet(r->kcm);

	if (value > 0 || (value >= -LAST_ERRNO && is_plain(-value)))
		check(error && quiet, "programs: %d is an error", value);
	else
		differs(is_plain(error) && quiet, "program-errno", "programs: %d becomes a standard errno", value);
}

static void returns(int value)
{
	int program = parser_constant(value);
	struct rig r = rig_open(SOCK_DGRAM, program);
	int limit = get_int(r.tcp, SOL_SOCKET, SO_RCVBUF);

	close(program);
	peer_send(r.peer, pattern, BYTES);
	if (value > 0 && value <= limit)
		check(splits(r.kcm, value) && !sock_error(r.tcp), "programs: %d gives messages of that length", value);
	else if (value == 0)
		check(stays_quiet(r.kcm) && !sock_error(r.tcp), "programs: 0 waits");
	else
		ends(&r, value);
	EXPECT_OK(kcm_unattach(r.kcm, r.tcp), "programs: after %d it can be unattached", value);
	check(send(r.tcp, "plain", 5, MSG_NOSIGNAL) == 5 && peer_reads(r.peer, (char[5]){ 0 }, 5) == 5,
	      "programs: after %d TCP is usable", value);
	rig_close(&r);
}

void data_programs(void)
{
	static const int values[] = { 0,    1,	   2,	   7,	  999,	  1000,	       1001,	  65536,       100000000,
				      -1,   -4,	   -11,	   -12,	   -22,	  -110,	  -133,	       -512,	  -4096,       -100000,
				      1 << 24, 1 << 30, INT_MAX, INT_MIN, INT_MIN + 1, INT_MAX - 3 };

	pattern_fill(pattern, BYTES, 1);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		returns(values[i]);
}
