// SPDX-License-Identifier: GPL-2.0
#include "data.h"

/* Each with its neighbours: the header, a segment, pages with and without the header, TCP's largest chunk. */
static const size_t corners[] = {
	48,	    96,	   1400,   1448,   4096 - 48,	     4096,	 8192 - 48, 8192, 17 * 4096 - 48,
	65536 - 48, 65536, 131072, 524288, MAX_MESSAGE - 48, MAX_MESSAGE
};

void data_sizes(const struct lane *lane)
{
	struct ends e = ends_open(lane);
	struct random r = { 0x517e5 };
	bool small = true, near = true, any = true;

	room_for_big(e.tx);
	room_for_big(e.rx);
	for (size_t len = 0; small && len <= 130; len++)
		small = delivered(&e, len, len);
	check(small, "sizes: 0 to 130 bytes, %s", lane->name);
	for (size_t i = 0; near && i < ARRAY_SIZE(corners); i++)
		for (int off = -1; near && off <= 1; off++)
			if (corners[i] + off <= MAX_MESSAGE)
				near = delivered(&e, corners[i] + off, 1000 + i);
	check(near, "sizes: around headers, pages, 64 KiB and 1 MiB, %s", lane->name);
	for (int i = 0; any && i < 40; i++)
		/* Small ones and large ones equally often, on a logarithmic scale. */
		any = delivered(&e, random_below(&r, 1UL << random_below(&r, 21)), i);
	check(any, "sizes: at random, %s", lane->name);
	ends_close(&e);
}
