// SPDX-License-Identifier: GPL-2.0
/* Atomic operations on a word of the peer's memory. */
#include <errno.h>

#include "regions.h"

#define WORDS 24 /* bytes of three of them, of which the middle one is used */
#define ADDED 200
#define SWAPPED 0x1122334455667788

/* In the order of use_atomics(). */
void own_atomics(void)
{
	uint64_t cookie = give(0, WORDS, 1, false), expected[3], *words = (uint64_t *)(memory + GUARD);

	next_word(DONE);
	pattern_fill((char *)expected, WORDS, 1);
	check(words[0] == expected[0] && words[1] == SWAPPED + ADDED && words[2] == expected[2],
	      "regions: the peer added and swapped in one word, and no other");
	check(all_are(memory, GUARD, 0xee) && all_are(memory + GUARD + WORDS, sizeof(memory) - GUARD - WORDS, 0xee),
	      "regions: nor around them");
	NEED(free_mr(cookie) == 0);
	say(REGION, 0, 0);
	next_word(DONE);
	check(words[1] == SWAPPED + ADDED, "regions: nothing is added after RDS_FREE_MR");
}

/* ---- The host that uses it ---- */

static uint64_t old __attribute__((aligned(8)));

/* On the word in the middle, without a message. */
static int atomic(uint64_t cookie, int type, struct rds_atomic_args args)
{
	struct control c = { .len = 0 };

	args.cookie = cookie;
	args.remote_addr = sizeof(old);
	args.local_addr = TEXT(&old);
	args.flags = RDS_RDMA_NOTIFY_ME | RDS_RDMA_SILENT;
	control_add(&c, SOL_RDS, type, &args, sizeof(args));
	if (send_control(fd, NULL, 0, &peer, &c, 0) < 0)
		return -errno;
	return next_status();
}

static bool gives(int status, uint64_t value)
{
	if (status == RDS_RDMA_SUCCESS && old == value)
		return true;
	note("status %d, old value %llx", status, (unsigned long long)old);
	return false;
}

static int add(uint64_t cookie, uint64_t value)
{
	return atomic(cookie, RDS_CMSG_ATOMIC_FADD, (struct rds_atomic_args){ .fadd.add = value });
}

static int swap(uint64_t cookie, uint64_t compare, uint64_t value)
{
	return atomic(cookie, RDS_CMSG_ATOMIC_CSWP, (struct rds_atomic_args){ .cswp = { compare, value } });
}

static int masked_swap(uint64_t cookie, uint64_t compare, uint64_t value, uint64_t compare_mask, uint64_t swap_mask)
{
	return atomic(cookie, RDS_CMSG_MASKED_ATOMIC_CSWP,
		      (struct rds_atomic_args){ .m_cswp = { compare, value, compare_mask, swap_mask } });
}

static int masked_add(uint64_t cookie, uint64_t value, uint64_t last_bits)
{
	return atomic(cookie, RDS_CMSG_MASKED_ATOMIC_FADD, (struct rds_atomic_args){ .m_fadd = { value, last_bits } });
}

void use_atomics(void)
{
	struct event given = next_word(REGION);
	uint64_t cookie = given.cookie, words[3], first;
	bool counts = true;
	int status;

	pattern_fill((char *)words, WORDS, given.word.seed);
	first = words[1] + 5;
	/* A refusal before ended the connection: dropped is what was on it. */
	WAIT_UNTIL(SOON_MS, (status = add(cookie, 5)) != RDS_RDMA_DROPPED);
	check(gives(status, words[1]), "regions: fetch and add");
	check(gives(swap(cookie, first + 1, 7), first), "regions: compare and swap, of another value");
	check(gives(swap(cookie, first, 7), first), "regions: compare and swap");
	check(gives(masked_add(cookie, 1, 0), 7), "regions: masked fetch and add, of the whole");
	check(gives(masked_swap(cookie, 8, SWAPPED, ~0ull, ~0ull), 8), "regions: masked compare and swap, of the whole");
	EXPECT_EQ(-masked_add(cookie, 1, 0x80), EOPNOTSUPP, "regions: fetch and add of fields, which Soft-RoCE lacks");
	EXPECT_EQ(-masked_swap(cookie, 0, 0, 0xff, ~0ull), EOPNOTSUPP, "regions: compare of some bits, too");
	for (uint64_t i = 0; i < ADDED; i++) {
		counts &= add(cookie, 1) == RDS_RDMA_SUCCESS && old == SWAPPED + i;
		if (i % 20 == 0)
			say(HELLO, 0, 0); /* on a busy machine all of them take longer than the owner waits for a word */
	}
	check(counts, "regions: %d additions, each of which gives the value before", ADDED);
	say(DONE, 0, 0);
	next_word(REGION);
	status = add(cookie, 1);
	check(status == RDS_RDMA_REMOTE_ERROR || status == RDS_RDMA_DROPPED,
	      "regions: an addition with a key that was freed is refused");
	say(DONE, 0, 0);
}
