// SPDX-License-Identifier: GPL-2.0
#include "incoming.h"

namespace rds {

namespace {

constexpr u32 inline_max = 4096;       // payloads up to here are copied into the object
constexpr u32 keep_min = 1024;         // smaller pieces of a large payload are copied
constexpr u32 copy_chunk_bytes = 3840; // room for such pieces, allocated at a time

} // namespace

Result<Ref<Incoming>> Incoming::create(const Header& header)
{
    u32 length = header.length;
    bool inlined = length <= inline_max || header.flags == flag_congestion_map;
    usize tail = inlined ? length : 0;
    auto* incoming = make_with_tail<Incoming>(Alloc::atomic, tail);
    if (!incoming)
        return fail(KAPI_ENOMEM);
    incoming->header = header;
    incoming->inlined_ = inlined;
    incoming->true_size_ = kapi_alloc_true_size(sizeof(Incoming) + tail);
    return Ref<Incoming>::adopt(incoming);
}

Result<Ref<Incoming>> Incoming::from_message(Ref<Message> message)
{
    auto* incoming = make_with_tail<Incoming>(Alloc::atomic, 0);
    if (!incoming)
        return fail(KAPI_ENOMEM);
    incoming->header = message->header();
    incoming->filled_ = message->length();
    incoming->true_size_ = kapi_alloc_true_size(sizeof(Incoming)) + message->true_size();
    incoming->looped_ = std::move(message);
    return Ref<Incoming>::adopt(incoming);
}

void Incoming::destroy(Incoming* incoming)
{
    // Loops instead of recursing: a chain may be a thousand chunks long.
    while (Chunk* chunk = incoming->first_) {
        incoming->first_ = chunk->next;
        dispose(chunk);
    }
    dispose(incoming);
}

Result<> Incoming::append_chunk(Own<Chunk> chunk, usize cost)
{
    Chunk* added = chunk.release();
    (last_ ? last_->next : first_) = added;
    last_ = added;
    true_size_ += cost;
    return {};
}

Result<> Incoming::append_copy(kapi_rx* rx, usize offset, u32 size)
{
    // size is below keep_min, so at most one new chunk is needed when the last one is full.
    u32 room = last_ ? last_->capacity - min(last_->capacity, last_->size) : 0;
    u32 first = min(room, size);
    if (first < size) {
        Own<Chunk> chunk(make_with_tail<Chunk>(Alloc::atomic, copy_chunk_bytes));
        if (!chunk)
            return fail(KAPI_ENOMEM);
        chunk->capacity = copy_chunk_bytes;
        chunk->size = size - first;
        kapi_rx_copy(rx, offset + first, chunk->bytes(), size - first);
        Chunk* previous = last_;
        TRY(append_chunk(std::move(chunk), kapi_alloc_true_size(sizeof(Chunk) + copy_chunk_bytes)));
        if (first) {
            kapi_rx_copy(rx, offset, previous->bytes() + previous->size, first);
            previous->size += first;
        }
        return {};
    }
    kapi_rx_copy(rx, offset, last_->bytes() + last_->size, size);
    last_->size += size;
    return {};
}

Result<> Incoming::append(kapi_rx* rx, usize offset, u32 size)
{
    HW_ASSERT(size <= left());
    if (inlined_) {
        kapi_rx_copy(rx, offset, inline_payload() + filled_, size);
    } else if (size < keep_min) {
        TRY(append_copy(rx, offset, size));
    } else {
        Own<Chunk> chunk(make<Chunk>(Alloc::atomic));
        if (!chunk)
            return fail(KAPI_ENOMEM);
        chunk->network.reset(kapi_rx_keep(rx, offset, size));
        if (!chunk->network)
            return fail(KAPI_ENOMEM);
        chunk->size = size;
        usize cost = kapi_rxbuf_true_size(chunk->network.get()) + kapi_alloc_true_size(sizeof(Chunk));
        TRY(append_chunk(std::move(chunk), cost));
    }
    filled_ += size;
    return {};
}

const std::byte* Incoming::map_payload() const
{
    HW_ASSERT(inlined_ && filled_ == map_bytes);
    return reinterpret_cast<const std::byte*>(inline_payload());
}

Result<> Incoming::copy_to_user(kapi_msg* msg, u32 size) const
{
    HW_ASSERT(size <= header.length);
    if (size == 0)
        return {};
    if (looped_)
        return looped_->copy_payload(0, size, msg);
    if (inlined_)
        return check(kapi_msg_copy_out(msg, inline_payload(), size));
    for (Chunk* chunk = first_; chunk && size; chunk = chunk->next) {
        u32 part = min(size, chunk->size);
        if (chunk->network)
            TRY(check(kapi_rxbuf_to_msg(chunk->network.get(), 0, part, msg)));
        else
            TRY(check(kapi_msg_copy_out(msg, chunk->bytes(), part)));
        size -= part;
    }
    return {};
}

} // namespace rds
