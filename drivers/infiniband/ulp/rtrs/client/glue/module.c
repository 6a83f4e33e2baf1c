// SPDX-License-Identifier: GPL-2.0
/* rtrs-client.ko: loading and unloading. */
#include <linux/module.h>

#include <kapi/linux.h>

#include "rtrs_clt_core.h"

static int __init rtrs_clt_module_init(void)
{
	return rtrs_clt_core_init(kapi_module_of(THIS_MODULE));
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
MODULE_VERSION("0.1");
