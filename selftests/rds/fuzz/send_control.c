// SPDX-License-Identifier: GPL-2.0
/* Messages with control data. */
#include "send.h"

static struct rds_iovec any_range(struct caller *c)
{
	size_t size = chance(c, 2) ? 4096 : any_number(c);
	uint64_t at = chance(c, 2) ? (uintptr_t)c->scratch : chance(c, 2) ? (uintptr_t)source(c, &size) : any_number(c);

	return (struct rds_iovec){ at, size };
}

static struct rds_rdma_args any_transfer(struct caller *c)
{
	static struct rds_iovec vectors[4];
	struct rds_rdma_args args = {
		.cookie = any_number(c),
		.remote_vec = any_range(c),
		.local_vec_addr = chance(c, 4) ? any_number(c) : (uintptr_t)vectors,
		.nr_local = chance(c, 8) ? any_number(c) : pick(c, 6),
		.flags = pick(c, 256),
		.user_token = any_number(c),
	};

	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
		vectors[i] = any_range(c);
	return args;
}

static struct rds_atomic_args any_atomic(struct caller *c)
{
	struct rds_atomic_args args = {
		.cookie = any_number(c),
		.local_addr = any_range(c).addr,
		.remote_addr = any_range(c).addr,
		.m_cswp = { any_number(c), any_number(c), any_number(c), any_number(c) },
		.flags = pick(c, 256),
		.user_token = any_number(c),
	};

	return args;
}

/* One message of RDMA at the end of the control data, mostly of the right size. */
static void add_rdma(struct caller *c, struct control *control)
{
	union {
		struct rds_rdma_args transfer;
		struct rds_atomic_args atomic;
		struct rds_get_mr_args map;
		uint64_t cookie;
		char bytes[200];
	} u = { .bytes = "" };
	int type = 1 + pick(c, 9);
	size_t size = sizeof(u.atomic);

	switch (type) {
	case RDS_CMSG_RDMA_ARGS:
		u.transfer = any_transfer(c);
		size = sizeof(u.transfer);
		break;
	case RDS_CMSG_RDMA_DEST:
		u.cookie = any_number(c);
		size = sizeof(u.cookie);
		break;
	case RDS_CMSG_RDMA_MAP:
		u.map = (struct rds_get_mr_args){ any_range(c), any_range(c).addr, pick(c, 256) };
		size = sizeof(u.map);
		break;
	default:
		u.atomic = any_atomic(c);
	}
	if (chance(c, 6))
		size = pick(c, sizeof(u));
	control_add(control, SOL_RDS, type, &u, size);
}

void send_rdma(struct caller *c, struct shared s)
{
	struct outgoing o;

	outgoing_compose(c, &o, s, 5000);
	for (int i = pick(c, 3); i >= 0; i--)
		add_rdma(c, &o.control);
	outgoing_attach(&o);
	CALL(c, K_SEND_RDMA, sendmsg(s.fd, &o.msg, MSG_DONTWAIT));
}

void send_any_control(struct caller *c, struct shared s)
{
	struct outgoing o;

	outgoing_compose(c, &o, s, 5000);
	for (int i = pick(c, 4); i >= 0; i--) {
		uint32_t cookie = any_number(c);
		void *data;

		if (chance(c, 4)) {
			add_rdma(c, &o.control);
			continue;
		}
		data = control_add(&o.control, chance(c, 3) ? SOL_RDS : SOL_IP + (int)pick(c, 300),
				   chance(c, 4) ? (int)any_number(c) : RDS_CMSG_ZCOPY_COOKIE, &cookie, pick(c, 5));
		if (chance(c, 8))
			((struct cmsghdr *)((char *)data - CMSG_LEN(0)))->cmsg_len = any_number(c);
	}
	outgoing_attach(&o);
	if (chance(c, 8))
		o.msg.msg_controllen = odd_length(c, o.msg.msg_controllen);
	if (chance(c, 16))
		o.msg.msg_control = source(c, &(size_t){ 100 });
	CALL(c, K_SEND_CONTROL, sendmsg(s.fd, &o.msg, MSG_DONTWAIT));
}
