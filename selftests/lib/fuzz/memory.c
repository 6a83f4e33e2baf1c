// SPDX-License-Identifier: GPL-2.0
/* Memory whose contents identify their position, and memory that changes all the time. */
#include "fuzz/memory.h"
#include "fuzz/storm.h"

#include <sys/mman.h>

#define PAGE 4096
#define PAGES 64 /* of changing memory, each for source and sink */
#define MAGIC 0x5244532d00000000ULL

static uint64_t *words;
static const size_t word_count = LARGEST / 8;
static char *unreliable[2];
static int file;

static char *map(void *where, size_t size, int protection, int flags, int fd)
{
	void *p = mmap(where, size, protection, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	NEED(p != MAP_FAILED);
	return p;
}

void memory_open(void)
{
	words = (uint64_t *)map(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
	for (size_t i = 0; i < word_count; i++)
		words[i] = MAGIC | i;
	NEED(mprotect(words, LARGEST, PROT_READ) == 0);
	for (int i = 0; i < 2; i++)
		unreliable[i] = map(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
	/* A file shorter than its mapping: touching the rest is another kind of fault. */
	file = memfd_create("fuzz", MFD_CLOEXEC);
	NEED(file >= 0 && ftruncate(file, 2 * PAGE) == 0);
}

const char *content(struct caller *c, size_t *size)
{
	size_t first = pick(c, word_count);

	if (*size > (word_count - first) * 8)
		*size = (word_count - first) * 8;
	return (char *)(words + first);
}

bool is_content(const char *word)
{
	uint64_t first;

	memcpy(&first, word, sizeof(first));
	return (first & ~0xffffffffULL) == MAGIC && (first & 0xffffffff) < word_count;
}

static void note_difference(const char *data, size_t size, size_t at)
{
	const char *right = (const char *)(words + at);
	size_t i = 0, left;
	uint64_t there = 0;

	while (i < size && i < (word_count - at) * 8 && data[i] == right[i])
		i++;
	left = size - i / 8 * 8;
	memcpy(&there, data + i / 8 * 8, left < 8 ? left : 8);
	note("content of %zu bytes from word %zu on differs from byte %zu on: word %#llx", size, at, i,
	     (unsigned long long)there);
}

bool content_holds(const char *data, size_t size)
{
	uint64_t first;
	size_t at;

	if (size < sizeof(first) || !is_content(data))
		return true;
	memcpy(&first, data, sizeof(first));
	at = first & 0xffffffff;
	if (size <= (word_count - at) * 8 && !memcmp(data, words + at, size))
		return true;
	note_difference(data, size, at);
	return false;
}

static char *somewhere(struct caller *c, char *memory, size_t *size)
{
	size_t at = pick(c, PAGES * PAGE);

	/* Sometimes beyond the end. */
	if (*size > PAGES * PAGE - at && !chance(c, 8))
		*size = PAGES * PAGE - at;
	return memory + at;
}

char *source(struct caller *c, size_t *size)
{
	return somewhere(c, unreliable[0], size);
}

char *sink(struct caller *c, size_t *size)
{
	return somewhere(c, unreliable[1], size);
}

/* A hole in the address space would soon be reused, so use a page without access. */
static void vandalise(struct random *r)
{
	static const int protections[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE };
	size_t first = random_below(r, PAGES), count = 1 + random_below(r, PAGES - first);
	char *where = unreliable[random_below(r, 2)] + first * PAGE;
	int protection = protections[random_below(r, ARRAY_SIZE(protections))];

	switch (random_below(r, 4)) {
	case 0:
		NEED(mprotect(where, count * PAGE, protection) == 0);
		break;
	case 1:
		map(where, count * PAGE, protection, MAP_PRIVATE | MAP_FIXED, -1);
		break;
	case 2:
		/* Private, or one thread would receive into memory that another one sends. */
		map(where, count * PAGE, protection, MAP_PRIVATE | MAP_FIXED, file);
		break;
	default:
		NEED(madvise(where, count * PAGE, MADV_DONTNEED) == 0);
	}
}

void vandal(struct caller *c)
{
	while (!over()) {
		vandalise(&c->random);
		nap_us(pick(c, 3000));
	}
}

size_t make_room(struct caller *c)
{
	size_t room = chance(c, 2) ? LARGEST : any_size(c, LARGEST);

	memset(c->inbox + room, CANARY_BYTE, CANARY);
	return room;
}

void check_canary(struct caller *c, size_t room)
{
	for (size_t i = 0; i < CANARY; i++)
		if (c->inbox[room + i] != CANARY_BYTE)
			wrong(c, "byte written behind the end", i, -1);
}

size_t cut(struct caller *c, struct iovec pieces[PIECES], const char *data, size_t size)
{
	size_t count = chance(c, 2) ? 1 : 1 + pick(c, PIECES), i;

	for (i = 0; i + 1 < count; i++) {
		size_t piece = pick(c, size + 1);

		pieces[i] = (struct iovec){ (void *)data, piece };
		data += piece;
		size -= piece;
	}
	pieces[i] = (struct iovec){ (void *)data, size };
	return count;
}
