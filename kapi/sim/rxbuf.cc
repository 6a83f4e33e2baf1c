// SPDX-License-Identifier: GPL-2.0
// Buffers of received bytes, a stream's or a device's.
#include "rxbuf.h"

#include <kapi/errno.h>
#include <kapi/share.h>
#include <kapi/verbs_memory.h>

#include <algorithm>
#include <cstring>

#include "node.h"
#include "rdma.h"
#include "tcp.h"
#include "user.h"

namespace sim {

bool charge_kept(Payer &payer, kapi_size size)
{
    Node &node = payer.node;
    if (kapi_share(payer.held, node.kept, node.kept_limit - std::min(node.kept, node.kept_limit), size) < 0)
        return false;
    if (!payer.held) {
        payer.self = payer.shared_from_this();
        node.adopt(&payer, [](void *object) { static_cast<Payer *>(object)->self.reset(); });
    }
    node.kept += size;
    payer.held += size;
    return true;
}

void uncharge_kept(Payer &payer, kapi_size size)
{
    if (size > payer.held)
        broken("%llu bytes are given back of %zu that are kept", static_cast<unsigned long long>(size), payer.held);
    payer.node.kept -= size;
    payer.held -= size;
    if (payer.held || !payer.self)
        return;
    payer.node.disown(&payer);
    payer.self.reset();
}

} // namespace sim

using namespace sim;

struct kapi_rxbuf *kapi_rxbuf_create(kapi_u32 size, enum kapi_alloc_mode mode) noexcept
{
    if (size > kPageSize)
        broken("a received buffer of %u bytes is made", size);
    auto *buffer = static_cast<kapi_rxbuf *>(kapi_alloc(sizeof(kapi_rxbuf) + size, mode));
    if (buffer) {
        buffer->next = nullptr;
        buffer->payer = nullptr;
        buffer->length = buffer->capacity = size;
    }
    return buffer;
}

void kapi_rxbuf_trim(struct kapi_rxbuf *buffer, kapi_u32 length) noexcept
{
    if (length > buffer->length)
        broken("a received buffer of %llu bytes is trimmed to %u", static_cast<unsigned long long>(buffer->length), length);
    expect_unmapped(buffer, sizeof(kapi_rxbuf) + buffer->capacity);
    buffer->length = length;
}

void kapi_rxbuf_free(struct kapi_rxbuf *buffer) noexcept
{
    if (buffer && buffer->payer)
        uncharge_kept(*buffer->payer, rxbuf_true_size(buffer->capacity));
    kapi_free(buffer);
}

// What core allocates for itself.

int kapi_rx_charge(struct kapi_rx *rx, kapi_size size, struct kapi_payer **payer) noexcept
{
    if (World::current_task()->callback_of != rx->tcb)
        broken("an offer is charged outside of rx()");
    if (!rx->tcb->of_program)
        return 0;
    if (fault("kapi_rx_charge") || !charge_kept(*rx->tcb->payer, size))
        return -KAPI_ENOMEM;
    rx->tcb->node->kept_by_core += size;
    *payer = reinterpret_cast<kapi_payer *>(rx->tcb->payer.get());
    return 0;
}

void kapi_rx_uncharge(struct kapi_payer *payer, kapi_size size) noexcept
{
    if (!payer)
        return;
    auto &of = *reinterpret_cast<Payer *>(payer);
    of.node.kept_by_core -= size;
    uncharge_kept(of, size); // it may have been the last to hold it
}

kapi_size kapi_rxbuf_length(const struct kapi_rxbuf *buffer) noexcept
{
    return buffer->length;
}

kapi_size kapi_rxbuf_true_size(const struct kapi_rxbuf *buffer) noexcept
{
    return rxbuf_true_size(buffer->capacity);
}

struct kapi_rxbuf **kapi_rxbuf_next(struct kapi_rxbuf *buffer) noexcept
{
    return &buffer->next;
}

void kapi_rxbuf_copy(const struct kapi_rxbuf *buffer, kapi_size offset, void *to, kapi_size size) noexcept
{
    if (offset > buffer->length || size > buffer->length - offset)
        broken("a received buffer is read beyond its end");
    if (size)
        std::memcpy(to, buffer->bytes + offset, size);
}

int kapi_rxbuf_to_msg(const struct kapi_rxbuf *buffer, kapi_size offset, kapi_size size, struct kapi_msg *msg) noexcept
{
    if (offset > buffer->length || size > buffer->length - offset)
        broken("a received buffer is read beyond its end");
    return kapi_msg_copy_out(msg, buffer->bytes + offset, size);
}
