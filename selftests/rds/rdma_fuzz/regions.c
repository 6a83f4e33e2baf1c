// SPDX-License-Identifier: GPL-2.0
/* Memory for peers, with guards around it that no operation may change, and the keys of it. */
#include "rdma_fuzz.h"

#include <sys/mman.h>

#define GUARD 65536
#define WINDOW LARGEST
#define KEYS 8 /* the newest: older ones are mostly dead */
#define AGAIN_MS 300

static char *memory; /* a guard, the window, a guard */
/* Written by any thread, read by any: a mixture of two is just another odd key. */
static struct region own[KEYS], peers[KEYS];
static int64_t ended_ms; /* in a calm time */

void regions_open(void)
{
	memory = mmap(NULL, GUARD + WINDOW + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(memory != MAP_FAILED);
	memset(memory, CANARY_BYTE, GUARD + WINDOW + GUARD);
}

bool regions_hold(void)
{
	for (size_t i = 0; i < GUARD; i++)
		if (memory[i] != CANARY_BYTE || memory[GUARD + WINDOW + i] != CANARY_BYTE)
			return false;
	return true;
}

/* An odd one lies in memory that comes and goes, or nowhere. */
struct rds_iovec any_range(struct caller *c, bool is_odd)
{
	size_t size = 1 + any_size(c, WINDOW / 2);

	if (!is_odd)
		return (struct rds_iovec){ (uintptr_t)memory + GUARD + pick(c, WINDOW - size), size };
	if (chance(c, 2))
		return (struct rds_iovec){ (uintptr_t)source(c, &size), size };
	return (struct rds_iovec){ any_number(c), any_number(c) };
}

static struct region load(const struct region *all, unsigned int slot)
{
	return (struct region){ __atomic_load_n(&all[slot].cookie, __ATOMIC_RELAXED),
				__atomic_load_n(&all[slot].size, __ATOMIC_RELAXED),
				__atomic_load_n(&all[slot].socket, __ATOMIC_RELAXED), slot };
}

static void store(struct region *to, struct region r)
{
	__atomic_store_n(&to->cookie, r.cookie, __ATOMIC_RELAXED);
	__atomic_store_n(&to->size, r.size, __ATOMIC_RELAXED);
	__atomic_store_n(&to->socket, r.socket, __ATOMIC_RELAXED);
}

struct region own_region(struct caller *c)
{
	return load(own, pick(c, KEYS));
}

struct region peers_region(struct caller *c)
{
	return load(peers, pick(c, KEYS));
}

void keep_own(struct caller *c, struct region r)
{
	store(&own[pick(c, KEYS)], r);
}

void keep_peers(struct caller *c, struct region r)
{
	if (is_calm() && now_ms() - __atomic_load_n(&ended_ms, __ATOMIC_RELAXED) < stretched(AGAIN_MS))
		return;
	store(&peers[pick(c, KEYS)], r);
}

void forget_own(unsigned int slot)
{
	store(&own[slot % KEYS], (struct region){ 0 });
}

void forget_peers(unsigned int slot)
{
	store(&peers[slot % KEYS], (struct region){ 0 });
}

void forget_all(void)
{
	for (unsigned int i = 0; i < KEYS; i++) {
		forget_own(i);
		forget_peers(i);
	}
}

void connection_ended(void)
{
	__atomic_store_n(&ended_ms, now_ms(), __ATOMIC_RELAXED);
	forget_all();
}

static uint64_t any_flags_of_region(struct caller *c)
{
	static const uint64_t few[] = { 0, RDS_RDMA_READWRITE, RDS_RDMA_USE_ONCE, RDS_RDMA_INVALIDATE, RDS_RDMA_READWRITE };

	return odd(c, 16) ? pick(c, 256) : is_calm() ? RDS_RDMA_READWRITE : ANY_OF(c, few);
}

void call_get_mr(struct caller *c)
{
	bool is_odd = odd(c, 6);
	struct rds_iovec range = any_range(c, is_odd);
	uint64_t cookie = 0, flags = any_flags_of_region(c);
	struct rds_get_mr_args any = { range, (uintptr_t)&cookie, flags };
	struct rds_get_mr_for_dest_args dest = { .vec = range, .cookie_addr = (uintptr_t)&cookie, .flags = flags };
	struct addr to = some_peer(c);
	int err, fd = some_socket(c);

	memcpy(&dest.dest_addr, &to.sa, to.len);
	if (is_odd && chance(c, 4))
		dest.cookie_addr = any.cookie_addr = any_number(c);
	if (chance(c, 3))
		err = CALL(c, is_odd ? K_GET_MR_ODD : K_GET_MR,
			   setsockopt(fd, SOL_RDS, RDS_GET_MR, &any, sizeof(any)));
	else
		err = CALL(c, is_odd ? K_GET_MR_ODD : K_GET_MR_DEST,
			   setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &dest, odd_length(c, sizeof(dest))));
	if (err == 0)
		keep_own(c, (struct region){ cookie, range.bytes, fd });
}

void call_free_mr(struct caller *c)
{
	bool is_odd = chance(c, 8);
	struct region r = own_region(c);
	struct rds_free_mr_args args = { .cookie = is_odd ? any_number(c) : r.cookie,
					 .flags = chance(c, 2) ? RDS_RDMA_INVALIDATE : 0 };
	int fd = is_odd || !r.cookie ? some_socket(c) : r.socket;

	CALL(c, is_odd ? K_FREE_MR_ODD : K_FREE_MR, setsockopt(fd, SOL_RDS, RDS_FREE_MR, &args, sizeof(args)));
}
