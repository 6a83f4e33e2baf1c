// SPDX-License-Identifier: GPL-2.0
/* Messages with keys, with operations, with anything. */
#include "rdma_fuzz.h"

#define VECTORS 4
#define ATOMIC 8 /* bytes */

static long submit(struct caller *c, int fd, int kind, const void *data, size_t size, const struct control *control)
{
	struct addr to = some_peer(c);

	return CALL(c, kind, send_control(fd, data, size, &to, control, chance(c, 6) ? 0 : MSG_DONTWAIT));
}

static void plain(struct caller *c)
{
	size_t size = any_size(c, 100000);
	const char *data = content(c, &size);
	struct addr to = some_peer(c);

	CALL(c, K_SEND, sendto(some_socket(c), data, size, MSG_DONTWAIT, &to.sa, to.len));
}

/* That the key is of, mostly. */
static int own_socket(struct caller *c, const struct region *r)
{
	return r->cookie && !odd(c, 8) ? r->socket : some_socket(c);
}

/* A key that is there, or one that comes to be with the message. */
static void key(struct caller *c)
{
	struct region r = own_region(c);
	struct offer offer = { OFFER, r.size };
	struct control control = { .len = 0 };
	struct rds_get_mr_args map = { .vec = any_range(c, odd(c, 8)), .cookie_addr = (uintptr_t)&r.cookie };

	if (odd(c, 8) || (r.cookie && chance(c, 2))) {
		control_add(&control, SOL_RDS, RDS_CMSG_RDMA_DEST, &r.cookie, sizeof(r.cookie));
		if (submit(c, own_socket(c, &r), K_SEND_DEST, &offer, sizeof(offer), &control) < 0 && errno == EINVAL)
			forget_own(r.slot);
		return;
	}
	map.flags = odd(c, 4) ? pick(c, 256) : RDS_RDMA_READWRITE;
	offer.size = r.size = map.vec.bytes;
	r.socket = some_socket(c);
	control_add(&control, SOL_RDS, RDS_CMSG_RDMA_MAP, &map, sizeof(map));
	if (submit(c, r.socket, K_SEND_MAP, &offer, sizeof(offer), &control) >= 0)
		keep_own(c, r);
}

void call_send(struct caller *c)
{
	if (chance(c, 2))
		plain(c);
	else
		key(c);
}

/* ---- operations */

static uint64_t any_flags_of_operation(struct caller *c)
{
	uint64_t flags = chance(c, 2) ? RDS_RDMA_NOTIFY_ME : 0;

	if (chance(c, 2))
		flags |= RDS_RDMA_SILENT;
	if (chance(c, 4))
		flags |= RDS_RDMA_FENCE;
	return odd(c, 24) ? pick(c, 256) : flags;
}

/* The size of the local memory is the remote one's, in one piece or several; mostly. */
static size_t split(struct caller *c, struct rds_iovec vectors[VECTORS], bool writes, size_t size)
{
	size_t count = 1 + pick(c, VECTORS), each = size / count;
	const char *from = content(c, &(size_t){ 1 });

	for (size_t i = 0; i < count; i++) {
		size_t part = i + 1 < count ? each : size - each * i;

		if (odd(c, 40)) {
			vectors[i] = any_range(c, true);
			continue;
		}
		if (writes && chance(c, 4)) {
			size_t rest = part;

			from = content(c, &rest);
			vectors[i] = (struct rds_iovec){ (uintptr_t)from, rest };
		} else {
			vectors[i] = (struct rds_iovec){ (uintptr_t)c->scratch + pick(c, LARGEST - part), part };
		}
	}
	return count;
}

/* None only in wild times. */
static struct region usable_region(struct caller *c)
{
	struct region r = peers_region(c);

	for (int tries = 0; !r.cookie && is_calm() && tries < 100; tries++)
		r = peers_region(c);
	return r;
}

static void transfer(struct caller *c, struct region r)
{
	bool writes = chance(c, 2);
	size_t size = 1 + (r.size ? pick(c, r.size) : 0), rest;
	struct rds_iovec vectors[VECTORS];
	struct rds_rdma_args args = { .cookie = r.cookie,
				      .local_vec_addr = (uintptr_t)vectors,
				      .flags = any_flags_of_operation(c) | (writes ? RDS_RDMA_READWRITE : 0),
				      .user_token = r.slot };
	struct control control = { .len = 0 };

	if (size > LARGEST / 2)
		size = LARGEST / 2;
	rest = r.size > size ? r.size - size : 0;
	args.remote_vec.bytes = size;
	args.remote_vec.addr = odd(c, 12) ? any_number(c) : pick(c, rest + 1);
	args.nr_local = split(c, vectors, writes, size);
	control_add(&control, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	submit(c, some_socket(c), writes ? K_WRITE : K_READ, &args, args.flags & RDS_RDMA_SILENT ? 0 : pick(c, 16), &control);
}

static void atomic(struct caller *c, struct region r)
{
	struct rds_atomic_args args = { .cookie = r.cookie,
					.local_addr = (uintptr_t)c->scratch + 8 * pick(c, 1000) + (odd(c, 40) ? 3 : 0),
					.remote_addr = odd(c, 8) ? any_number(c) : 0,
					.flags = any_flags_of_operation(c),
					.user_token = r.slot };
	int type = chance(c, 4) ? RDS_CMSG_MASKED_ATOMIC_FADD + (int)pick(c, 2) :
				  RDS_CMSG_ATOMIC_FADD + (int)pick(c, 2);
	struct control control = { .len = 0 };

	args.m_cswp.compare = any_number(c);
	args.m_cswp.swap = any_number(c);
	args.m_cswp.compare_mask = chance(c, 2) ? ~0ULL : any_number(c);
	args.m_cswp.swap_mask = ~0ULL;
	control_add(&control, SOL_RDS, type, &args, sizeof(args));
	submit(c, some_socket(c), K_ATOMIC, NULL, 0, &control);
}

/* Control messages of all types with odd contents and sizes, several in one message. */
static void anything(struct caller *c)
{
	struct control control = { .len = 0 };
	struct rds_iovec vectors[VECTORS];
	union {
		struct rds_rdma_args transfer;
		struct rds_atomic_args atomic;
		struct rds_get_mr_args map;
		uint64_t words[25];
	} u;
	char data[16] = "";

	for (int i = pick(c, 3); i >= 0; i--) {
		for (size_t w = 0; w < ARRAY_SIZE(u.words); w++)
			u.words[w] = chance(c, 3) ? peers_region(c).cookie : any_number(c);
		if (chance(c, 2)) {
			u.transfer.nr_local = chance(c, 4) ? any_number(c) : pick(c, VECTORS + 1);
			u.transfer.local_vec_addr = (uintptr_t)vectors;
			split(c, vectors, true, any_size(c, LARGEST / 2));
		}
		control_add(&control, SOL_RDS, 1 + pick(c, 9), &u, chance(c, 2) ? sizeof(u.transfer) : pick(c, sizeof(u)));
	}
	submit(c, some_socket(c), K_SEND_ODD, data, pick(c, sizeof(data)), &control);
}

void call_operation(struct caller *c)
{
	struct region r = usable_region(c);

	if (!r.cookie && !odd(c, 30)) /* it ends the connection for all */
		return;
	/* An atomic operation would be beyond the end. */
	if (r.size < ATOMIC && is_calm())
		return transfer(c, r);
	switch (pick(c, 8)) {
	case 0:
		return odd(c, 1) ? anything(c) : atomic(c, r);
	case 1:
	case 2:
		return atomic(c, r);
	default:
		return transfer(c, r);
	}
}
