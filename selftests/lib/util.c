// SPDX-License-Identifier: GPL-2.0
#include "util.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ktap.h"

#define PAGE 4096

int64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

int stretched(int ms)
{
	static double scale;

	if (!scale)
		scale = getenv("TIME_SCALE") ? atof(getenv("TIME_SCALE")) : 1;
	return scale > 1 ? (int)(ms * scale) : ms;
}

int64_t now_ms(void)
{
	return now_us() / 1000;
}

void nap_us(unsigned int us)
{
	struct timespec ts = { us / 1000000, (us % 1000000) * 1000L };

	nanosleep(&ts, NULL);
}

/* splitmix64: any seed is good, and one number is enough to replay a run. */
uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t random_below(struct random *r, uint64_t bound)
{
	return random_next(r) % bound;
}

static uint64_t pattern_word(uint64_t seed, size_t index)
{
	struct random r = { seed + index };

	return random_next(&r);
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *out = buf;

	for (size_t i = 0; i * 8 < len; i++) {
		uint64_t word = pattern_word(seed, i);

		memcpy(out + i * 8, &word, len - i * 8 < 8 ? len - i * 8 : 8);
	}
}

bool pattern_matches(const void *buf, size_t len, uint64_t seed)
{
	const uint8_t *in = buf;

	for (size_t i = 0; i * 8 < len; i++) {
		uint64_t word = pattern_word(seed, i);

		if (memcmp(in + i * 8, &word, len - i * 8 < 8 ? len - i * 8 : 8)) {
			note("content differs within bytes %zu to %zu of %zu", i * 8, i * 8 + 7, len);
			return false;
		}
	}
	return true;
}

uint32_t crc32_of(const void *buf, size_t len)
{
	static uint32_t table[256];
	const uint8_t *in = buf;
	uint32_t crc = ~0u;

	if (!table[1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 8; bit++)
				c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
			table[i] = c;
		}
	}
	while (len--)
		crc = table[(crc ^ *in++) & 0xff] ^ (crc >> 8);
	return ~crc;
}

static void *map(size_t len, int protection)
{
	void *p = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED);
	return p;
}

void *bad_pointer(void)
{
	static void *hole;

	if (!hole)
		hole = map(PAGE, PROT_NONE);
	return hole;
}

void *kernel_pointer(void)
{
	return (void *)0xffff888000001000UL;
}

void *before_hole(size_t len)
{
	size_t room = (len + PAGE - 1) / PAGE * PAGE;
	char *p = map(room + PAGE, PROT_READ | PROT_WRITE);

	NEED(mprotect(p + room, PAGE, PROT_NONE) == 0);
	return p + room - len;
}

void *read_only_page(void)
{
	static void *page;

	if (!page)
		page = map(PAGE, PROT_READ);
	return page;
}

bool read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return false;
	if (n && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return true;
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int saved;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	saved = errno;
	close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}
