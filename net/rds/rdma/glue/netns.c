// SPDX-License-Identifier: GPL-2.0
/* Namespaces. */
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include <kapi/linux.h>

#include "glue.h"
#include "rds_rdma_core.h"

struct rds_rdma_glue_ns {
	struct rds_rdma_net *core;
};

static unsigned int rds_rdma_ns_id;

static int __net_init rds_rdma_ns_init(struct net *net)
{
	struct rds_rdma_glue_ns *ns = net_generic(net, rds_rdma_ns_id);

	return rds_rdma_net_create(kapi_net_of(net), &ns->core);
}

static void __net_exit rds_rdma_ns_exit(struct net *net)
{
	struct rds_rdma_glue_ns *ns = net_generic(net, rds_rdma_ns_id);

	rds_rdma_net_destroy(ns->core);
}

static struct pernet_operations rds_rdma_ns_ops = {
	.init = rds_rdma_ns_init,
	.exit = rds_rdma_ns_exit,
	.id = &rds_rdma_ns_id,
	.size = sizeof(struct rds_rdma_glue_ns),
};

int rds_rdma_glue_net_register(void)
{
	/* A device, not a subsystem, for the reason that RDS over TCP is one: this runs before RDS loses its namespace. */
	return register_pernet_device(&rds_rdma_ns_ops);
}

void rds_rdma_glue_net_unregister(void)
{
	unregister_pernet_device(&rds_rdma_ns_ops);
}
