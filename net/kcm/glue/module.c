// SPDX-License-Identifier: GPL-2.0
/*
 * kcm.ko: loading and unloading.
 *
 * There is no MODULE_ALIAS_NETPROTO(PF_KCM): with it socket(AF_KCM) by any user would load this module.
 * Loading it is the administrator's choice (modprobe, modules-load.d).
 */
#include <linux/module.h>

#include <kapi/linux.h>
#include <kapi/report.h>
#include <uapi/hawser_netlink.h>

#include "glue.h"
#include "kcm_core.h"

static int kcm_next_connection(struct kapi_net *net, struct kapi_report_place *place, struct kapi_report *report)
{
	return kcm_net_report_connection(kcm_glue_net(kapi_net_to_net(net)), place, report);
}

static int kcm_next_mux(struct kapi_net *net, struct kapi_report_place *place, struct kapi_report *report)
{
	return kcm_net_report_mux(kcm_glue_net(kapi_net_to_net(net)), place, report);
}

static const struct kapi_report_table kcm_report_tables[] = {
	{ .command = HAWSER_CMD_KCM_CONNECTION_GET, .next = kcm_next_connection },
	{ .command = HAWSER_CMD_KCM_MUX_GET, .next = kcm_next_mux },
};

static int __init kcm_module_init(void)
{
	int err;

	err = kcm_core_init();
	if (err)
		return err;
	err = kcm_glue_net_register();
	if (err)
		goto out_core;
	/* Last: from here on programs make sockets, and the module's text would go under them if a later step failed. */
	err = kcm_glue_family_register();
	if (err)
		goto out_net;
	/* Cannot fail, for the same reason. */
	kapi_report_register(kapi_module_of(THIS_MODULE), kcm_report_tables, ARRAY_SIZE(kcm_report_tables));
	return 0;

out_net:
	kcm_glue_net_unregister();
out_core:
	kcm_core_exit();
	return err;
}

static void __exit kcm_module_exit(void)
{
	kapi_report_unregister(kcm_report_tables, ARRAY_SIZE(kcm_report_tables));
	kcm_glue_family_unregister();
	kcm_glue_net_unregister();
	kcm_core_exit();
}

module_init(kcm_module_init);
module_exit(kcm_module_exit);

MODULE_DESCRIPTION("KCM: message sockets over TCP connections");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
