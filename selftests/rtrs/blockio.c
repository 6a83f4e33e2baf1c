// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs_blockio DEVICE [--seconds N] [--depth N] [--size BYTES] [--seed N] [--max-ms N] [--table FILE]
 *
 * Writes and reads a block device, past the page cache, and checks each byte that was read. Each of --depth threads has a part of
 * the device, and in it one write or read at a time, of any place and of any size up to --size. At the end all that was written
 * is read again. With --table the contents are known from one run to the next: what the file describes must be there.
 *
 * Fails when a byte is wrong, a call fails, or one takes longer than --max-ms. Says when, in seconds since boot as the kernel's
 * log, and how long this machine stood still meanwhile, which may be the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SECTOR 512
#define MAX_DEPTH 256
#define LEAST 8 /* that each thread does, however slow they are */
#define PAUSE_NS 20000000

static const char *device, *table_file;
static unsigned seconds = 3, depth = 1, size_max = 65536;
static uint64_t seed = 1, max_ms = 60000;

static int disk;
static uint64_t sectors;
static uint32_t *generations; /* of each sector: how often it was written; 0: never */
static atomic_uint_fast64_t writes, reads, bytes, longest_ns;
static atomic_uint faults;
static atomic_bool over;
static uint64_t still_ns, still_at_ns; /* the longest time for which this machine did nothing, and its end */

struct part {
	pthread_t thread;
	uint64_t first, count; /* sectors */
	uint64_t random;
	unsigned char *buffer;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9;
	return x ^ x >> 32;
}

static uint64_t next_random(struct part *part)
{
	part->random += 0x9e3779b97f4a7c15;
	return mix(part->random);
}

static uint64_t word_of(uint64_t sector, uint32_t generation, unsigned place)
{
	return mix(seed << 40 ^ sector << 8 ^ place) + generation;
}

static void fault(const char *what, uint64_t sector, const char *more)
{
	uint64_t ms = now_ns() / 1000000;

	if (atomic_fetch_add(&faults, 1) < 10)
		printf("%s at sector %" PRIu64 ": %s, at %" PRIu64 ".%03" PRIu64 " s\n", what, sector, more, ms / 1000,
		       ms % 1000);
}

static void *watch_clock(void *unused)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t before = now_ns(), now;

	for (; !atomic_load(&over); before = now) {
		nanosleep(&pause, NULL);
		now = now_ns();
		if (now - before < still_ns + PAUSE_NS)
			continue;
		still_ns = now - before - PAUSE_NS;
		still_at_ns = now;
	}
	return unused;
}

static void fill(unsigned char *buffer, uint64_t sector, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t words[SECTOR / 8];

		for (unsigned w = 0; w < SECTOR / 8; w++)
			words[w] = word_of(sector + i, generations[sector + i], w);
		memcpy(buffer + i * SECTOR, words, SECTOR);
	}
}

static void check(const unsigned char *buffer, uint64_t sector, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t generation = generations[sector + i];
		uint64_t words[SECTOR / 8];
		char more[120];

		if (!generation)
			continue;
		memcpy(words, buffer + i * SECTOR, SECTOR);
		for (unsigned w = 0; w < SECTOR / 8; w++) {
			uint64_t wanted = word_of(sector + i, generation, w);

			if (words[w] == wanted)
				continue;
			snprintf(more, sizeof(more), "word %u is %#" PRIx64 ", and %#" PRIx64 " (write %u) was written", w,
				 words[w], wanted, generation);
			fault("wrong data", sector + i, more);
			break;
		}
	}
}

/* One call, and how long it took. */
static bool transfer(bool write, unsigned char *buffer, uint64_t sector, unsigned count)
{
	uint64_t begun = now_ns(), taken, before;
	size_t size = (size_t)count * SECTOR;
	ssize_t done = write ? pwrite(disk, buffer, size, (off_t)(sector * SECTOR)) :
			       pread(disk, buffer, size, (off_t)(sector * SECTOR));
	int error = errno;

	taken = now_ns() - begun;
	before = atomic_load(&longest_ns);
	while (taken > before && !atomic_compare_exchange_weak(&longest_ns, &before, taken))
		;
	if (done != (ssize_t)size) {
		fault(write ? "write" : "read", sector, done < 0 ? strerror(error) : "short");
		return false;
	}
	atomic_fetch_add(write ? &writes : &reads, 1);
	atomic_fetch_add(&bytes, size);
	return true;
}

static void one_io(struct part *part)
{
	uint64_t random = next_random(part);
	uint64_t limit = size_max / SECTOR < part->count ? size_max / SECTOR : part->count;
	unsigned count = 1 + (unsigned)((random >> 8) % limit);
	uint64_t sector = part->first + (random >> 24) % (part->count - count + 1);

	/* Half of them whole pages at whole pages, as file systems do. */
	if (random & 2 && count >= 8 && part->count >= 16) {
		count -= count % 8;
		sector = (sector + 7) / 8 * 8;
		if (sector + count > part->first + part->count)
			sector -= 8;
	}
	if (random & 1) {
		for (unsigned i = 0; i < count; i++)
			generations[sector + i]++;
		fill(part->buffer, sector, count);
		if (!transfer(true, part->buffer, sector, count))
			memset(&generations[sector], 0, count * sizeof(*generations)); /* may have either content */
	} else if (transfer(false, part->buffer, sector, count)) {
		check(part->buffer, sector, count);
	}
}

static void check_all(struct part *part)
{
	uint64_t step = size_max / SECTOR;

	for (uint64_t sector = part->first; sector < part->first + part->count; sector += step) {
		uint64_t left = part->first + part->count - sector;
		unsigned count = (unsigned)(left < step ? left : step);
		bool any = false;

		for (unsigned i = 0; i < count; i++)
			any |= generations[sector + i] != 0;
		if (any && transfer(false, part->buffer, sector, count))
			check(part->buffer, sector, count);
	}
}

static void *work(void *argument)
{
	struct part *part = argument;
	uint64_t end;

	if (table_file)
		check_all(part);
	end = now_ns() + seconds * UINT64_C(1000000000);
	for (unsigned done = 0; (done < LEAST || now_ns() < end) && !atomic_load(&faults); done++)
		one_io(part);
	check_all(part);
	return NULL;
}

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void use_table(bool save)
{
	FILE *file = table_file ? fopen(table_file, save ? "w" : "r") : NULL;

	if (!file) {
		need(!save || !table_file, table_file);
		return;
	}
	need((save ? fwrite(generations, sizeof(*generations), sectors, file) :
		     fread(generations, sizeof(*generations), sectors, file)) == sectors, table_file);
	need(!fclose(file), table_file);
}

static void parse(int argc, char **argv)
{
	need(argc > 1 && argc % 2 == 0, "usage: rtrs_blockio DEVICE [--OPTION VALUE]...");
	device = argv[1];
	for (int i = 2; i < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--table"))
			table_file = argv[i + 1];
		else if (!strcmp(argv[i], "--seconds"))
			seconds = (unsigned)value;
		else if (!strcmp(argv[i], "--depth"))
			depth = (unsigned)value;
		else if (!strcmp(argv[i], "--size"))
			size_max = (unsigned)value;
		else if (!strcmp(argv[i], "--seed"))
			seed = value;
		else if (!strcmp(argv[i], "--max-ms"))
			max_ms = value;
		else
			need(false, argv[i]);
	}
	need(depth >= 1 && depth <= MAX_DEPTH && size_max >= SECTOR, "--depth or --size");
}

int main(int argc, char **argv)
{
	static struct part parts[MAX_DEPTH];
	uint64_t size = 0, longest;
	pthread_t watcher;

	parse(argc, argv);
	disk = open(device, O_RDWR | O_DIRECT);
	need(disk >= 0, device);
	need(!ioctl(disk, BLKGETSIZE64, &size), device);
	sectors = size / SECTOR;
	generations = calloc(sectors, sizeof(*generations));
	need(generations && sectors >= depth * 16, "the device's size");
	use_table(false);
	need(!pthread_create(&watcher, NULL, watch_clock, NULL), "a thread");
	for (unsigned i = 0; i < depth; i++) {
		struct part *part = &parts[i];

		part->count = sectors / depth / 8 * 8;
		part->first = part->count * i;
		part->random = mix(seed * MAX_DEPTH + i) ^ now_ns();
		need(!posix_memalign((void **)&part->buffer, 4096, size_max + 4096), "memory");
		need(!pthread_create(&part->thread, NULL, work, part), "a thread");
	}
	for (unsigned i = 0; i < depth; i++)
		pthread_join(parts[i].thread, NULL);
	atomic_store(&over, true);
	pthread_join(watcher, NULL);
	use_table(true);
	longest = atomic_load(&longest_ns) / 1000000;
	printf("%" PRIuFAST64 " writes, %" PRIuFAST64 " reads, %" PRIuFAST64 " KiB, the longest took %" PRIu64 " ms, %u faults\n",
	       atomic_load(&writes), atomic_load(&reads), atomic_load(&bytes) / 1024, longest, atomic_load(&faults));
	if (longest > max_ms)
		printf("more than %" PRIu64 " ms\n", max_ms);
	if (longest > max_ms || atomic_load(&faults))
		printf("this machine stood still for %" PRIu64 " ms at most, until %" PRIu64 " ms\n", still_ns / 1000000,
		       still_at_ns / 1000000);
	return atomic_load(&faults) || longest > max_ms || !atomic_load(&writes);
}
