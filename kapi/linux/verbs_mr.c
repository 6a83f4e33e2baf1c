// SPDX-License-Identifier: GPL-2.0
/* Regions: memory under a key. */

#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <kapi/linux.h>

#include "opaque.h"
#include "verbs.h"

/* Takes over what a device made. */
static int wrap(struct kapi_pd *pd, struct ib_mr *ib, unsigned int pages, bool gaps, struct kapi_mr **result)
{
	struct kapi_mr *mr;

	if (IS_ERR(ib))
		return PTR_ERR(ib);
	mr = kmalloc(sizeof(*mr), GFP_KERNEL | __GFP_NOWARN);
	if (!mr) {
		ib_dereg_mr(ib);
		return -ENOMEM;
	}
	mr->ib = ib;
	mr->pages = pages;
	mr->gaps = gaps;
	mr->mapped = false;
	mr->dev = pd->dev;
	refcount_inc(&mr->dev->refs);
	*result = mr;
	return 0;
}

int kapi_mr_alloc(struct kapi_pd *pd, unsigned int pages, int gaps, struct kapi_mr **mr)
{
	const struct kapi_rdma_attrs *attrs = &pd->dev->attrs;

	might_sleep();
	if (!pages || pages > attrs->max_mr_pages || (gaps && !(attrs->flags & KAPI_RDMA_GAPS)))
		return -EINVAL;
	return wrap(pd, ib_alloc_mr(pd->ib, gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG, pages), pages, gaps, mr);
}
EXPORT_SYMBOL_GPL(kapi_mr_alloc);

int kapi_mr_free(struct kapi_mr *mr)
{
	int error;

	might_sleep();
	if (!mr)
		return 0;
	error = ib_dereg_mr(mr->ib);
	if (error)
		pr_err_ratelimited("hawser: %s does not give up a region: its memory is lost\n", mr->dev->attrs.name);
	/* One on a processor copies with preemption off, and is not waited for by its driver. */
	if (mr->dev->attrs.flags & KAPI_RDMA_IWARP && ib_uses_virt_dma(mr->dev->ib))
		synchronize_rcu();
	kapi_rdma_dev_put(mr->dev);
	kfree(mr);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_mr_free);

/* A device that finds out itself has changed the region by then. */
static bool has_gap(struct scatterlist *list, unsigned int pieces)
{
	struct scatterlist *piece;
	dma_addr_t end = 0;
	unsigned int i;

	for_each_sg(list, piece, pieces, i) {
		dma_addr_t begin = sg_dma_address(piece);

		if (i && begin != end && (begin | end) & (SZ_4K - 1))
			return true;
		end = begin + sg_dma_len(piece);
	}
	return false;
}

static int check_fit(const struct kapi_mr *mr, const struct kapi_map_inside *map, struct scatterlist *list)
{
	u64 begin = sg_dma_address(list) & (SZ_4K - 1);

	if (WARN_ON_ONCE(!mr->pages))
		return -EINVAL;
	if (mr->gaps)
		return map->pieces > mr->pages ? -EMSGSIZE : 0;
	if (has_gap(list, map->pieces))
		return -EINVAL;
	return DIV_ROUND_UP(begin + map->length, SZ_4K) > mr->pages ? -EMSGSIZE : 0;
}

int kapi_mr_map(struct kapi_mr *mr, const struct kapi_map *kapi_map)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, (struct kapi_map *)kapi_map);
	struct scatterlist *list = map->list ? map->list : &map->one;
	int error = check_fit(mr, map, list);

	if (error)
		return error;
	mr->mapped = false;
	if (ib_map_mr_sg(mr->ib, list, map->pieces, NULL, SZ_4K) != map->pieces || mr->ib->length != map->length)
		return mr->gaps ? -EMSGSIZE : -EINVAL;
	mr->mapped = true;
	/* It was the address that the device uses, on a software device one of the kernel. Ocrdma computes with it (its fbo). */
	if (mr->ib->device->ops.driver_id != RDMA_DRIVER_OCRDMA)
		mr->ib->iova &= SZ_4K - 1;
	kapi_mr_next_key(mr);
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_mr_map);

kapi_u32 kapi_mr_next_key(struct kapi_mr *mr)
{
	if (WARN_ON_ONCE(!mr->pages))
		return mr->ib->rkey;
	ib_update_fast_reg_key(mr->ib, ib_inc_rkey(mr->ib->rkey));
	return mr->ib->rkey;
}
EXPORT_SYMBOL_GPL(kapi_mr_next_key);

kapi_u32 kapi_mr_key(const struct kapi_mr *mr)
{
	return mr->ib->rkey;
}
EXPORT_SYMBOL_GPL(kapi_mr_key);

kapi_u32 kapi_mr_local_key(const struct kapi_mr *mr)
{
	return mr->ib->lkey;
}
EXPORT_SYMBOL_GPL(kapi_mr_local_key);

kapi_u64 kapi_mr_address(const struct kapi_mr *mr)
{
	return mr->ib->iova;
}
EXPORT_SYMBOL_GPL(kapi_mr_address);

static int flags_of(u32 access)
{
	return IB_ACCESS_ON_DEMAND | (access & KAPI_ACCESS_LOCAL_WRITE ? IB_ACCESS_LOCAL_WRITE : 0) |
	       (access & KAPI_ACCESS_REMOTE_WRITE ? IB_ACCESS_REMOTE_WRITE : 0) |
	       (access & KAPI_ACCESS_REMOTE_READ ? IB_ACCESS_REMOTE_READ : 0) |
	       (access & KAPI_ACCESS_REMOTE_ATOMIC ? IB_ACCESS_REMOTE_ATOMIC : 0);
}

/* Fetches the pages once: the first use need not wait, and what cannot be used is found out, if the device takes such advice. */
static bool can_fetch(struct kapi_pd *pd, struct ib_mr *ib, u32 access)
{
	struct ib_sge all = { .addr = ib->iova, .length = ib->length, .lkey = ib->lkey };
	enum ib_uverbs_advise_mr_advice advice = access & KAPI_ACCESS_LOCAL_WRITE ? IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE :
										    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;

	return ib_advise_mr(pd->ib, advice, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &all, 1) != -EFAULT;
}

/* A device takes a region that begins at 0 and has the largest length for the whole address space: the length is checked here. */
int kapi_mr_on_demand(struct kapi_pd *pd, kapi_u64 address, kapi_size length, kapi_u64 iova, kapi_u32 access,
		      struct kapi_mr **mr)
{
	const u32 changes = KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_ATOMIC;
	int error;

	might_sleep();
	if (!(pd->dev->attrs.flags & KAPI_RDMA_ON_DEMAND))
		return -EOPNOTSUPP;
	if (!length || length > U32_MAX || (access & changes && !(access & KAPI_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
	if (address + length < address || iova + length < iova || offset_in_page(iova) != offset_in_page(address))
		return -EINVAL;
	if (!current->mm || !access_ok((void __user *)(unsigned long)address, length))
		return -EFAULT;
	error = wrap(pd, ib_reg_user_mr(pd->ib, address, length, iova, flags_of(access)), 0, false, mr);
	if (error || can_fetch(pd, (*mr)->ib, access))
		return error;
	kapi_mr_free(*mr);
	return -EFAULT;
}
EXPORT_SYMBOL_GPL(kapi_mr_on_demand);
