/* SPDX-License-Identifier: GPL-2.0 */
/* Charging of memory: shared by the files of kapi/linux. */
#ifndef KAPI_LINUX_CHARGE_H
#define KAPI_LINUX_CHARGE_H

#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <net/sock.h>

#include <kapi/memory.h>

/* For an allocation in a program's call: it fails rather than have a process killed for it. */
#define KAPI_GFP_CHARGED (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
/* For one that cannot wait: with __GFP_HIGH it would be charged by force. */
#define KAPI_GFP_CHARGED_ATOMIC (GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

/* A failed allocation is the caller's everyday case and has its error path: the kernel need not report it. */
static inline gfp_t kapi_gfp_of(enum kapi_alloc_mode mode)
{
	static const gfp_t flags[] = {
		[KAPI_ATOMIC] = GFP_ATOMIC | __GFP_NOWARN,
		[KAPI_SLEEP] = GFP_KERNEL | __GFP_NOWARN,
		[KAPI_ATOMIC_CHARGED] = KAPI_GFP_CHARGED_ATOMIC,
		[KAPI_SLEEP_CHARGED] = KAPI_GFP_CHARGED,
	};

	return flags[mode];
}

/* The cgroup that an allocation of the running task is charged to, for comparison only: it may have been freed. */
static inline const void *kapi_paying_cgroup(void)
{
	const void *memcg = NULL;

#ifdef CONFIG_MEMCG
	rcu_read_lock();
	memcg = mem_cgroup_from_task(current);
	rcu_read_unlock();
#endif
	return memcg;
}

/* Is charged for what is kept for a program's socket: another socket, which is not visible elsewhere. */
struct kapi_payer {
	struct sock sk; /* first: the kernel allocates it as a sock; its cgroup pays */
	spinlock_t lock; /* guards what follows and the accounts of sk */
	long pages;          /* charged */
	atomic_long_t *user; /* the account of the user for all sockets; constant */
};

/* Once, before the first socket. */
void kapi_charge_init(void);
/* May sleep. For the cgroup and the user of the running task. NULL: no memory. */
struct kapi_payer *kapi_payer_create(void);
static inline void kapi_payer_hold(struct kapi_payer *payer)
{
	sock_hold(&payer->sk);
}
static inline void kapi_payer_put(struct kapi_payer *payer)
{
	sock_put(&payer->sk);
}
/* Any context. As kapi_sk_charge() and kapi_sk_uncharge(). */
int kapi_charge(struct kapi_payer *payer, size_t size);
void kapi_uncharge(struct kapi_payer *payer, size_t size);
/* Until set_active_memcg() of what this returns, charged allocations are the payer's, in softirq too. */
static inline struct mem_cgroup *kapi_begin_charging(const struct kapi_payer *payer)
{
#ifdef CONFIG_MEMCG
	return set_active_memcg(payer->sk.sk_memcg);
#else
	return NULL;
#endif
}

#endif
