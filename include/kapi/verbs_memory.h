/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory for RDMA: what a device may read and write, for how long, and under which keys.
 *
 * Order of life: memory (allocated, pinned, or lent by the block layer) > mapping > region. What stands right ends first, and
 * none of them ends while a posted request uses it: not before its completion, or before kapi_qp_drain() has returned. For a
 * region that a peer may use it is the completion of KAPI_WR_INVALIDATE (or a KAPI_WC_INVALIDATED), the drain, or
 * kapi_mr_free().
 */
#ifndef KAPI_VERBS_MEMORY_H
#define KAPI_VERBS_MEMORY_H

#include <kapi/memory.h>
#include <kapi/pages.h>
#include <kapi/stream.h>
#include <kapi/verbs_queue.h>

KAPI_BEGIN

/* ---- Kernel memory ---- */

/* [sleep] Zeroed, in one piece for the device, aligned to the smaller of size and a page. kapi_free() frees it. NULL: no memory,
 * which is likely above 4 MiB. */
void *kapi_alloc_contiguous(kapi_size size) KAPI_NOEXCEPT;

/*
 * A received buffer that a device fills, then used like one of a stream (kapi/stream.h: copy, to_msg, true_size, free). size is
 * at most a page; the contents are undefined. NULL: no memory.
 */
struct kapi_rxbuf *kapi_rxbuf_create(kapi_u32 size, enum kapi_alloc_mode mode) KAPI_NOEXCEPT;
/* [any] Only its first length bytes were filled. Not while it is mapped. */
void kapi_rxbuf_trim(struct kapi_rxbuf *buffer, kapi_u32 length) KAPI_NOEXCEPT;

/* ---- A program's memory ---- */

struct kapi_pin; /* pages of a program, which stay where they are; it holds the program's address space, not the program */

/*
 * [task] Pins the pages with length bytes at address of the calling program; write: a device or a peer may change them. Pages are
 * charged to RLIMIT_MEMLOCK of the program's address space, and stay charged until kapi_unpin(), in any task. -EINVAL: no
 * bytes, more than 1 GiB, or they wrap around; -EFAULT: not mapped, or not writable; -ENOMEM: no memory, or the limit is reached,
 * maybe by pages of the user's programs that were given back and cannot be unpinned yet; -EOPNOTSUPP: memory that cannot stay
 * pinned (a file on DAX): kapi_mr_on_demand() may help.
 */
int kapi_pin_user(kapi_u64 address, kapi_size length, int write, struct kapi_pin **pin) KAPI_NOEXCEPT;
/* [any] Gives the pages and the charge back, maybe a moment later. dirty: they were changed. NULL allowed. Once. */
void kapi_unpin(struct kapi_pin *pin, int dirty) KAPI_NOEXCEPT;
unsigned int kapi_pin_pages(const struct kapi_pin *pin) KAPI_NOEXCEPT; /* [any] of 4 KiB, for a limit of our own */

/* ---- Mappings ---- */

enum kapi_map_direction {
	KAPI_MAP_TO_DEVICE = 1,      /* sent, written to the peer, read by the peer */
	KAPI_MAP_FROM_DEVICE = 2,    /* received, read from the peer, written by the peer */
	KAPI_MAP_BOTH = 3,
};

struct kapi_sglist; /* the block layer's scatter list, struct scatterlist */

/*
 * Memory that a device may use. It lies in the owner's memory and may be moved there. Pieces that are neighbours for the device
 * are one piece. While it is mapped TO_DEVICE nobody changes the memory, and while FROM_DEVICE nobody looks at it, but between
 * the two calls of kapi_map_sync(); kapi_unmap() makes what the device wrote visible.
 */
struct kapi_map {
	unsigned long opaque[KAPI_SIZE_MAP / sizeof(unsigned long)];
};

/*
 * [any] Maps count segments, which are of kapi_pages_segments(), or addr is memory of kapi_alloc(), kapi_zalloc() or
 * kapi_alloc_contiguous(): not on a stack, not static. One segment in one piece needs no memory, more are allocated by mode.
 * -ENOMEM; -EIO: the device cannot reach it.
 */
int kapi_map_segments(struct kapi_map *map, struct kapi_rdma_dev *dev, const struct kapi_segment *segments, unsigned int count,
		      enum kapi_map_direction direction, enum kapi_alloc_mode mode) KAPI_NOEXCEPT;
/* [any] A list of the block layer with count entries, which stays as it is until kapi_unmap(). Needs no memory. -EIO. */
int kapi_map_sg(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_sglist *list, unsigned int count,
		enum kapi_map_direction direction) KAPI_NOEXCEPT;
/* [any] Pinned pages, exactly the bytes that were pinned. FROM_DEVICE and BOTH only when pinned to be written. -ENOMEM, -EIO. */
int kapi_map_pin(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_pin *pin, enum kapi_map_direction direction,
		 enum kapi_alloc_mode mode) KAPI_NOEXCEPT;
/* [any] A buffer of kapi_rxbuf_create(), FROM_DEVICE. Needs no memory. -EIO. */
int kapi_map_rxbuf(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_rxbuf *buffer) KAPI_NOEXCEPT;
/* [any] Once. */
void kapi_unmap(struct kapi_map *map) KAPI_NOEXCEPT;
/*
 * [any] The same for memory that has other mappings, or that is in use meanwhile: the bytes stay as they are. What the device
 * wrote is visible where kapi_map_sync() made it so.
 */
void kapi_unmap_synced(struct kapi_map *map) KAPI_NOEXCEPT;
/*
 * [any] For a mapping that is used more than once: to the CPU before we look at or change the bytes, to the device before it uses
 * them again.
 */
enum kapi_map_side { KAPI_MAP_FOR_CPU = 1, KAPI_MAP_FOR_DEVICE = 2 };
void kapi_map_sync(const struct kapi_map *map, kapi_size offset, kapi_size length, enum kapi_map_side side) KAPI_NOEXCEPT;

/* A place in a mapping; zeroed it is the beginning. */
struct kapi_map_place {
	kapi_u32 piece, offset;
};
/*
 * [any] Fills at most count sges with the next *length bytes from place on, under the local key of pd. Returns how many were
 * filled; place is behind them, and *length is what did not fit (0: nothing).
 */
unsigned int kapi_map_sges(const struct kapi_map *map, struct kapi_map_place *place, kapi_size *length, const struct kapi_pd *pd,
			   struct kapi_sge *sges, unsigned int count) KAPI_NOEXCEPT;
kapi_size kapi_map_length(const struct kapi_map *map) KAPI_NOEXCEPT; /* [any] bytes */

/* ---- Regions: memory under a key ---- */

/*
 * [sleep] A region for up to pages of 4 KiB, free. gaps: its pieces need not fill their pages (KAPI_RDMA_GAPS). -EINVAL,
 * -ENOMEM.
 */
int kapi_mr_alloc(struct kapi_pd *pd, unsigned int pages, int gaps, struct kapi_mr **mr) KAPI_NOEXCEPT;
/*
 * [sleep] Its key is dead when this returns, valid or not. No REGISTER or INVALIDATE of it is outstanding. Not from done(). NULL
 * allowed. Negative: the device is broken and did not give it up: mr is freed, but while connections of its protection domain
 * exist peers may use its memory, if it was valid. So that memory and its mapping must never be freed.
 */
int kapi_mr_free(struct kapi_mr *mr) KAPI_NOEXCEPT;

/*
 * [any] Gives a free region the bytes of map, all of them and no others, which become valid under a new key when KAPI_WR_REGISTER
 * has been executed; that one is to be posted before any that uses the key. The address of the first byte is its place within a
 * page of 4 KiB: peers get it, and learn nothing about where the host's memory lies. -EINVAL: a gap (a piece that is not the
 * first does not begin a page, or one that is not the last does not end one); -EMSGSIZE: too many pages. After an error a region
 * without gaps is as it was before.
 */
int kapi_mr_map(struct kapi_mr *mr, const struct kapi_map *map) KAPI_NOEXCEPT;
/*
 * [any] A free region with the same bytes again, under a new key: REGISTER follows. Returns the key. What was posted of it on
 * another queue pair has been executed, but need not have completed.
 */
kapi_u32 kapi_mr_next_key(struct kapi_mr *mr) KAPI_NOEXCEPT;
kapi_u32 kapi_mr_key(const struct kapi_mr *mr) KAPI_NOEXCEPT;       /* [any] for peers; only its low 8 bits ever change */
kapi_u32 kapi_mr_local_key(const struct kapi_mr *mr) KAPI_NOEXCEPT; /* [any] for the target of a read over iWARP */
kapi_u64 kapi_mr_address(const struct kapi_mr *mr) KAPI_NOEXCEPT;   /* [any] of the first byte, for peers */

/*
 * [task] A region of the calling program's memory that is valid at once and pinned by nothing: the device fetches pages when
 * they are used, and an access to what is not mapped by then, or not to be written, fails as one beyond the region does. The
 * first byte has the address iova, which equals its place within a page; access is enum kapi_access. Also for local use, under
 * kapi_mr_local_key(). kapi_mr_free() ends it, in any task. -EOPNOTSUPP: the device has no KAPI_RDMA_ON_DEMAND; -EINVAL: no
 * bytes, too many, they wrap around, iova, or access; -EFAULT: the memory is not mapped, or not to be written and access is, as
 * far as the device finds that out at once; -ENOMEM.
 */
int kapi_mr_on_demand(struct kapi_pd *pd, kapi_u64 address, kapi_size length, kapi_u64 iova, kapi_u32 access,
		      struct kapi_mr **mr) KAPI_NOEXCEPT;

KAPI_END
#endif
