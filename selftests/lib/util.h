/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for every test program: time limits, seeded randomness, content that can be checked, bad memory. */
#ifndef SELFTESTS_LIB_UTIL_H
#define SELFTESTS_LIB_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Time limit for an immediate event in an emulated, busy machine. */
#define SOON_MS stretched(10000)

/** stretched - a time limit multiplied by $TIME_SCALE (LAB_TIME_SCALE of the lab) */
int stretched(int ms);

int64_t now_us(void);
int64_t now_ms(void);
void nap_us(unsigned int us);

/* Poll @cond until it holds or @ms have passed; the last check is after the deadline. Gives the result. */
#define WAIT_UNTIL(ms, cond)                            \
	({                                              \
		int64_t until_ = now_ms() + (ms);       \
		bool late_ = false, seen_;              \
		while (!(seen_ = !!(cond)) && !late_) { \
			late_ = now_ms() >= until_;     \
			nap_us(1000);                   \
		}                                       \
		seen_;                                  \
	})

struct random {
	uint64_t state;
};

uint64_t random_next(struct random *r);
/** random_below - nearly uniform in [0, @bound) */
uint64_t random_below(struct random *r, uint64_t bound);

/** pattern_fill - content that depends on @seed and on every position */
void pattern_fill(void *buf, size_t len, uint64_t seed);
bool pattern_matches(const void *buf, size_t len, uint64_t seed);
uint32_t crc32_of(const void *buf, size_t len);

/** bad_pointer - an address in user space where nothing is mapped */
void *bad_pointer(void);
/** kernel_pointer - an address that no program may pass */
void *kernel_pointer(void);
/** before_hole - @len usable bytes that end exactly where an unmapped page begins */
void *before_hole(size_t len);
/** read_only_page - a page that cannot be written */
void *read_only_page(void);

/** read_file - the file's text without the last newline, false when it cannot be read */
bool read_file(const char *path, char *buf, size_t size);
/** write_file - 0 or -1 with the errno of the write */
int write_file(const char *path, const char *text);

#endif
