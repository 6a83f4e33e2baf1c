/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A thread that makes any call with anything, and what came of its calls. Errors are fine; a call that never works is
 * not, because then nothing behind it is tested.
 */
#ifndef SELFTESTS_LIB_FUZZ_CALLER_H
#define SELFTESTS_LIB_FUZZ_CALLER_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

#define ERRNOS 134 /* greater ones are the kernel's own and no program may see them */
#define LARGEST ((1 << 20) + 4096)
#define CANARY 64 /* bytes behind what a call may write */
#define CANARY_BYTE 0x6c
#define KINDS_MAX 128

/* The calls that are told apart, and whether each must work now and then (MUST), may (MAY), or never (NEVER). */
enum expectation { MUST, MAY, NEVER };
struct kind {
	const char *name;
	enum expectation expected;
};

struct caller {
	struct random random;
	int doing; /* a kind */
	unsigned long calls; /* read by the watch: no progress is a hang */
	unsigned int ok[KINDS_MAX], failed[KINDS_MAX][ERRNOS];
	unsigned long leaked; /* calls that failed with an errno of the kernel's own */
	unsigned long wrong; /* results that cannot be */
	char *inbox; /* LARGEST bytes for what is received, and a canary */
	char *scratch; /* LARGEST bytes that are nobody else's */
	bool is_child;
};

/** caller_open - gives @c its seed and its memory */
void caller_open(struct caller *c, uint64_t seed);
/** kinds_are - the table of the program's kinds */
void kinds_are(const struct kind *kinds, int count);
const char *kind_name(int kind);

void begin(struct caller *c, int kind);
void ended(struct caller *c, long result);
#define CALL(c, kind, call)              \
	({                               \
		begin(c, kind);          \
		long ret_ = (long)(call); \
		ended(c, ret_);          \
		ret_;                    \
	})
/** seen - something happened that is no call of its own */
void seen(struct caller *c, int kind);
/** wrong - a result that no call may give */
void wrong(struct caller *c, const char *what, long long got, long long limit);
/** tally_print - what came of each kind of call, by all callers, and whether it had to */
void tally_print(struct caller *const *callers, int count);

static inline bool chance(struct caller *c, unsigned int one_in)
{
	return random_below(&c->random, one_in) == 0;
}
static inline uint64_t pick(struct caller *c, uint64_t bound)
{
	return random_below(&c->random, bound);
}
#define ANY_OF(c, list) ((list)[pick(c, ARRAY_SIZE(list))])
/** any_size - small ones more often than large ones, at most @limit */
size_t any_size(struct caller *c, size_t limit);
/** any_number - one that is likely to be a bound of something */
uint64_t any_number(struct caller *c);
/** odd_length - mostly what is right */
socklen_t odd_length(struct caller *c, socklen_t right);

#endif
