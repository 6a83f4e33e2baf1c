// SPDX-License-Identifier: GPL-2.0
//
// Makes faults that the lab must notice: insmod lab_bite.ko mode=warn|oops|hung|leak|locks

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *mode = "";
module_param(mode, charp, 0);
MODULE_PARM_DESC(mode, "which fault to make");

static void *leaked[2];		// holds the leaked memory until it is cleared
static DECLARE_COMPLETION(never);

static void make_leak(void)
{
	leaked[0] = kmalloc(200, GFP_KERNEL);
	leaked[1] = kmalloc(200, GFP_KERNEL);
	leaked[0] = NULL;
	leaked[1] = NULL;
}

// Sleeping under a spin lock: only a debug kernel reports it.
static void sleep_locked(void)
{
	static DEFINE_SPINLOCK(lock);

	spin_lock(&lock);
	msleep(20);
	spin_unlock(&lock);
}

static int __init bite_init(void)
{
	if (!strcmp(mode, "warn"))
		WARN(1, "lab_bite warns on purpose\n");
	else if (!strcmp(mode, "oops"))
		*(volatile int *)8 = 1;
	else if (!strcmp(mode, "hung"))
		wait_for_completion_timeout(&never, 20 * HZ);
	else if (!strcmp(mode, "leak"))
		make_leak();
	else if (!strcmp(mode, "locks"))
		sleep_locked();
	else
		return -EINVAL;
	return 0;
}

static void __exit bite_exit(void)
{
}

module_init(bite_init);
module_exit(bite_exit);
MODULE_DESCRIPTION("Faults on purpose, for the lab's own tests");
MODULE_LICENSE("GPL");
