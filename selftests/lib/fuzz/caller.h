/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A thread that makes random calls, and the results of its calls. Errors are fine; a call that never works is
 * not, because then the code behind it is not tested.
 */
#ifndef SELFTESTS_LIB_FUZZ_CALLER_H
#define SELFTESTS_LIB_FUZZ_CALLER_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

#define ERRNOS 134 /* greater ones are internal to the kernel */
#define LARGEST ((1 << 20) + 4096)
#define CANARY 64 /* bytes behind what a call may write */
#define CANARY_BYTE 0x6c
#define KINDS_MAX 128

/* The kinds of calls, and whether each must work sometimes (MUST), may (MAY), or never (NEVER). */
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
	unsigned long leaked; /* calls that failed with an internal errno */
	unsigned long wrong; /* invalid results */
	char *inbox; /* LARGEST bytes for received data, and a canary */
	char *scratch; /* LARGEST private bytes */
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
/** seen - counts an event that is no call of its own */
void seen(struct caller *c, int kind);
/** wrong - counts a result that no call may give */
void wrong(struct caller *c, const char *what, long long got, long long limit);
/** tally_missing - a kind without the results that it must have, -1 if there is none; callers may be at work */
int tally_missing(struct caller *const *callers, int count);
/** tally_print - prints the results of each kind of call, of all callers, and checks them against its kind */
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
/** odd_length - mostly the right one */
socklen_t odd_length(struct caller *c, socklen_t right);

#endif
