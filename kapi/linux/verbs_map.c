// SPDX-License-Identifier: GPL-2.0
/* Mappings: memory as a device sees it. Each is a scatter list; one of a single entry lies in the mapping itself. */

#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <kapi/linux.h>

#include "charge.h"
#include "opaque.h"
#include "rxbuf.h"
#include "verbs.h"

void *kapi_alloc_contiguous(kapi_size size)
{
	might_sleep();
	/* Smaller ones are aligned to their size only when that is a power of two. */
	if (size < PAGE_SIZE)
		size = roundup_pow_of_two(max_t(size_t, size, 8));
	return kzalloc(size, GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
}
EXPORT_SYMBOL_GPL(kapi_alloc_contiguous);

static struct scatterlist *list_of(struct kapi_map_inside *map)
{
	return map->list ? map->list : &map->one;
}

static void free_list(struct kapi_map_inside *map)
{
	struct sg_table table = { .sgl = map->list, .nents = map->entries, .orig_nents = map->entries };

	if (map->list && !map->lent)
		sg_free_table(&table);
}

/* The list is made: the device gets it. After an error nothing is left. */
static int map_list(struct kapi_map_inside *map)
{
	int pieces = ib_dma_map_sg(map->ib, list_of(map), map->entries, map->direction);

	if (pieces <= 0) {
		free_list(map);
		return -EIO;
	}
	map->pieces = pieces;
	return 0;
}

/* Of bytes. Where memory is copied to where the device reaches it, what is copied in one piece has a limit, too. */
static unsigned int largest_entry(struct ib_device *ib)
{
	size_t largest = ib_dma_max_seg_size(ib);

	if (!ib_uses_virt_dma(ib))
		largest = min(largest, dma_max_mapping_size(ib->dma_device));
	return max_t(size_t, largest & PAGE_MASK, PAGE_SIZE);
}

static void begin(struct kapi_map_inside *map, struct kapi_rdma_dev *dev, enum kapi_map_direction direction)
{
	memset(map, 0, sizeof(*map));
	map->ib = dev->ib;
	map->direction = kapi_dma_direction(direction);
}

static void set_one(struct kapi_map_inside *map, struct page *page, unsigned int length, unsigned int offset)
{
	sg_init_table(&map->one, 1);
	sg_set_page(&map->one, page, length, offset);
	map->entries = 1;
	map->length = length;
}

/* ---- Segments ---- */

static struct page *page_of(const struct kapi_segment *segment, unsigned int done, unsigned int *offset)
{
	const char *at;

	if (segment->page) {
		*offset = segment->offset + done;
		return segment->page;
	}
	at = (const char *)segment->addr + done;
	*offset = offset_in_page(at);
	return is_vmalloc_addr(at) ? vmalloc_to_page(at) : virt_to_page(at);
}

/* What is contiguous in memory, of vmalloc's a page; and as much of it, to the end of a page, as the device takes in an entry. */
static unsigned int part_of(const struct kapi_segment *segment, unsigned int done, unsigned int offset, unsigned int largest)
{
	unsigned int most = segment->page || !is_vmalloc_addr(segment->addr) ? largest : PAGE_SIZE;

	return min(segment->length - done, most - (unsigned int)offset_in_page(offset));
}

static bool is_one(const struct kapi_segment *segment, unsigned int count, unsigned int largest)
{
	unsigned int offset = segment->page ? segment->offset : offset_in_page(segment->addr);

	return count == 1 && segment->length && part_of(segment, 0, offset, largest) == segment->length;
}

/* Parts that are neighbours in memory become one. With list NULL they are only counted. */
static unsigned int fill(struct scatterlist *list, const struct kapi_segment *segments, unsigned int count, unsigned int largest)
{
	phys_addr_t end = 0;
	unsigned int i, done, part, offset, length = 0, entries = 0;

	for (i = 0; i < count; i++) {
		for (done = 0; done < segments[i].length; done += part) {
			struct page *page = page_of(&segments[i], done, &offset);
			phys_addr_t at = page_to_phys(page) + offset;

			part = part_of(&segments[i], done, offset, largest);
			if (entries && at == end && (u64)length + part <= largest) {
				length += part;
				if (list)
					list->length = length;
			} else {
				if (list && entries)
					list = sg_next(list);
				if (list)
					sg_set_page(list, page, part, offset);
				length = part;
				entries++;
			}
			end = at + part;
		}
	}
	return entries;
}

int kapi_map_segments(struct kapi_map *kapi_map, struct kapi_rdma_dev *dev, const struct kapi_segment *segments,
		      unsigned int count, enum kapi_map_direction direction, enum kapi_alloc_mode mode)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, kapi_map);
	unsigned int largest = largest_entry(dev->ib), offset, i;
	struct sg_table table;

	begin(map, dev, direction);
	if (is_one(segments, count, largest)) {
		struct page *page = page_of(segments, 0, &offset);

		set_one(map, page, segments->length, offset);
		return map_list(map);
	}
	map->entries = fill(NULL, segments, count, largest);
	if (WARN_ON_ONCE(!map->entries))
		return -EIO;
	if (map->entries == 1) {
		sg_init_table(&map->one, 1);
	} else {
		if (sg_alloc_table(&table, map->entries, kapi_gfp_of(mode)))
			return -ENOMEM;
		map->list = table.sgl;
	}
	fill(list_of(map), segments, count, largest);
	for (i = 0; i < count; i++)
		map->length += segments[i].length;
	return map_list(map);
}
EXPORT_SYMBOL_GPL(kapi_map_segments);

/* ---- Other memory ---- */

int kapi_map_sg(struct kapi_map *kapi_map, struct kapi_rdma_dev *dev, struct kapi_sglist *list, unsigned int count,
		enum kapi_map_direction direction)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, kapi_map);
	struct scatterlist *entry;
	unsigned int i;

	begin(map, dev, direction);
	map->list = (struct scatterlist *)list;
	map->lent = true;
	map->entries = count;
	for_each_sg(map->list, entry, count, i)
		map->length += entry->length;
	return map_list(map);
}
EXPORT_SYMBOL_GPL(kapi_map_sg);

int kapi_map_pin(struct kapi_map *kapi_map, struct kapi_rdma_dev *dev, struct kapi_pin *pin, enum kapi_map_direction direction,
		 enum kapi_alloc_mode mode)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, kapi_map);
	struct sg_table table;

	begin(map, dev, direction);
	if (WARN_ON_ONCE(direction != KAPI_MAP_TO_DEVICE && !pin->write))
		return -EIO;
	if (pin->count == 1) {
		set_one(map, pin->pages[0], pin->length, pin->offset);
		return map_list(map);
	}
	if (sg_alloc_table_from_pages_segment(&table, pin->pages, pin->count, pin->offset, pin->length,
					      largest_entry(dev->ib), kapi_gfp_of(mode)))
		return -ENOMEM;
	map->list = table.sgl;
	map->entries = table.orig_nents;
	map->length = pin->length;
	return map_list(map);
}
EXPORT_SYMBOL_GPL(kapi_map_pin);

int kapi_map_rxbuf(struct kapi_map *kapi_map, struct kapi_rdma_dev *dev, struct kapi_rxbuf *buffer)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, kapi_map);
	struct sk_buff *skb = kapi_rxbuf_skb(buffer);

	begin(map, dev, KAPI_MAP_FROM_DEVICE);
	if (skb_headlen(skb))
		set_one(map, virt_to_page(skb->data), skb_headlen(skb), offset_in_page(skb->data));
	else
		set_one(map, skb_frag_page(&skb_shinfo(skb)->frags[0]), skb_frag_size(&skb_shinfo(skb)->frags[0]),
			skb_frag_off(&skb_shinfo(skb)->frags[0]));
	return map_list(map);
}
EXPORT_SYMBOL_GPL(kapi_map_rxbuf);

static void unmap(struct kapi_map *kapi_map, unsigned long attrs)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, kapi_map);

	ib_dma_unmap_sg_attrs(map->ib, list_of(map), map->entries, map->direction, attrs);
	free_list(map);
}

void kapi_unmap(struct kapi_map *map)
{
	unmap(map, 0);
}
EXPORT_SYMBOL_GPL(kapi_unmap);

/* Else a bounce buffer would be copied over the memory. */
void kapi_unmap_synced(struct kapi_map *map)
{
	unmap(map, DMA_ATTR_SKIP_CPU_SYNC);
}
EXPORT_SYMBOL_GPL(kapi_unmap_synced);

/* ---- Use ---- */

static void sync_part(const struct kapi_map_inside *map, u64 address, size_t length, enum kapi_map_side side)
{
	if (side == KAPI_MAP_FOR_CPU)
		ib_dma_sync_single_for_cpu(map->ib, address, length, map->direction);
	else
		ib_dma_sync_single_for_device(map->ib, address, length, map->direction);
}

/*
 * The device may see several entries as one piece; what is copied or flushed must not go beyond an entry, which alone is
 * contiguous in memory. So both are walked.
 */
static noinline void sync(struct kapi_map_inside *map, size_t offset, size_t length, enum kapi_map_side side)
{
	struct scatterlist *entry = list_of(map), *piece = entry;
	size_t in_entry = 0, in_piece = 0;

	if (WARN_ON_ONCE(offset > map->length || length > map->length - offset))
		return;
	if (likely(map->entries == 1)) {
		sync_part(map, sg_dma_address(entry) + offset, length, side);
		return;
	}
	while (length) {
		size_t part = min_t(size_t, entry->length - in_entry, sg_dma_len(piece) - in_piece);
		size_t skipped = min_t(size_t, part, offset);
		size_t wanted = min_t(size_t, part - skipped, length);

		if (wanted)
			sync_part(map, sg_dma_address(piece) + in_piece + skipped, wanted, side);
		offset -= skipped;
		length -= wanted;
		in_entry += part;
		in_piece += part;
		if (in_entry == entry->length) {
			entry = sg_next(entry);
			in_entry = 0;
		}
		if (in_piece == sg_dma_len(piece)) {
			piece = sg_next(piece);
			in_piece = 0;
		}
	}
}

void kapi_map_sync(const struct kapi_map *kapi_map, kapi_size offset, kapi_size length, enum kapi_map_side side)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, (struct kapi_map *)kapi_map);

	if (!ib_uses_virt_dma(map->ib)) /* else the device's driver uses the memory as we do */
		sync(map, offset, length, side);
}
EXPORT_SYMBOL_GPL(kapi_map_sync);

/* Our own long lists are chained arrays of this size, the last entry of each leading to the next: they need not be walked. */
static struct scatterlist *piece_at(struct kapi_map_inside *map, unsigned int number)
{
	struct scatterlist *list = list_of(map);

	while (!map->lent && number >= SG_MAX_SINGLE_ALLOC - 1 && sg_is_chain(&list[SG_MAX_SINGLE_ALLOC - 1])) {
		list = sg_chain_ptr(&list[SG_MAX_SINGLE_ALLOC - 1]);
		number -= SG_MAX_SINGLE_ALLOC - 1;
	}
	while (number--)
		list = sg_next(list);
	return list;
}

unsigned int kapi_map_sges(const struct kapi_map *kapi_map, struct kapi_map_place *place, kapi_size *length,
			   const struct kapi_pd *pd, struct kapi_sge *sges, unsigned int count)
{
	struct kapi_map_inside *map = KAPI_INSIDE(struct kapi_map_inside, (struct kapi_map *)kapi_map);
	struct scatterlist *piece;
	unsigned int filled = 0;

	if (place->piece >= map->pieces)
		return 0;
	piece = map->list ? piece_at(map, place->piece) : &map->one;
	while (*length && filled < count && place->piece < map->pieces) {
		u32 part = min_t(size_t, *length, sg_dma_len(piece) - place->offset);

		sges[filled++] = (struct kapi_sge){
			.address = sg_dma_address(piece) + place->offset,
			.length = part,
			.key = pd->ib->local_dma_lkey,
		};
		*length -= part;
		place->offset += part;
		if (place->offset == sg_dma_len(piece)) {
			place->offset = 0;
			place->piece++;
			piece = sg_next(piece);
		}
	}
	return filled;
}
EXPORT_SYMBOL_GPL(kapi_map_sges);

kapi_size kapi_map_length(const struct kapi_map *kapi_map)
{
	return KAPI_INSIDE(struct kapi_map_inside, (struct kapi_map *)kapi_map)->length;
}
EXPORT_SYMBOL_GPL(kapi_map_length);
