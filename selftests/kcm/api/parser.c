// SPDX-License-Identifier: GPL-2.0
/* A parser program's return values, and its input. */
#include "api.h"

#include <limits.h>

static struct rig constant(int value)
{
	int program = parser_constant(value);
	struct rig r = rig_open(SOCK_DGRAM, program);

	close(program);
	return r;
}

static void errors(void)
{
	static const struct {
		int value, error;
	} returned[] = {
		{ -1, EPERM },	       { -22, EINVAL },	   { -86, ESTRPIPE },
		{ 1000000, EMSGSIZE }, { INT_MAX, EMSGSIZE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(returned); i++) {
		struct rig r = constant(returned[i].value);

		peer_send(r.peer, "0123456789", 10);
		EXPECT_EQ(sock_error_soon(r.tcp), returned[i].error, "parser: %d is an error of TCP's",
			  returned[i].value);
		check(stays_quiet(r.kcm), "parser: %d delivers nothing", returned[i].value);
		rig_close(&r);
	}
}

static void waits(void)
{
	struct rig r = constant(0);

	peer_send(r.peer, "0123456789", 10);
	check(stays_quiet(r.kcm) && !sock_error(r.tcp), "parser: 0 waits for more");
	peer_send(r.peer, "0123456789", 10);
	check(stays_quiet(r.kcm) && !sock_error(r.tcp), "parser: and more");
	rig_close(&r);
}

static void lengths(void)
{
	static const char ten[] = "0123456789";

	for (int len = 1; len <= 3; len++) {
		struct rig r = constant(len);
		int count = 0;

		peer_send(r.peer, ten, 10);
		while (count < 10 / len && kcm_recv_soon(r.kcm, buf, sizeof(buf), NULL) == len &&
		       !memcmp(buf, ten + count * len, len))
			count++;
		EXPECT_EQ(count, 10 / len, "parser: messages of %d bytes", len);
		check(stays_quiet(r.kcm), "parser: and no part of one");
		rig_close(&r);
	}
}

static void two_hundred(void)
{
	struct rig r = constant(MEDIUM);
	bool right = true;

	for (int i = 0; i < 200; i++)
		peer_send_frame(r.peer, MEDIUM, i);
	for (int i = 0; right && i < 200; i++)
		right = kcm_takes(r.kcm, MEDIUM, i);
	check(right, "parser: 200 messages of a constant length in one go");
	rig_close(&r);
}

/* A length that contradicts earlier bytes. */
static void contradicting(void)
{
	static const struct bpf_insn code[] = {
		DO_COPY(PARSER_CONTEXT, BPF_REG_1),
		DO_LOAD(BPF_W, 16),
		DO_SET(BPF_REG_0, 5),
		DO_EXIT,
	};
	int program = parser_load(code, ARRAY_SIZE(code));
	struct rig r = rig_open(SOCK_DGRAM, program);

	close(program);
	peer_send(r.peer, "01234567", 8);
	check(stays_quiet(r.kcm) && !sock_error(r.tcp), "parser: reading beyond the received bytes waits for more");
	peer_send(r.peer, "89abcdefghij", 12);
	EXPECT_EQ(sock_error_soon(r.tcp), EPROTO, "parser: a length below the bytes that were not enough");
	rig_close(&r);
}

/* Several messages at a time, of different lengths, as every protocol has them. */
static void in_one_segment(void)
{
	static const size_t sizes[] = { 104, 34, 64 };
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	bool right;
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		frame_fill(buf + len, sizes[i], i);
		len += sizes[i];
	}
	peer_send(r.peer, buf, len);
	NEED(kcm_takes(r.kcm, sizes[0], 0));
	right = polled(r.kcm, POLLIN, ktap_suite() == SUITE_OURS ? SOON_MS : 100);
	for (size_t i = 1; right && i < ARRAY_SIZE(sizes); i++)
		right = kcm_takes(r.kcm, sizes[i], i);
	differs(right, "message-start", "parser: messages of different lengths in one segment");
	rig_close(&r);
}

/* A program's input begins with its own message; later bytes follow. */
static void sees_its_message(void)
{
	int program = parser_first_byte();
	struct rig r = rig_open(SOCK_DGRAM, program);
	bool right;

	close(program);
	peer_send(r.peer, "\2a\4bcd\1\3ef", 10);
	right = kcm_recv_soon(r.kcm, buf, 10, NULL) == 2 && polled(r.kcm, POLLIN, stretched(100)) &&
		kcm_recv_soon(r.kcm, buf, 10, NULL) == 4 && polled(r.kcm, POLLIN, stretched(100)) &&
		kcm_recv_soon(r.kcm, buf, 10, NULL) == 1 && polled(r.kcm, POLLIN, stretched(100)) &&
		kcm_recv_soon(r.kcm, buf, 10, NULL) == 3;
	differs(right && !memcmp(buf, "\3ef", 3), "message-start", "parser: the program sees its message from the start");
	rig_close(&r);
}

static void split_header(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	char frame[MEDIUM];

	for (size_t part = 1; part <= FRAME_HEADER + 1; part++) {
		frame_fill(frame, MEDIUM, part);
		peer_send(r.peer, frame, part);
		nap_us(20000);
		peer_send(r.peer, frame + part, MEDIUM - part);
		check(kcm_takes(r.kcm, MEDIUM, part), "parser: a message whose first %zu bytes come alone", part);
	}
	rig_close(&r);
}

void api_parser(void)
{
	errors();
	waits();
	lengths();
	two_hundred();
	contradicting();
	in_one_segment();
	sees_its_message();
	split_header();
}
