// SPDX-License-Identifier: GPL-2.0
/*
 * rds_tcp.ko: loading and unloading. Like rds.ko it has no alias that would let a program load it: it opens a
 * listening port in every namespace.
 */
#include <linux/module.h>

#include <kapi/linux.h>

#include "../../glue/abi.h"
#include "glue.h"
#include "rds_tcp_core.h"

/* Refers to the symbol, so that the module loader requires it. */
static const int *const rds_transport_abi __used = &RDS_TRANSPORT_ABI;

static int __init rds_tcp_module_init(void)
{
	int err;

	err = rds_tcp_core_init(kapi_module_of(THIS_MODULE));
	if (err)
		return err;
	err = rds_tcp_glue_net_register();
	if (err)
		goto out_core;
	/* Last: from here on programs use the module, and its text would go under them if a later step failed. */
	err = rds_tcp_core_publish();
	if (err)
		goto out_net;
	return 0;

out_net:
	rds_tcp_glue_net_unregister();
out_core:
	rds_tcp_core_exit();
	return err;
}

static void __exit rds_tcp_module_exit(void)
{
	rds_tcp_core_withdraw();
	rds_tcp_glue_net_unregister();
	rds_tcp_core_exit();
}

module_init(rds_tcp_module_init);
module_exit(rds_tcp_module_exit);

MODULE_DESCRIPTION("RDS over TCP");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
