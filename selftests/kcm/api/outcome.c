// SPDX-License-Identifier: GPL-2.0
#include "api.h"

struct outcome read_all(int peer, size_t len)
{
	struct outcome o = { 0 };
	int64_t until = now_ms() + SOON_MS;
	size_t have = 0;

	while (now_ms() < until && polled(peer, POLLIN, stretched(500))) {
		ssize_t n = recv(peer, buf + have, len - have, MSG_DONTWAIT);

		if (n < 0 && errno == ECONNRESET)
			o.broken = true;
		if (n <= 0)
			break;
		have += n;
		if (have == len && frame_is(buf, have, len, o.whole)) {
			o.whole++;
			have = 0;
		}
	}
	o.torso = have;
	return o;
}
