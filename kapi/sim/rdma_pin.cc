// SPDX-License-Identifier: GPL-2.0
// Memory of programs that stays where it is while a device uses it, and memory in one piece.
#include <kapi/errno.h>

#include "rdma.h"

namespace sim {

void map_dax(Node &node, const void *memory, std::size_t length, bool writable)
{
    node.dax_files[reinterpret_cast<std::uintptr_t>(memory)] = {length, true, writable};
}

void unmap_dax(Node &node, const void *memory)
{
    node.dax_files.at(reinterpret_cast<std::uintptr_t>(memory)).mapped = false;
}

/** A file of which this is a part; null: none. */
static const Node::DaxFile *file_at(const Node &node, kapi_u64 address, std::size_t length)
{
    for (const auto &[begin, file] : node.dax_files)
        if (begin < address + length && address < begin + file.length)
            return &file;
    return nullptr;
}

bool can_access(const Node &node, kapi_u64 address, std::size_t length, bool write)
{
    const Node::DaxFile *file = file_at(node, address, length);
    return address && (!file || (file->mapped && (file->writable || !write)));
}

} // namespace sim

using namespace sim;

void *kapi_alloc_contiguous(kapi_size size) noexcept
{
    return kapi_zalloc(size, KAPI_SLEEP);
}

// A program's address is a host pointer to its memory; 0 is the one that faults.
int kapi_pin_user(kapi_u64 address, kapi_size length, int write, struct kapi_pin **result) noexcept
{
    enter_task("kapi_pin_user");
    constexpr kapi_size kMost = 1u << 30;
    if (!length || length > kMost || address + length < address)
        return -KAPI_EINVAL;
    Node &node = *Node::current();
    const Node::DaxFile *file = file_at(node, address, length);
    if (!address || (file && !file->mapped))
        return -KAPI_EFAULT;
    if (file)
        return -KAPI_EOPNOTSUPP;
    auto pages = static_cast<unsigned>((address % kPageSize + length + kPageSize - 1) / kPageSize);
    if (fault("kapi_pin_user") || pages > node.memlock_pages - node.pinned_pages)
        return -KAPI_ENOMEM;
    node.pinned_pages += pages;
    auto *bytes = reinterpret_cast<unsigned char *>(static_cast<std::uintptr_t>(address));
    auto *pin = new kapi_pin{&node, bytes, length, write != 0, pages};
    if (Task *task = World::current_task(); task->fiber.holds(bytes)) {
        pin->task = task->shared_from_this();
        task->pins++;
    }
    account(node, "pin", pin, [](void *object) { delete static_cast<kapi_pin *>(object); });
    *result = pin;
    return 0;
}

void kapi_unpin(struct kapi_pin *pin, int dirty) noexcept
{
    if (!pin)
        return;
    enter_any("kapi_unpin");
    if (pin->mappings)
        broken("pages are unpinned that a device may use");
    if (dirty && !pin->write)
        broken("pages were changed that were pinned to be read");
    pin->node->pinned_pages -= pin->pages;
    if (pin->task)
        pin->task->pins--;
    settle(*pin->node, "pin", pin);
    delete pin;
}

unsigned int kapi_pin_pages(const struct kapi_pin *pin) noexcept
{
    return pin->pages;
}
