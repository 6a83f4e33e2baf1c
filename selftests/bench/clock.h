/* SPDX-License-Identifier: GPL-2.0 */
/* The clocks of the benchmark programs. */
#ifndef SELFTESTS_BENCH_CLOCK_H
#define SELFTESTS_BENCH_CLOCK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Time that the processors of this machine slept. */
static inline uint64_t idle_ns(void)
{
	FILE *file = fopen("/proc/timer_list", "r");
	unsigned long long sum = 0, one;
	char line[256];

	if (!file) {
		perror("/proc/timer_list");
		exit(1);
	}
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " .idle_sleeptime : %llu", &one) == 1)
			sum += one;
	fclose(file);
	return sum;
}

/* For scripts/bench/plugin.c: no-ops that it recognises. */
#define MARK_BEGIN() asm volatile("nopl 0x01484157(%%rax)" ::: "memory")
#define MARK_END() asm volatile("nopl 0x02484157(%%rax)" ::: "memory")

#endif
