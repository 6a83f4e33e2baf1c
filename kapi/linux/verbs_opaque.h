/* SPDX-License-Identifier: GPL-2.0 */
/* What is inside the opaque storage of kapi's verbs. Like opaque.h, it includes no kapi header. */
#ifndef KAPI_LINUX_VERBS_OPAQUE_H
#define KAPI_LINUX_VERBS_OPAQUE_H

#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

/* It may be moved, so that nothing in it points into it. */
struct kapi_map_inside {
	struct ib_device *ib;
	struct scatterlist *list; /* NULL: one */
	struct scatterlist one;
	size_t length;
	unsigned int entries, pieces; /* of memory, and of what the device sees: mapping may have joined some */
	enum dma_data_direction direction;
	bool lent; /* the list is the block layer's */
};

/* All begin with the first. */
union kapi_wr_inside {
	struct ib_send_wr plain;
	struct ib_rdma_wr rdma;
	struct ib_atomic_wr atomic;
	struct ib_reg_wr reg;
};

#endif
