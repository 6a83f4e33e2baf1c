// SPDX-License-Identifier: GPL-2.0
/* Namespaces: each has its own list of multiplexors, shown in its /proc/net. */
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include <kapi/linux.h>

#include "glue.h"
#include "kcm_core.h"

struct kcm_glue_ns {
	struct kcm_net *core;
};

static unsigned int kcm_ns_id;

struct kcm_net *kcm_glue_net(struct net *net)
{
	struct kcm_glue_ns *ns = net_generic(net, kcm_ns_id);

	return ns->core;
}

static int __net_init kcm_ns_init(struct net *net)
{
	struct kcm_glue_ns *ns = net_generic(net, kcm_ns_id);
	int err;

	err = kcm_net_create(kapi_net_of(net), &ns->core);
	if (err)
		return err;
	err = kcm_glue_proc_create(net);
	if (err)
		kcm_net_destroy(ns->core);
	return err;
}

static void __net_exit kcm_ns_exit(struct net *net)
{
	struct kcm_glue_ns *ns = net_generic(net, kcm_ns_id);

	kcm_glue_proc_remove(net);
	kcm_net_destroy(ns->core);
}

static struct pernet_operations kcm_ns_ops = {
	.init = kcm_ns_init,
	.exit = kcm_ns_exit,
	.id = &kcm_ns_id,
	.size = sizeof(struct kcm_glue_ns),
};

int kcm_glue_net_register(void)
{
	return register_pernet_subsys(&kcm_ns_ops);
}

void kcm_glue_net_unregister(void)
{
	unregister_pernet_subsys(&kcm_ns_ops);
}
