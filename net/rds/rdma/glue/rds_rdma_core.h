/* SPDX-License-Identifier: GPL-2.0 */
/* The border between the C glue of rds_rdma.ko and its core. Context tags as in kapi/types.h. */
#ifndef RDS_RDMA_CORE_H
#define RDS_RDMA_CORE_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_module;
struct rds_rdma_net;

/* Values behind net.rds.ib.*. A connection has those of its beginning. */
struct rds_rdma_sysctl {
	unsigned long max_send_wr;         /* requests in a send queue */
	unsigned long max_recv_wr;         /* receives in a ring */
	unsigned long max_unsignaled_wr;   /* requests in a row that do not report their completion */
	unsigned long max_recv_allocation; /* buffers of 4096 bytes in the rings of all connections */
	unsigned int flow_control;         /* of no effect, as in the kernel's own */
};
/* Rows as in net/rds/glue/rds_core.h. */
struct rds_rdma_sysctl_row {
	const char *name;
	unsigned int offset;
	unsigned int size;
	unsigned long min, max;
};
extern const struct rds_rdma_sysctl_row rds_rdma_sysctl_table[];
extern const unsigned int rds_rdma_sysctl_rows;

/* [init] In the order of rds_tcp_core_init() and the others (net/rds/tcp/glue/rds_tcp_core.h). */
int rds_rdma_core_init(struct kapi_module *self);
int rds_rdma_core_publish(void);
void rds_rdma_core_withdraw(void);
void rds_rdma_core_exit(void);

int rds_rdma_net_create(struct kapi_net *host, struct rds_rdma_net **net); /* [init] listens in the initial namespace */
void rds_rdma_net_destroy(struct rds_rdma_net *net); /* [init] no connection is left in the namespace */
struct rds_rdma_sysctl *rds_rdma_net_sysctl(struct rds_rdma_net *net);

KAPI_END
#endif
