// SPDX-License-Identifier: GPL-2.0
/* Calls and their results. */
#include "fuzz/caller.h"

#include <sys/mman.h>

static const struct kind *kinds;
static int kind_count;

void kinds_are(const struct kind *table, int count)
{
	NEED(count <= KINDS_MAX);
	kinds = table;
	kind_count = count;
}

const char *kind_name(int kind)
{
	return kinds[kind].name;
}

static char *memory_of(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED);
	return p;
}

void caller_open(struct caller *c, uint64_t seed)
{
	c->random.state = seed;
	c->inbox = memory_of(LARGEST + CANARY);
	c->scratch = memory_of(LARGEST);
	memset(c->scratch, 0x55, LARGEST);
}

void begin(struct caller *c, int kind)
{
	__atomic_store_n(&c->doing, kind, __ATOMIC_RELAXED);
	errno = 0;
}

void ended(struct caller *c, long result)
{
	int error = errno;

	__atomic_store_n(&c->calls, c->calls + 1, __ATOMIC_RELAXED);
	if (result >= 0)
		c->ok[c->doing]++;
	else if (error > 0 && error < ERRNOS)
		c->failed[c->doing][error]++;
	else if (!c->leaked++)
		note("%s failed with errno %d", kind_name(c->doing), error);
	errno = error;
}

void seen(struct caller *c, int kind)
{
	c->ok[kind]++;
}

void wrong(struct caller *c, const char *what, long long got, long long limit)
{
	if (!c->wrong++)
		note("%s: %s: %lld, expected %lld", kind_name(c->doing), what, got, limit);
}

size_t any_size(struct caller *c, size_t limit)
{
	size_t size = pick(c, 1UL << pick(c, 21));

	return size > limit ? limit : size;
}

uint64_t any_number(struct caller *c)
{
	static const uint64_t likely[] = { 0,	 1,	     2,		   3,	       8,	   16,
					   28,	 64,	     4095,	   4096,       65535,	   65536,
					   1U << 20, (1U << 20) + 1, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32,
					   1ULL << 63, ~0ULL };

	return chance(c, 3) ? random_next(&c->random) : ANY_OF(c, likely);
}

socklen_t odd_length(struct caller *c, socklen_t right)
{
	switch (pick(c, 24)) {
	case 0:
		return pick(c, 40);
	case 1:
		return right + pick(c, 200);
	case 2:
		return any_number(c);
	default:
		return right;
	}
}

static void append(char *line, size_t size, const char *fmt, const char *name, unsigned int count)
{
	size_t at = strlen(line);

	snprintf(line + at, size - at, fmt, name, count);
}

/* One line a kind: counts of success and of each errno. */
static void print_kind(int k, unsigned int ok, const unsigned int *failed)
{
	char line[700] = "";

	for (int e = 0; e < ERRNOS; e++) {
		const char *name = strerrorname_np(e);

		if (failed[e])
			append(line, sizeof(line), " %s %u", name ? name : "?", failed[e]);
	}
	note("%-28s %7u ok%s%s", kind_name(k), ok, *line ? "," : "", line);
}

struct tally {
	unsigned int ok, refused, failed[ERRNOS];
};

static struct tally tally_of(int k, struct caller *const *callers, int count)
{
	struct tally t = { 0 };

	for (int i = 0; i < count; i++)
		t.ok += callers[i]->ok[k];
	for (int e = 0; e < ERRNOS; e++) {
		for (int i = 0; i < count; i++)
			t.failed[e] += callers[i]->failed[k][e];
		t.refused += t.failed[e];
	}
	return t;
}

int tally_missing(struct caller *const *callers, int count)
{
	for (int k = 0; k < kind_count; k++) {
		struct tally t = tally_of(k, callers, count);

		if ((kinds[k].expected == MUST && !t.ok) || (kinds[k].expected == NEVER && !t.refused))
			return k;
	}
	return -1;
}

void tally_print(struct caller *const *callers, int count)
{
	for (int k = 0; k < kind_count; k++) {
		struct tally t = tally_of(k, callers, count);

		print_kind(k, t.ok, t.failed);
		if (kinds[k].expected == NEVER)
			check(!t.ok && t.refused, "%s: always refused", kind_name(k));
		else if (kinds[k].expected == MUST)
			check(t.ok, "%s: worked", kind_name(k));
	}
}
