// SPDX-License-Identifier: GPL-2.0
/* The sizes of opaque storage that this kernel's objects need, for the build: becomes kapi_sizes.h. */

#include <linux/kbuild.h>

#include "opaque.h"
#include "verbs_opaque.h"

/* Storage is made of longs; an object that is empty without lockdep still takes one. */
#define SIZE(name, type) DEFINE(name, sizeof(type) ? ALIGN(sizeof(type), 8) : 8)

int main(void);

int main(void)
{
	SIZE(KAPI_SIZE_SPIN, spinlock_t);
	SIZE(KAPI_SIZE_LOCK_KEY, struct lock_class_key);
	SIZE(KAPI_SIZE_WAITQ, struct wait_queue_head);
	SIZE(KAPI_SIZE_WAITER, struct wait_queue_entry);
	SIZE(KAPI_SIZE_WORK, struct kapi_work_inside);
	SIZE(KAPI_SIZE_RCU, struct kapi_rcu_inside);
	SIZE(KAPI_SIZE_MSG_MARK, struct iov_iter);
	SIZE(KAPI_SIZE_MAP, struct kapi_map_inside);
	SIZE(KAPI_SIZE_WR, union kapi_wr_inside);
	SIZE(KAPI_SIZE_RECV_WR, struct ib_recv_wr);
	return 0;
}
