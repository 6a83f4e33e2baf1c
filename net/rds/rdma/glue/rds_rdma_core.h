/* SPDX-License-Identifier: GPL-2.0 */
/* The border between the C glue of rds_rdma.ko and its core. Context tags as in kapi/types.h. */
#ifndef RDS_RDMA_CORE_H
#define RDS_RDMA_CORE_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_module;
struct rds_rdma_net;

/* [init] In the order of rds_tcp_core_init() and the others (net/rds/tcp/glue/rds_tcp_core.h). */
int rds_rdma_core_init(struct kapi_module *self);
int rds_rdma_core_publish(void);
void rds_rdma_core_withdraw(void);
void rds_rdma_core_exit(void);

int rds_rdma_net_create(struct kapi_net *host, struct rds_rdma_net **net); /* [init] listens */
void rds_rdma_net_destroy(struct rds_rdma_net *net); /* [init] no connection is left in the namespace */

KAPI_END
#endif
