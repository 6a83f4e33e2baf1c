// SPDX-License-Identifier: GPL-2.0
/* Namespaces and /proc/sys/net/rds/tcp, of which each namespace has its own. */
#include <linux/version.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include <kapi/linux.h>

#include "../../glue/sysctl.h"
#include "glue.h"
#include "rds_tcp_core.h"

struct rds_tcp_glue_ns {
	struct rds_tcp_net *core;
	struct rds_sysctl_dir dir;
};

static unsigned int rds_tcp_ns_id;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define RDS_TABLE struct ctl_table
#else
#define RDS_TABLE const struct ctl_table
#endif

static int rds_tcp_sysctl_handler(RDS_TABLE *entry, int write, void *buffer, size_t *length, loff_t *offset)
{
	int err;

	err = proc_douintvec_minmax(entry, write, buffer, length, offset);
	if (!err && write)
		rds_tcp_net_sysctl_changed(rds_sysctl_owner(entry));
	return err;
}

static int rds_tcp_sysctl_create(struct rds_tcp_glue_ns *ns, struct net *net)
{
	char *values = (char *)rds_tcp_net_sysctl(ns->core);
	unsigned int i;
	int err;

	err = rds_sysctl_dir_init(&ns->dir, rds_tcp_sysctl_rows);
	if (err)
		return err;
	for (i = 0; i < rds_tcp_sysctl_rows; i++) {
		const struct rds_tcp_sysctl_row *row = &rds_tcp_sysctl_table[i];

		/* All values are ints, and core is notified of all changes. */
		if (WARN_ON(row->size != sizeof(int)))
			continue;
		rds_sysctl_dir_add(&ns->dir, row->name, values + row->offset, row->size, row->min, row->max,
				   rds_tcp_sysctl_handler, ns->core);
	}
	err = rds_sysctl_dir_register(&ns->dir, net, "net/rds/tcp");
	if (err)
		rds_sysctl_dir_destroy(&ns->dir);
	return err;
}

static int __net_init rds_tcp_ns_init(struct net *net)
{
	struct rds_tcp_glue_ns *ns = net_generic(net, rds_tcp_ns_id);
	int err;

	err = rds_tcp_net_create(kapi_net_of(net), &ns->core);
	if (err)
		return err;
	err = rds_tcp_sysctl_create(ns, net);
	if (err)
		rds_tcp_net_destroy(ns->core);
	return err;
}

static void __net_exit rds_tcp_ns_exit(struct net *net)
{
	struct rds_tcp_glue_ns *ns = net_generic(net, rds_tcp_ns_id);

	rds_sysctl_dir_destroy(&ns->dir);
	rds_tcp_net_destroy(ns->core);
}

static struct pernet_operations rds_tcp_ns_ops = {
	.init = rds_tcp_ns_init,
	.exit = rds_tcp_ns_exit,
	.id = &rds_tcp_ns_id,
	.size = sizeof(struct rds_tcp_glue_ns),
};

int rds_tcp_glue_net_register(void)
{
	/*
	 * A device, not a subsystem: devices of a namespace end first, newest first, so that this runs before RDS
	 * and TCP lose theirs and while the interfaces are still up.
	 */
	return register_pernet_device(&rds_tcp_ns_ops);
}

void rds_tcp_glue_net_unregister(void)
{
	unregister_pernet_device(&rds_tcp_ns_ops);
}
