// SPDX-License-Identifier: GPL-2.0
/*
 * rds.ko: loading and unloading, and what the transports' modules link to.
 *
 * There is no MODULE_ALIAS_NETPROTO(PF_RDS): with it socket(AF_RDS) by any user would load this module.
 * Loading it is the administrator's choice (modprobe, modules-load.d).
 */
#include <linux/module.h>

#include <kapi/linux.h>

#include "abi.h"
#include "glue.h"
#include "rds_core.h"
#include "../transport.h"

/* Configurations that exist set it. A sender hands on to the worker after a fixed number of batches. */
static unsigned int send_batch_count = 1024;
module_param(send_batch_count, uint, 0444);
MODULE_PARM_DESC(send_batch_count, "Accepted as by the kernel's own, without effect");

const int RDS_TRANSPORT_ABI = 1;
EXPORT_SYMBOL_GPL(RDS_TRANSPORT_ABI);

EXPORT_SYMBOL_GPL(rds_transport_register);
EXPORT_SYMBOL_GPL(rds_transport_unregister);
EXPORT_SYMBOL_GPL(rds_transport_leave_net);
EXPORT_SYMBOL_GPL(rds_transport_end_streams);
EXPORT_SYMBOL_GPL(rds_conn_get);
EXPORT_SYMBOL_GPL(rds_conn_put);
EXPORT_SYMBOL_GPL(rds_conn_paths);
EXPORT_SYMBOL_GPL(rds_conn_is_foreign);
EXPORT_SYMBOL_GPL(rds_conn_payer);
EXPORT_SYMBOL_GPL(rds_conn_other_user);
EXPORT_SYMBOL_GPL(rds_conn_peer_is);
EXPORT_SYMBOL_GPL(rds_conn_stream_room);
EXPORT_SYMBOL_GPL(rds_conn_stream_added);
EXPORT_SYMBOL_GPL(rds_conn_stream_gone);
EXPORT_SYMBOL_GPL(rds_conn_is_peers);
EXPORT_SYMBOL_GPL(rds_conn_note);
EXPORT_SYMBOL_GPL(rds_path_notify);
EXPORT_SYMBOL_GPL(rds_path_stalled);
EXPORT_SYMBOL_GPL(rds_path_has_pinned);
EXPORT_SYMBOL_GPL(rds_path_retry_later);
EXPORT_SYMBOL_GPL(rds_path_acked);
EXPORT_SYMBOL_GPL(rds_inc_create);
EXPORT_SYMBOL_GPL(rds_inc_left);
EXPORT_SYMBOL_GPL(rds_inc_leaves);
EXPORT_SYMBOL_GPL(rds_inc_append);
EXPORT_SYMBOL_GPL(rds_inc_copies);
EXPORT_SYMBOL_GPL(rds_inc_attach);
EXPORT_SYMBOL_GPL(rds_inc_free);
EXPORT_SYMBOL_GPL(rds_inc_deliver);
EXPORT_SYMBOL_GPL(rds_out_header);
EXPORT_SYMBOL_GPL(rds_out_whole);
EXPORT_SYMBOL_GPL(rds_out_length);
EXPORT_SYMBOL_GPL(rds_out_segments);
EXPORT_SYMBOL_GPL(rds_out_rdma);
EXPORT_SYMBOL_GPL(rds_out_rdma_begins);
EXPORT_SYMBOL_GPL(rds_out_rdma_done);
EXPORT_SYMBOL_GPL(rds_out_hold);
EXPORT_SYMBOL_GPL(rds_out_put);
EXPORT_SYMBOL_GPL(rds_out_abandon);

static int __init rds_module_init(void)
{
	int err;

	err = rds_core_init();
	if (err)
		return err;
	err = rds_glue_net_register();
	if (err)
		goto out_core;
	/* Last: from here on programs make sockets, and the module's text would go under them if a later step failed. */
	err = rds_glue_family_register();
	if (err)
		goto out_net;
	/* Cannot fail, for the same reason. */
	kapi_report_register(kapi_module_of(THIS_MODULE), rds_report_tables, rds_report_table_count);
	return 0;

out_net:
	rds_glue_net_unregister();
out_core:
	rds_core_exit();
	return err;
}

static void __exit rds_module_exit(void)
{
	kapi_report_unregister(rds_report_tables, rds_report_table_count);
	rds_glue_family_unregister();
	rds_glue_net_unregister();
	rds_core_exit();
}

module_init(rds_module_init);
module_exit(rds_module_exit);

MODULE_DESCRIPTION("RDS: reliable datagram sockets");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
