// SPDX-License-Identifier: GPL-2.0
/* hawser.ko: kapi for this kernel and the C++ runtime. It holds functions and no state of any protocol. */

#include <linux/module.h>

#include <kapi/linux.h>

#include "charge.h"
#include "filter.h"
#include "objects.h"
#include "pages.h"
#include "report.h"
#include "rxbuf.h"
#include "stream.h"

const int KAPI_ABI = 1;
EXPORT_SYMBOL_GPL(KAPI_ABI);

static int __init hawser_init(void)
{
	int error = kapi_streams_init();

	kapi_charge_init();
	if (error)
		return error;
	kapi_objects_init();
	error = kapi_filters_init();
	if (error)
		goto streams;
	error = kapi_reports_init();
	if (error)
		goto filters;
	/* Last: what it allocates is not freed. */
	error = kapi_adopt_init();
	if (error)
		goto reports;
	return 0;

reports:
	kapi_reports_exit();
filters:
	kapi_filters_exit();
streams:
	kapi_streams_exit();
	kapi_objects_exit();
	return error;
}

static void __exit hawser_exit(void)
{
	kapi_reports_exit();
	kapi_filters_exit();
	kapi_streams_exit();
	kapi_fresh_pages_free();
	kapi_rx_spares_free();
	kapi_objects_exit();
}

module_init(hawser_init);
module_exit(hawser_exit);

MODULE_DESCRIPTION("hawser: the functions of the kernel that the hawser protocol modules use");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
