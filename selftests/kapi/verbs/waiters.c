// SPDX-License-Identifier: GPL-2.0
/* Threads that try to pin pages with a limit of their own (RLIMIT_MEMLOCK); and a busy page, whose pins do not end. */

#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/pagemap.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include <kapi/verbs_memory.h>

#include "verbs_test.h"

struct waiter {
	struct task_struct *task;
	struct mm_struct *mm;
	struct verbs_test_wants wants;
	unsigned long longest; /* of its calls, jiffies */
	bool refused, allowed;
};

static struct waiter waiters[VERBS_TEST_WAITERS];
static bool stopping;
static struct page *busy;

static void try_to_pin(struct waiter *waiter)
{
	unsigned long began = jiffies;
	struct kapi_pin *pin;

	/* Nothing is mapped there, which is noticed when the pages are charged. */
	if (kapi_pin_user(PAGE_SIZE, waiter->wants.pages * PAGE_SIZE, 1, &pin) == -ENOMEM)
		WRITE_ONCE(waiter->refused, true);
	else
		WRITE_ONCE(waiter->allowed, true);
	WRITE_ONCE(waiter->longest, max(waiter->longest, jiffies - began));
}

static int pin_in_vain(void *context)
{
	struct waiter *waiter = context;

	kthread_use_mm(waiter->mm);
	verbs_test_unprivileged(1);
	current->signal->rlim[RLIMIT_MEMLOCK].rlim_cur = waiter->wants.limit * PAGE_SIZE;
	do
		try_to_pin(waiter);
	while (!READ_ONCE(stopping) && !schedule_timeout_uninterruptible(1));
	kthread_unuse_mm(waiter->mm);
	return 0;
}

/* A thread whose memory is that of the first process. */
static struct mm_struct *mm_of_another(void)
{
	struct pid *pid = find_get_pid(1);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;

	if (task)
		put_task_struct(task);
	put_pid(pid);
	return mm;
}

static struct mm_struct *mm_of_this(void)
{
	mmget(current->mm);
	return current->mm;
}

int verbs_test_start_waiter(unsigned int number, const struct verbs_test_wants *wants)
{
	struct waiter *waiter = &waiters[number];

	stopping = false;
	*waiter = (struct waiter){ .mm = wants->other ? mm_of_another() : mm_of_this(), .wants = *wants };
	if (!waiter->mm)
		return -ENOMEM;
	waiter->task = kthread_create(pin_in_vain, waiter, "kapi_waiter");
	if (IS_ERR(waiter->task)) {
		waiter->task = NULL;
		return -ENOMEM;
	}
	get_task_struct(waiter->task);
	wake_up_process(waiter->task);
	return 0;
}

int verbs_test_start_waiters(int other)
{
	const struct verbs_test_wants wants = { .other = other, .pages = 1 };
	unsigned int i;
	int error;

	for (i = 0; i < VERBS_TEST_WAITERS; i++) {
		error = verbs_test_start_waiter(i, &wants);
		if (error)
			return error;
	}
	return 0;
}

void verbs_test_stop_waiters(struct verbs_test_waiters *result)
{
	unsigned int i;

	verbs_test_count_waiters(result);
	WRITE_ONCE(stopping, true);
	for (i = 0; i < VERBS_TEST_WAITERS; i++) {
		if (waiters[i].task) {
			kthread_stop(waiters[i].task);
			put_task_struct(waiters[i].task);
		}
		if (waiters[i].mm)
			mmput(waiters[i].mm);
		waiters[i] = (struct waiter){};
	}
}

static void add_waiter(const struct waiter *waiter, struct verbs_test_waiters *result)
{
	if (!waiter->task)
		return;
	result->sleeps += waiter->task->nvcsw;
	result->refused += READ_ONCE(waiter->refused);
	result->allowed += READ_ONCE(waiter->allowed);
	result->longest_ms = max(result->longest_ms, jiffies_to_msecs(READ_ONCE(waiter->longest)));
}

void verbs_test_count_waiters(struct verbs_test_waiters *result)
{
	unsigned int i;

	*result = (struct verbs_test_waiters){};
	for (i = 0; i < VERBS_TEST_WAITERS; i++)
		add_waiter(&waiters[i], result);
}

void verbs_test_count_waiter(unsigned int number, struct verbs_test_waiters *result)
{
	*result = (struct verbs_test_waiters){};
	add_waiter(&waiters[number], result);
}

int verbs_test_make_busy(kapi_u64 at)
{
	if (get_user_pages_fast(at & PAGE_MASK, 1, FOLL_WRITE, &busy) != 1)
		return -EFAULT;
	lock_page(busy);
	return 0;
}

void verbs_test_make_idle(void)
{
	unlock_page(busy);
	put_page(busy);
}
