// SPDX-License-Identifier: GPL-2.0
/* Namespaces and /proc/sys/net/rds, of which each namespace has its own. */
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include <kapi/linux.h>

#include "glue.h"
#include "rds_core.h"
#include "sysctl.h"

struct rds_glue_ns {
	struct rds_net *core;
	struct rds_sysctl_dir dir;
};

static unsigned int rds_ns_id;

/* Programs that were written before RDS had a fixed family number read these. */
static int rds_pf = RDS_PF;
static int rds_sol = RDS_SOL;

struct rds_net *rds_glue_net(struct net *net)
{
	struct rds_glue_ns *ns = net_generic(net, rds_ns_id);

	return ns->core;
}

static void rds_add_constant(struct rds_sysctl_dir *dir, const char *name, int *value)
{
	struct ctl_table *entry = rds_sysctl_dir_next(dir);

	if (entry)
		*entry = (struct ctl_table){
			.procname = name,
			.data = value,
			.maxlen = sizeof(*value),
			.mode = 0444,
			.proc_handler = proc_dointvec,
		};
}

static int rds_sysctl_create(struct rds_glue_ns *ns, struct net *net)
{
	char *values = (char *)rds_net_sysctl(ns->core);
	unsigned int i;
	int err;

	err = rds_sysctl_dir_init(&ns->dir, rds_sysctl_rows + 2);
	if (err)
		return err;
	for (i = 0; i < rds_sysctl_rows; i++) {
		const struct rds_sysctl_row *row = &rds_sysctl_table[i];

		rds_sysctl_dir_add(&ns->dir, row->name, values + row->offset, row->size, row->min, row->max,
				   NULL, NULL);
		/* The handlers read a bound at each write, so it may be another value of the table. */
		if (row->min_is >= 0)
			ns->dir.table[i].extra1 = values + rds_sysctl_table[row->min_is].offset;
		if (row->max_is >= 0)
			ns->dir.table[i].extra2 = values + rds_sysctl_table[row->max_is].offset;
	}
	rds_add_constant(&ns->dir, "pf_rds", &rds_pf);
	rds_add_constant(&ns->dir, "sol_rds", &rds_sol);
	err = rds_sysctl_dir_register(&ns->dir, net, "net/rds");
	if (err)
		rds_sysctl_dir_destroy(&ns->dir);
	return err;
}

static int __net_init rds_ns_init(struct net *net)
{
	struct rds_glue_ns *ns = net_generic(net, rds_ns_id);
	int err;

	err = rds_net_create(kapi_net_of(net), &ns->core);
	if (err)
		return err;
	err = rds_sysctl_create(ns, net);
	if (err)
		rds_net_destroy(ns->core);
	return err;
}

static void __net_exit rds_ns_exit(struct net *net)
{
	struct rds_glue_ns *ns = net_generic(net, rds_ns_id);

	rds_sysctl_dir_destroy(&ns->dir);
	rds_net_destroy(ns->core);
}

static struct pernet_operations rds_ns_ops = {
	.init = rds_ns_init,
	.exit = rds_ns_exit,
	.id = &rds_ns_id,
	.size = sizeof(struct rds_glue_ns),
};

int rds_glue_net_register(void)
{
	/* A subsystem: it ends after the transports (devices), and before TCP, which was there first. */
	return register_pernet_subsys(&rds_ns_ops);
}

void rds_glue_net_unregister(void)
{
	unregister_pernet_subsys(&rds_ns_ops);
}
