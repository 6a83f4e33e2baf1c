// SPDX-License-Identifier: GPL-2.0
/* hawser_verbs.ko: kapi's verbs for this kernel, apart from hawser.ko because it needs InfiniBand's core. */

#include <linux/module.h>

#include <kapi/linux.h>

#include "opaque.h"
#include "verbs.h"

struct workqueue_struct *kapi_verbs_works, *kapi_verbs_completions;

static void free_queues(void)
{
	if (kapi_verbs_completions)
		destroy_workqueue(kapi_verbs_completions);
	if (kapi_verbs_works)
		destroy_workqueue(kapi_verbs_works);
}

static int __init hawser_verbs_init(void)
{
	int error = kapi_memlock_init();

	if (error)
		return error;
	error = -ENOMEM;
	kapi_pin_busy_init();
	kapi_verbs_works = alloc_workqueue("hawser_verbs", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	kapi_verbs_completions = alloc_workqueue("hawser_verbs_cq", KAPI_WQ_PER_CPU | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (kapi_verbs_works && kapi_verbs_completions)
		error = kapi_verbs_devs_init();
	if (error) {
		free_queues();
		kapi_memlock_exit();
	}
	return error;
}

static void __exit hawser_verbs_exit(void)
{
	kapi_verbs_devs_exit();
	kapi_verbs_pins_exit();
	free_queues();
	kapi_memlock_exit();
}

module_init(hawser_verbs_init);
module_exit(hawser_verbs_exit);

MODULE_DESCRIPTION("hawser: RDMA for the hawser protocol modules");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
