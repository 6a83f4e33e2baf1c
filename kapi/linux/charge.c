// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that a program makes the kernel hold is charged to its memory cgroup. What is allocated in the program's own call is
 * by __GFP_ACCOUNT (memory.c, pages.c). What arrives for its sockets is by the kernel's accounting of socket memory, here: to
 * the cgroup and the user for whom the socket was made.
 *
 * It is charged to payers, sockets that exist for this alone. A program's own socket has accounts under a lock that is not held
 * when the memory is freed; and SO_RESERVE_MEM, which a protocol can refuse only from 6.4 on, changes those of a socket whose
 * protocol has any.
 */

#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/siphash.h>
#include <net/sock.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/share.h>
#include <kapi/socket.h>

#include "charge.h"

/* The kernel charges by force in contexts that cannot wait, so a cgroup may be over its limit: by such a share of it at most, */
#define OVERCOMMIT_SHARE 16
/* and by such a share for what its sockets are guaranteed. */
#define GUARANTEE_SHARE 4
/* All that is received and not yet read, of all namespaces together, may be this share of the machine's memory. */
#define MEMORY_SHARE 4

static atomic_long_t allocated; /* in pages */
static DEFINE_PER_CPU(int, allocated_here);
static long limits[3]; /* in pages; the kernel needs three values, here equal */
static int none;       /* the guarantee is not the kernel's */

/* What users hold, in pages. Two of them may have one in common; then each socket still has its own share of it. */
static atomic_long_t users[KAPI_USERS];
static hsiphash_key_t users_key;

static struct proto payer_proto = {
	.name = "hawser",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct kapi_payer),
	.memory_allocated = &allocated,
	.per_cpu_fw_alloc = &allocated_here,
	.sysctl_mem = limits,
	.sysctl_rmem = &none,
	.sysctl_wmem = &none,
};

void kapi_charge_init(void)
{
	limits[0] = limits[1] = limits[2] = totalram_pages() / MEMORY_SHARE;
	get_random_bytes(&users_key, sizeof(users_key));
}

#ifdef CONFIG_MEMCG
static bool over_limit(const struct sock *sk, unsigned int share)
{
	struct mem_cgroup *memcg;

	if (!mem_cgroup_sockets_enabled)
		return false;
	for (memcg = sk->sk_memcg; memcg; memcg = parent_mem_cgroup(memcg)) {
		unsigned long max = READ_ONCE(memcg->memory.max);

		if (page_counter_read(&memcg->memory) > max + max / share)
			return true;
	}
	return false;
}
#else
static bool over_limit(const struct sock *sk, unsigned int share)
{
	return false;
}
#endif

/* As kapi_share(), of the cgroup too. */
static int may_have(const struct kapi_payer *payer, long pages)
{
	long left = limits[0] - atomic_long_read(&allocated);
	int share = kapi_share(payer->pages, atomic_long_read(payer->user), max(left, 0L), pages);

	if (share < 0 || !over_limit(&payer->sk, OVERCOMMIT_SHARE))
		return share;
	if (payer->pages + pages > KAPI_GUARANTEED >> PAGE_SHIFT || over_limit(&payer->sk, GUARANTEE_SHARE))
		return -ENOMEM;
	return 1;
}

/* The kernel counts a socket's memory in an int. */
#define LARGEST_PART (INT_MAX / 2)

int kapi_charge(struct kapi_payer *payer, size_t size)
{
	struct sock *sk = &payer->sk;
	int missing, result = 0;

	if (size > LARGEST_PART)
		return -ENOMEM;
	spin_lock_bh(&payer->lock);
	missing = (int)size - sk->sk_forward_alloc;
	if (missing > 0) {
		long pages = sk_mem_pages(missing);

		result = may_have(payer, pages);
		if (result >= 0 && !__sk_mem_schedule(sk, missing, SK_MEM_RECV))
			result = -ENOMEM;
		if (result >= 0) {
			payer->pages += pages;
			atomic_long_add(pages, payer->user);
		}
	}
	if (result >= 0)
		sk_mem_charge(sk, size);
	spin_unlock_bh(&payer->lock);
	return result;
}

/* The lock is held. */
static void uncharge_part(struct kapi_payer *payer, int size)
{
	struct sock *sk = &payer->sk;
	long given_back = (sk->sk_forward_alloc + size) >> PAGE_SHIFT;

	sk_mem_uncharge(sk, size);
	given_back -= sk->sk_forward_alloc >> PAGE_SHIFT;
	payer->pages -= given_back;
	atomic_long_sub(given_back, payer->user);
}

/* What several calls have charged may be more than one of them can. */
void kapi_uncharge(struct kapi_payer *payer, size_t size)
{
	size_t part;

	spin_lock_bh(&payer->lock);
	for (; size; size -= part) {
		part = min_t(size_t, size, LARGEST_PART);
		uncharge_part(payer, part);
	}
	spin_unlock_bh(&payer->lock);
}

kapi_u32 kapi_user_number(kapi_u32 user)
{
	return hsiphash_1u32(user, &users_key) % KAPI_USERS;
}
EXPORT_SYMBOL_GPL(kapi_user_number);

struct kapi_payer *kapi_payer_create(void)
{
	struct sock *sk = sk_alloc(&init_net, PF_UNSPEC, GFP_KERNEL_ACCOUNT | __GFP_NOWARN, &payer_proto, 1);
	struct kapi_payer *payer;

	if (!sk)
		return NULL;
	payer = container_of(sk, struct kapi_payer, sk);
	sock_init_data(NULL, sk);
#ifdef sk_bypass_prot_mem
	/* An administrator can leave new sockets out of the sum of their protocol, by which may_have() decides; 7.2 has that. */
	sk->sk_bypass_prot_mem = 0;
#endif
	spin_lock_init(&payer->lock);
	/*
	 * The real user: a program with another user's rights still has only the share of its own user. In a user namespace
	 * that a user has made, the user has many ids, and one share.
	 */
	payer->user = &users[kapi_user_number(kapi_user())];
	return payer;
}

int kapi_sk_add_payer(struct sock *sk)
{
	sk->sk_user_data = kapi_payer_create();
	return sk->sk_user_data ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(kapi_sk_add_payer);

void kapi_sk_remove_payer(struct sock *sk)
{
	if (sk->sk_user_data)
		kapi_payer_put(sk->sk_user_data);
	sk->sk_user_data = NULL;
}
EXPORT_SYMBOL_GPL(kapi_sk_remove_payer);

int kapi_sk_charge(struct kapi_sk *sk, kapi_size size)
{
	return kapi_charge(kapi_sk_to_sock(sk)->sk_user_data, size);
}
EXPORT_SYMBOL_GPL(kapi_sk_charge);

void kapi_sk_uncharge(struct kapi_sk *sk, kapi_size size)
{
	kapi_uncharge(kapi_sk_to_sock(sk)->sk_user_data, size);
}
EXPORT_SYMBOL_GPL(kapi_sk_uncharge);

kapi_u32 kapi_sk_user(struct kapi_sk *sk)
{
	const struct kapi_payer *payer = kapi_sk_to_sock(sk)->sk_user_data;

	return payer->user - users;
}
EXPORT_SYMBOL_GPL(kapi_sk_user);
