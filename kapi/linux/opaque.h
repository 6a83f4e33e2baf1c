/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is inside kapi's opaque storage. Includes no kapi header: the sizes that those need are made from this
 * file (sizes.c). KAPI_INSIDE() gets at the inside of an opaque object and checks that it fits.
 */
#ifndef KAPI_LINUX_OPAQUE_H
#define KAPI_LINUX_OPAQUE_H

#include <linux/build_bug.h>
#include <linux/lockdep.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct kapi_rcu_inside {
	struct rcu_head head;
	void (*release)(void *object);
};

struct kapi_work_inside {
	struct delayed_work delayed;
	void (*fn)(void *work);
};

#define KAPI_INSIDE(type, object) ({							\
	BUILD_BUG_ON(sizeof(type) > sizeof((object)->opaque));				\
	BUILD_BUG_ON(__alignof__(type) > __alignof__((object)->opaque));		\
	(type *)(object)->opaque; })

#endif
