// SPDX-License-Identifier: GPL-2.0
/* RDMA devices: those who watch them, what they can do, protection domains. */

#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include <kapi/linux.h>

#include "verbs.h"

/* A removal that waits is reported so often. */
#define REMOVAL_REPORT (10 * HZ)

struct kapi_rdma_watcher {
	const struct kapi_rdma_watch_ops *ops;
	void *context;
	struct list_head entry;
};

/* One device and one watch at a time; held while added() and removed() run. */
static DEFINE_MUTEX(watch_mutex);
static LIST_HEAD(watches);
/* Changed with both held. */
static DEFINE_SPINLOCK(devs_lock);
static LIST_HEAD(devs);

bool kapi_rdma_is_soft(const struct ib_device *ib)
{
	return ib->ops.driver_id == RDMA_DRIVER_RXE;
}

bool kapi_rdma_sends_late(const struct ib_device *ib)
{
	return ib->ops.driver_id == RDMA_DRIVER_SIW;
}

bool kapi_rdma_repeats_registrations(const struct kapi_rdma_dev *dev)
{
	return kapi_rdma_is_soft(dev->ib);
}

/*
 * Soft-RoCE of 7.2 (drivers/infiniband/sw/rxe/rxe_odp.c) says that it can, and copies each packet to or from the beginning of a
 * page, wherever in it the bytes are; an address under the key that is not the program's leads out of its table of pages.
 */
static u32 on_demand_flags(const struct ib_device *ib)
{
	const u32 needed = IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_WRITE;
	u32 caps = ib->attrs.odp_caps.per_transport_caps.rc_odp_caps;
	u32 flags = KAPI_RDMA_ON_DEMAND;

	if (!(ib->attrs.kernel_cap_flags & IBK_ON_DEMAND_PAGING) || !(ib->attrs.odp_caps.general_caps & IB_ODP_SUPPORT) ||
	    (caps & needed) != needed || rdma_protocol_iwarp(ib, rdma_start_port(ib)) || kapi_rdma_is_soft(ib))
		return 0;
	if (caps & IB_ODP_SUPPORT_ATOMIC)
		flags |= KAPI_RDMA_ON_DEMAND_ATOMICS;
	return flags;
}

static u32 flags_of(struct ib_device *ib)
{
	const struct ib_device_attr *attrs = &ib->attrs;
	u32 flags = on_demand_flags(ib);

	if (rdma_protocol_iwarp(ib, rdma_start_port(ib)))
		flags |= KAPI_RDMA_IWARP;
	if (attrs->atomic_cap != IB_ATOMIC_NONE)
		flags |= KAPI_RDMA_ATOMICS;
	if (attrs->masked_atomic_cap != IB_ATOMIC_NONE)
		flags |= KAPI_RDMA_MASKED_ATOMICS;
	if (attrs->kernel_cap_flags & IBK_SG_GAPS_REG)
		flags |= KAPI_RDMA_GAPS;
	if (kapi_rdma_is_soft(ib))
		flags |= KAPI_RDMA_FENCE_HANGS;
	return flags;
}

static void learn_attrs(struct ib_device *ib, struct kapi_rdma_attrs *to)
{
	const struct ib_device_attr *from = &ib->attrs;

	strscpy_pad(to->name, dev_name(&ib->dev), sizeof(to->name));
	to->guid = be64_to_cpu(ib->node_guid);
	to->flags = flags_of(ib);
	to->max_wr = max(from->max_qp_wr, 1) - 1;
	to->max_sge = min(from->max_send_sge, from->max_recv_sge);
	to->max_read_sge = from->max_sge_rd;
	to->max_cqe = from->max_cqe;
	to->max_mr = from->max_mr;
	if (from->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS)
		to->max_mr_pages = from->max_fast_reg_page_list_len;
	to->max_reads_in = from->max_qp_rd_atom;
	to->max_reads_out = from->max_qp_init_rd_atom;
	/* A device does not report how much it can take; it is seen when a queue pair is made. */
	to->max_inline = 0;
	to->vectors = ib->num_comp_vectors;
	to->node = ibdev_to_node(ib);
}

static int add_device(struct ib_device *ib)
{
	struct kapi_rdma_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	struct kapi_rdma_watcher *watch;

	if (!dev)
		return -ENOMEM;
	dev->ib = ib;
	refcount_set(&dev->refs, 1);
	spin_lock_init(&dev->lock);
	init_waitqueue_head(&dev->unused);
	learn_attrs(ib, &dev->attrs);
	mutex_lock(&watch_mutex);
	spin_lock_bh(&devs_lock);
	list_add_tail(&dev->entry, &devs);
	spin_unlock_bh(&devs_lock);
	list_for_each_entry(watch, &watches, entry)
		watch->ops->added(watch->context, dev, &dev->attrs);
	mutex_unlock(&watch_mutex);
	return 0;
}

static struct kapi_rdma_dev *find(const struct ib_device *ib)
{
	struct kapi_rdma_dev *dev;

	list_for_each_entry(dev, &devs, entry)
		if (dev->ib == ib)
			return dev;
	return NULL;
}

/* What is made from now on fails. */
static void begin_going(struct kapi_rdma_dev *dev)
{
	spin_lock_bh(&devs_lock);
	list_del(&dev->entry);
	spin_unlock_bh(&devs_lock);
	spin_lock_bh(&dev->lock);
	dev->going = true;
	spin_unlock_bh(&dev->lock);
}

static bool is_unused(struct kapi_rdma_dev *dev)
{
	bool unused;

	spin_lock_bh(&dev->lock);
	unused = !dev->users;
	spin_unlock_bh(&dev->lock);
	return unused;
}

static void wait_until_unused(struct kapi_rdma_dev *dev)
{
	while (!wait_event_timeout(dev->unused, is_unused(dev), REMOVAL_REPORT))
		pr_err("hawser: the removal of %s waits for what was made of it\n", dev->attrs.name);
}

static void remove_device(struct ib_device *ib, void *data)
{
	struct kapi_rdma_watcher *watch;
	struct kapi_rdma_dev *dev;

	mutex_lock(&watch_mutex);
	dev = find(ib); /* the list changes with this mutex held only */
	if (dev) {
		begin_going(dev);
		list_for_each_entry(watch, &watches, entry)
			watch->ops->removed(watch->context, dev);
	}
	mutex_unlock(&watch_mutex);
	if (dev) {
		wait_until_unused(dev);
		kapi_rdma_dev_put(dev);
	}
}

struct kapi_rdma_dev *kapi_rdma_dev_get(const struct ib_device *ib)
{
	struct kapi_rdma_dev *dev;

	spin_lock_bh(&devs_lock);
	dev = find(ib);
	if (dev)
		refcount_inc(&dev->refs);
	spin_unlock_bh(&devs_lock);
	return dev;
}

void kapi_rdma_dev_put(struct kapi_rdma_dev *dev)
{
	if (dev && refcount_dec_and_test(&dev->refs))
		kfree(dev);
}

bool kapi_rdma_dev_use(struct kapi_rdma_dev *dev)
{
	bool here;

	spin_lock_bh(&dev->lock);
	here = !dev->going;
	dev->users += here;
	spin_unlock_bh(&dev->lock);
	if (here)
		refcount_inc(&dev->refs);
	return here;
}

void kapi_rdma_dev_lose(struct kapi_rdma_dev *dev)
{
	spin_lock_bh(&dev->lock);
	if (!--dev->users)
		wake_up(&dev->unused);
	spin_unlock_bh(&dev->lock);
}

void kapi_rdma_dev_unuse(struct kapi_rdma_dev *dev)
{
	kapi_rdma_dev_lose(dev);
	kapi_rdma_dev_put(dev);
}

/* It is registered after the connection manager's, so that devices leave it first. */
static struct ib_client client = {
	.name = "hawser",
	.add = add_device,
	.remove = remove_device,
};

int kapi_verbs_devs_init(void)
{
	return ib_register_client(&client);
}

void kapi_verbs_devs_exit(void)
{
	ib_unregister_client(&client);
}

int kapi_rdma_watch(const struct kapi_rdma_watch_ops *ops, void *context, struct kapi_rdma_watcher **result)
{
	struct kapi_rdma_watcher *watch = kmalloc(sizeof(*watch), GFP_KERNEL | __GFP_NOWARN);
	struct kapi_rdma_dev *dev;

	might_sleep();
	if (!watch)
		return -ENOMEM;
	watch->ops = ops;
	watch->context = context;
	*result = watch;
	mutex_lock(&watch_mutex);
	list_add_tail(&watch->entry, &watches);
	list_for_each_entry(dev, &devs, entry)
		ops->added(context, dev, &dev->attrs);
	mutex_unlock(&watch_mutex);
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_rdma_watch);

void kapi_rdma_unwatch(struct kapi_rdma_watcher *watch)
{
	struct kapi_rdma_dev *dev;

	might_sleep();
	mutex_lock(&watch_mutex);
	list_del(&watch->entry);
	list_for_each_entry(dev, &devs, entry)
		watch->ops->removed(watch->context, dev);
	mutex_unlock(&watch_mutex);
	kfree(watch);
}
EXPORT_SYMBOL_GPL(kapi_rdma_unwatch);

const struct kapi_rdma_attrs *kapi_rdma_dev_attrs(const struct kapi_rdma_dev *dev)
{
	return &dev->attrs;
}
EXPORT_SYMBOL_GPL(kapi_rdma_dev_attrs);

int kapi_rdma_usable(const struct kapi_rdma_dev *dev, const struct kapi_net *net)
{
	return rdma_dev_access_netns(dev->ib, kapi_net_to_net(net));
}
EXPORT_SYMBOL_GPL(kapi_rdma_usable);

int kapi_pd_create(struct kapi_rdma_dev *dev, struct kapi_pd **result)
{
	struct kapi_pd *pd = kmalloc(sizeof(*pd), GFP_KERNEL | __GFP_NOWARN);

	might_sleep();
	if (!pd)
		return -ENOMEM;
	if (!kapi_rdma_dev_use(dev)) {
		kfree(pd);
		return -ENODEV;
	}
	pd->ib = ib_alloc_pd(dev->ib, 0);
	if (IS_ERR(pd->ib)) {
		int error = PTR_ERR(pd->ib);

		kfree(pd);
		kapi_rdma_dev_unuse(dev);
		return error;
	}
	pd->dev = dev;
	*result = pd;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_pd_create);

void kapi_pd_free(struct kapi_pd *pd)
{
	might_sleep();
	if (!pd)
		return;
	ib_dealloc_pd(pd->ib);
	kapi_rdma_dev_unuse(pd->dev);
	kfree(pd);
}
EXPORT_SYMBOL_GPL(kapi_pd_free);
