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
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct kapi_rcu;
struct kapi_work;

/*
 * Functions keep their real types: a kernel with CFI stops a call through any other, even when only the types of
 * pointers differ.
 */
struct kapi_rcu_inside {
	struct rcu_head head;
	void (*release)(struct kapi_rcu *object);
};

struct kapi_work_inside {
	struct delayed_work delayed;
	void (*fn)(struct kapi_work *work);
};

/* A work queue is per CPU by default; newer kernels require the flag. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define KAPI_WQ_PER_CPU WQ_PERCPU
#else
#define KAPI_WQ_PER_CPU 0
#endif

/* The opaque object begins where its inside does, for it holds nothing else. */
#define KAPI_OUTSIDE(type, inside) ((type *)(inside))

#define KAPI_INSIDE(type, object) ({							\
	BUILD_BUG_ON(sizeof(type) > sizeof((object)->opaque));				\
	BUILD_BUG_ON(__alignof__(type) > __alignof__((object)->opaque));		\
	(type *)(object)->opaque; })

#endif
