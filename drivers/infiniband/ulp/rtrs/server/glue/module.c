// SPDX-License-Identifier: GPL-2.0
/* rtrs-server.ko: loading, unloading, parameters. */
#include <linux/module.h>

#include <kapi/linux.h>

#include "rtrs_srv_core.h"

static bool always_invalidate = true;
module_param(always_invalidate, bool, 0444);
MODULE_PARM_DESC(always_invalidate, "A client's key to a buffer ends before the user has its request (default: Y)");

static int max_chunk_size = 128 << 10;
module_param(max_chunk_size, int, 0444);
MODULE_PARM_DESC(max_chunk_size, "Bytes of a request with its message: a power of two, at least 8192 (default: 131072)");

static int sess_queue_depth = 512;
module_param(sess_queue_depth, int, 0444);
MODULE_PARM_DESC(sess_queue_depth, "Requests of a session at a time, each of which has a buffer (default: 512)");

static int __init rtrs_srv_module_init(void)
{
	struct rtrs_srv_core_params params = {
		.max_chunk_size = max_chunk_size,
		.sess_queue_depth = sess_queue_depth,
		.always_invalidate = always_invalidate,
	};

	return rtrs_srv_core_init(kapi_module_of(THIS_MODULE), &params);
}

static void __exit rtrs_srv_module_exit(void)
{
	rtrs_srv_core_exit();
}

module_init(rtrs_srv_module_init);
module_exit(rtrs_srv_module_exit);

MODULE_DESCRIPTION("RTRS server");
MODULE_AUTHOR("hawser");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
