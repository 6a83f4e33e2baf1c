// SPDX-License-Identifier: GPL-2.0
/* Namespaces and /proc/sys/net/rds/ib, of which each namespace has its own. */
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include <kapi/linux.h>

#include "../../glue/sysctl.h"
#include "glue.h"
#include "rds_rdma_core.h"

struct rds_rdma_glue_ns {
	struct rds_rdma_net *core;
	struct rds_sysctl_dir dir;
};

static unsigned int rds_rdma_ns_id;

static int rds_rdma_sysctl_create(struct rds_rdma_glue_ns *ns, struct net *net)
{
	char *values = (char *)rds_rdma_net_sysctl(ns->core);
	unsigned int i;
	int err;

	err = rds_sysctl_dir_init(&ns->dir, rds_rdma_sysctl_rows);
	if (err)
		return err;
	for (i = 0; i < rds_rdma_sysctl_rows; i++) {
		const struct rds_rdma_sysctl_row *row = &rds_rdma_sysctl_table[i];

		rds_sysctl_dir_add(&ns->dir, row->name, values + row->offset, row->size, row->min, row->max, NULL, NULL);
	}
	err = rds_sysctl_dir_register(&ns->dir, net, "net/rds/ib");
	if (err)
		rds_sysctl_dir_destroy(&ns->dir);
	return err;
}

static int __net_init rds_rdma_ns_init(struct net *net)
{
	struct rds_rdma_glue_ns *ns = net_generic(net, rds_rdma_ns_id);
	int err;

	err = rds_rdma_net_create(kapi_net_of(net), &ns->core);
	if (err)
		return err;
	err = rds_rdma_sysctl_create(ns, net);
	if (err)
		rds_rdma_net_destroy(ns->core);
	return err;
}

static void __net_exit rds_rdma_ns_exit(struct net *net)
{
	struct rds_rdma_glue_ns *ns = net_generic(net, rds_rdma_ns_id);

	rds_sysctl_dir_destroy(&ns->dir);
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
