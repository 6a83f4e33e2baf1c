/* SPDX-License-Identifier: GPL-2.0 */
/* Between the test module's C and C++. */
#ifndef KAPI_VERBS_TEST_H
#define KAPI_VERBS_TEST_H

#ifndef __cplusplus
#include <kapi/linux.h>
#endif
#include <kapi/types.h>

KAPI_BEGIN

/* [init] Runs all; 0, or -EIO when a test failed. */
int verbs_test_run(struct kapi_net *net) KAPI_NOEXCEPT;
/* [any] Lines of KTAP, in the kernel's log. */
void verbs_test_plan(unsigned long tests) KAPI_NOEXCEPT;
void verbs_test_report(int ok, int number, const char *name) KAPI_NOEXCEPT;
/* [any] Is the test of that name to be run? */
int verbs_test_wanted(const char *name) KAPI_NOEXCEPT;

/* [task] Another network namespace than the initial one, held until verbs_test_net_put(). NULL: the scene gave none. */
struct kapi_net *verbs_test_other_net(void) KAPI_NOEXCEPT;
void verbs_test_net_put(struct kapi_net *net) KAPI_NOEXCEPT;

/* [any] The number of the network device of that name, 0: none. */
kapi_u32 verbs_test_ifindex(const char *name) KAPI_NOEXCEPT;

/* [task] Memory of the program that loads the module: 0 or an address; what is in it. */
kapi_u64 verbs_test_mmap(kapi_size size, int writable) KAPI_NOEXCEPT;
void verbs_test_munmap(kapi_u64 at, kapi_size size) KAPI_NOEXCEPT;
int verbs_test_poke(kapi_u64 at, const void *bytes, kapi_size size) KAPI_NOEXCEPT;
int verbs_test_peek(kapi_u64 at, void *bytes, kapi_size size) KAPI_NOEXCEPT;
/* [task] Pages that it has pinned; and it, with no right to pin more than its limit, until it is called with 0. */
long verbs_test_pinned(void) KAPI_NOEXCEPT;
void verbs_test_unprivileged(int on) KAPI_NOEXCEPT;

/* [sleep] A chained list as the block layer's, of count pieces of size bytes from memory on. NULL: no memory. */
struct kapi_sglist;
struct kapi_sglist *verbs_test_sglist(void *memory, kapi_size size, unsigned int count) KAPI_NOEXCEPT;
void verbs_test_sglist_free(struct kapi_sglist *list) KAPI_NOEXCEPT; /* of 8 pieces */

/*
 * [sleep] From now on each address request waits before it is made until *delayed_until is not 0, 10 s at most; 0 or an error.
 * verbs_test_unprobe() ends that, and returns how often a request was worked on meanwhile.
 */
int verbs_test_probe(const volatile unsigned int *delayed_until) KAPI_NOEXCEPT;
unsigned int verbs_test_unprobe(void) KAPI_NOEXCEPT;
/* [sleep] How many delayed works of the whole machine become due in so many milliseconds; or an error. */
int verbs_test_count_timed_works(unsigned int ms) KAPI_NOEXCEPT;

/*
 * [sleep] Threads that each try to pin pages, again and again, with the memory of the program that loads the module or of another
 * one. verbs_test_start_waiters(): all of them, one page with a limit of nothing. 0 or an error; verbs_test_stop_waiters() in any
 * case.
 */
#define VERBS_TEST_WAITERS 100
struct verbs_test_wants {
	int other;                 /* another program's memory */
	unsigned int limit, pages; /* in pages */
};
struct verbs_test_waiters {
	unsigned long sleeps;    /* of all of them */
	unsigned int refused;    /* threads of which a call has failed with ENOMEM */
	unsigned int allowed;    /* threads of which a call was charged */
	unsigned int longest_ms; /* of all calls that have ended */
};
int verbs_test_start_waiter(unsigned int number, const struct verbs_test_wants *wants) KAPI_NOEXCEPT;
int verbs_test_start_waiters(int other) KAPI_NOEXCEPT;
void verbs_test_count_waiters(struct verbs_test_waiters *result) KAPI_NOEXCEPT;
void verbs_test_count_waiter(unsigned int number, struct verbs_test_waiters *result) KAPI_NOEXCEPT; /* one */
/* Counts first. */
void verbs_test_stop_waiters(struct verbs_test_waiters *result) KAPI_NOEXCEPT;
/* [task] The page at this address is busy until verbs_test_make_idle(): it cannot be marked as changed. 0 or an error. */
int verbs_test_make_busy(kapi_u64 at) KAPI_NOEXCEPT;
void verbs_test_make_idle(void) KAPI_NOEXCEPT;

/*
 * [sleep] The device of that name: it reports no completion of cq; or it says that it is siw, until verbs_test_be_soft(): before
 * anything is received, for Soft-RoCE finds its device by that. 0 or an error. verbs_test_be_real() ends it.
 */
struct kapi_cq;
int verbs_test_silence(const char *name, const struct kapi_cq *cq) KAPI_NOEXCEPT;
int verbs_test_be_siw(const char *name) KAPI_NOEXCEPT;
void verbs_test_be_soft(void) KAPI_NOEXCEPT;
void verbs_test_be_real(void) KAPI_NOEXCEPT;
/* [any] How many requests of a page or more were posted to it, and how many of them siw would send by reference. */
unsigned int verbs_test_large(unsigned int *of_them_lent) KAPI_NOEXCEPT;
/* [any] In a softirq: which run of completion queues on which processor it is. */
kapi_u64 verbs_test_visit(void) KAPI_NOEXCEPT;

struct kapi_msg;
/* [task] Calls use() with a message whose memory is the size bytes at memory, to be written to. */
int verbs_test_into(void *memory, kapi_size size, int (*use)(struct kapi_msg *msg, void *context), void *context) KAPI_NOEXCEPT;

KAPI_END
#endif
