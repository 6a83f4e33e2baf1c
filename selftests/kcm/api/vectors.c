// SPDX-License-Identifier: GPL-2.0
/* The same messages by read(), write(), and calls that take several buffers or messages. */
#include "api.h"

#include <sys/uio.h>

static void scattered(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	char frame[MEDIUM], parts[3][50];
	struct iovec out[] = { { frame, 3 }, { frame + 3, 0 }, { frame + 3, 60 }, { frame + 63, MEDIUM - 63 } };
	struct iovec in[] = { { parts[0], 10 }, { parts[1], 50 }, { parts[2], 50 } };

	frame_fill(frame, MEDIUM, 1);
	EXPECT_EQ(writev(r.kcm, out, ARRAY_SIZE(out)), MEDIUM, "writev: %s", type->name);
	check(peer_takes(r.peer, MEDIUM, 1), "writev: makes one message, %s", type->name);
	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(readv(r.kcm, in, ARRAY_SIZE(in)), MEDIUM, "readv: %s", type->name);
	check(!memcmp(parts[0], frame, 10) && !memcmp(parts[1], frame + 10, 50) &&
		      !memcmp(parts[2], frame + 60, MEDIUM - 60),
	      "readv: fills one buffer after the other, %s", type->name);
	EXPECT_EQ(write(r.kcm, frame, MEDIUM), MEDIUM, "write: %s", type->name);
	check(peer_takes(r.peer, MEDIUM, 1), "write: makes a message, %s", type->name);
	peer_send_frame(r.peer, MEDIUM, 2);
	check(frame_is(buf, read(r.kcm, buf, sizeof(buf)), MEDIUM, 2), "read: %s", type->name);
	rig_close(&r);
}

static void several(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	char in[4][MEDIUM + 10];
	struct iovec io[4];
	struct mmsghdr m[4] = { 0 };
	bool right = true;

	for (int i = 0; i < 3; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		nap_us(20000);
	}
	for (int i = 0; i < 4; i++) {
		io[i] = (struct iovec){ in[i], sizeof(in[i]) };
		m[i].msg_hdr.msg_iov = &io[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	EXPECT_EQ(recvmmsg(r.kcm, m, 4, MSG_DONTWAIT, NULL), 3, "recvmmsg: three messages that are there, %s",
		  type->name);
	for (int i = 0; i < 3; i++)
		right = right && frame_is(in[i], m[i].msg_len, MEDIUM, i) && m[i].msg_hdr.msg_flags == MSG_EOR;
	check(right, "recvmmsg: each with its content and MSG_EOR, %s", type->name);
	peer_send_frame(r.peer, MEDIUM, 4);
	EXPECT_EQ(recvmmsg(r.kcm, m, 4, MSG_WAITFORONE, NULL), 1, "recvmmsg: MSG_WAITFORONE, %s", type->name);
	rig_close(&r);
}

void api_vectors(void)
{
	for (size_t i = 0; i < TYPES; i++) {
		scattered(&types[i]);
		several(&types[i]);
	}
}
