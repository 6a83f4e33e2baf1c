// SPDX-License-Identifier: GPL-2.0
/* rtrs-client.ko: loading and unloading. */
#include <linux/module.h>

#include <kapi/linux.h>

#include "rtrs_clt_core.h"

static struct rtrs_clt_core_params params = RTRS_CLT_CORE_PRESETS;

module_param_named(heartbeat_interval_ms, params.heartbeat_interval_ms, uint, 0444);
MODULE_PARM_DESC(heartbeat_interval_ms, "How often a path of a new session sends a heartbeat (100 to 60000, default: 800)");

module_param_named(heartbeat_missed, params.heartbeat_missed, uint, 0444);
MODULE_PARM_DESC(heartbeat_missed, "How many intervals of silence a path survives (1 to 100, default: 4)");

module_param_named(reconnect_delay_ms, params.reconnect_delay_ms, uint, 0444);
MODULE_PARM_DESC(reconnect_delay_ms, "The longest time between two attempts to connect a path (100 to 600000, default: 2000)");

module_param_named(no_path_timeout_ms, params.no_path_timeout_ms, uint, 0444);
MODULE_PARM_DESC(no_path_timeout_ms, "How long a request waits for a path (0 to 3600000, default: 0)");

module_param_named(io_timeout_ms, params.io_timeout_ms, uint, 0444);
MODULE_PARM_DESC(io_timeout_ms, "How long a request may be without an answer (0: for ever, to 3600000, default: 0)");

static int __init rtrs_clt_module_init(void)
{
	return rtrs_clt_core_init(kapi_module_of(THIS_MODULE), &params);
}

static void __exit rtrs_clt_module_exit(void)
{
	rtrs_clt_core_exit();
}

module_init(rtrs_clt_module_init);
module_exit(rtrs_clt_module_exit);

MODULE_DESCRIPTION("RTRS client");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
