// SPDX-License-Identifier: GPL-2.0
/*
 * rds_rdma.ko: loading and unloading. Like rds.ko it has no alias that would let a program load it: it listens on ports of
 * RDMA's connection manager.
 */
#include <linux/module.h>

#include <kapi/linux.h>

#include "../../glue/abi.h"
#include "glue.h"
#include "rds_rdma_core.h"

/* Refers to the symbol, so that the module loader asks for it. */
static const int *const rds_transport_abi __used = &RDS_TRANSPORT_ABI;

static int __init rds_rdma_module_init(void)
{
	int err;

	err = rds_rdma_core_init(kapi_module_of(THIS_MODULE));
	if (err)
		return err;
	err = rds_rdma_glue_net_register();
	if (err)
		goto out_core;
	/* Last: from here on programs use the module, and its text would go under them if a later step failed. */
	err = rds_rdma_core_publish();
	if (err)
		goto out_net;
	return 0;

out_net:
	rds_rdma_glue_net_unregister();
out_core:
	rds_rdma_core_exit();
	return err;
}

static void __exit rds_rdma_module_exit(void)
{
	rds_rdma_core_withdraw();
	rds_rdma_glue_net_unregister();
	rds_rdma_core_exit();
}

module_init(rds_rdma_module_init);
module_exit(rds_rdma_module_exit);

MODULE_DESCRIPTION("RDS over RDMA");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
