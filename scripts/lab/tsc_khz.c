// SPDX-License-Identifier: GPL-2.0
//
// Prints the frequency of this processor's time stamp counter in kHz.
//
// An emulated processor shows the host's counter, but a guest that measures it against emulated timers while
// the host is busy can be wrong by a factor; then its clock is wrong, and it reports stalls that never
// happened.

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { ROUNDS = 100, INTERVAL_MS = 100 };

struct point {
	uint64_t ticks, ns;
};

// Of many pairs of readings the closest one: it was not interrupted.
static struct point now(void)
{
	struct point best = { 0 };
	uint64_t narrowest = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		struct timespec time;
		uint64_t before = __rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC_RAW, &time);
		after = __rdtsc();
		if (after - before < narrowest) {
			narrowest = after - before;
			best.ticks = before + narrowest / 2;
			best.ns = time.tv_sec * 1000000000ull + time.tv_nsec;
		}
	}
	return best;
}

int main(void)
{
	struct timespec interval = { .tv_nsec = INTERVAL_MS * 1000000 };
	struct point begin = now(), end;

	nanosleep(&interval, NULL);
	end = now();
	printf("%.0f\n", (end.ticks - begin.ticks) * 1e6 / (end.ns - begin.ns));
	return 0;
}
