// SPDX-License-Identifier: GPL-2.0
/* kapi_test.ko: exercises kapi from C++ in a kernel. Loading runs the tests; a failed one fails the load. */

#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>

#include "kapi_test.h"

static bool out_of_bounds;
module_param(out_of_bounds, bool, 0);
MODULE_PARM_DESC(out_of_bounds, "do nothing but read behind an allocation in C++, which KASAN must report");

static bool race;
module_param(race, bool, 0);
MODULE_PARM_DESC(race, "do nothing but count in two contexts without a lock in C++, which KCSAN must report");

static bool wrong_type;
module_param(wrong_type, bool, 0);
MODULE_PARM_DESC(wrong_type, "do nothing but call a C++ function through a pointer of another type, which CFI must report");

void kapi_test_plan(unsigned long tests)
{
	pr_info("kapi_test: 1..%lu\n", tests);
}

void kapi_test_report(int ok, int number, const char *name)
{
	pr_info("kapi_test: %sok %d %s\n", ok ? "" : "not ", number, name);
}

void kapi_test_signal(int pending)
{
	spin_lock_irq(&current->sighand->siglock);
	if (pending)
		set_thread_flag(TIF_SIGPENDING);
	else
		recalc_sigpending();
	spin_unlock_irq(&current->sighand->siglock);
}

int kapi_test_with_msg(void *memory, kapi_size size, int into, int (*use)(struct kapi_msg *msg, void *context),
		       void *context)
{
	struct kvec vector = { .iov_base = memory, .iov_len = size };
	struct msghdr msg = {};

	iov_iter_kvec(&msg.msg_iter, into ? ITER_DEST : ITER_SOURCE, &vector, 1, size);
	return use(kapi_msg_of(&msg), context);
}

kapi_size kapi_test_page_size(const void *page)
{
	return page_size(compound_head((struct page *)page));
}

static int __init kapi_test_init(void)
{
	if (out_of_bounds)
		return kapi_test_out_of_bounds();
	if (race)
		return kapi_test_race();
	if (wrong_type)
		return kapi_test_wrong_type();
	return kapi_test_run(kapi_net_of(&init_net));
}

static void __exit kapi_test_exit(void)
{
}

module_init(kapi_test_init);
module_exit(kapi_test_exit);

MODULE_DESCRIPTION("hawser: self-test of kapi");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
