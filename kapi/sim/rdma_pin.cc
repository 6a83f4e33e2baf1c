// SPDX-License-Identifier: GPL-2.0
// Memory of programs that stays where it is while a device uses it, and memory in one piece.
#include <kapi/errno.h>

#include "rdma.h"

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
    if (!address)
        return -KAPI_EFAULT;
    Node &node = *Node::current();
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
