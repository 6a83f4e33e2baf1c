// SPDX-License-Identifier: GPL-2.0
// The bytes of a received message too large to be copied at once: a chain of pieces. A large piece is a part of a
// network buffer, kept by reference; small ones are copied together, so a peer cannot make each byte use a buffer.
#pragma once

#include <hawser/result.h>
#include <hawser/user.h>

namespace hw {

class ReceivedBytes : Pinned {
public:
    // pieces: how the memory for them is allocated.
    explicit ReceivedBytes(Alloc pieces) : alloc_(pieces) {}
    ~ReceivedBytes()
    {
        // Loops instead of recursing: a chain may be a thousand pieces long.
        for (Chunk* chunk = first_; chunk;) {
            Chunk* next = chunk->next();
            if (chunk != &own_)
                dispose(chunk);
            chunk = next;
        }
    }

    // Takes size bytes at offset of the offer. Any context. ENOMEM: nothing was taken.
    Result<> append(kapi_rx* rx, usize offset, u32 size)
    {
        if (size < keep_min)
            return append_copy(size, [&](u32 from, void* to, u32 part) { kapi_rx_copy(rx, offset + from, to, part); });
        RxBuffer kept(kapi_rx_keep(rx, offset, size));
        return kept ? keep(kept, size) : Result<>(fail(KAPI_ENOMEM));
    }
    // Takes buffer with its first size bytes, or a copy of them; then it stays the caller's. Any context. ENOMEM: nothing was
    // taken.
    Result<> append(RxBuffer& buffer, u32 size)
    {
        if (size >= keep_min)
            return keep(buffer, size);
        return append_copy(size, [&](u32 from, void* to, u32 part) { kapi_rxbuf_copy(buffer.get(), from, to, part); });
    }
    // What append() is about to allocate for itself: of an offer; of a copy. Those with network buffers come on top.
    usize cost_of(u32 size) const
    {
        if (size < keep_min)
            return cost_of_copy(size);
        return first_ ? kapi_alloc_true_size(sizeof(Chunk)) : 0;
    }
    usize cost_of_copy(u32 size) const
    {
        u32 room = room_behind_last();
        return size > room ? kapi_alloc_true_size(sizeof(Chunk) + capacity_for(size - room)) : 0;
    }
    usize own_size() const { return own_size_; } // that it has allocated for itself
    // Takes a copy of size bytes, fewer than keep_min at a time being the use. Any context. ENOMEM: nothing was taken.
    Result<> append(const u8* bytes, u32 size)
    {
        return append_copy(size, [&](u32 from, void* to, u32 part) { kapi_copy(to, bytes + from, part); });
    }
    // Copies size bytes from start on to the user. Sleeps. EFAULT.
    Result<> copy_to_user(kapi_msg* msg, u32 start, u32 size) const
    {
        for (Chunk* chunk = first_; chunk && size; chunk = chunk->next()) {
            if (start >= chunk->piece.size) {
                start -= chunk->piece.size;
                continue;
            }
            u32 part = min(size, chunk->piece.size - start);
            if (chunk->network)
                TRY(check(kapi_rxbuf_to_msg(chunk->network.get(), start, part, msg)));
            else
                TRY(check(kapi_msg_copy_out(msg, chunk->bytes() + start, part)));
            size -= part;
            start = 0;
        }
        return {};
    }
    usize true_size() const { return true_size_; }
    // The chain, for kapi_stream_give_back(); null when it is empty.
    const kapi_piece* pieces() const { return first_ ? &first_->piece : nullptr; }

private:
    static constexpr u32 keep_min = 1024;         // smaller pieces are copied
    // Room for them, allocated at a time: little at first, for often a large piece follows, then twice as much each time.
    static constexpr u32 copy_chunk_first = 448;
    static constexpr u32 copy_chunk_most = 3840;

    struct Chunk {
        kapi_piece piece{}; // first: the chain is one of pieces
        RxBuffer network;
        u32 capacity = 0; // of the bytes behind it; 0 with a network buffer
        u8* bytes() { return reinterpret_cast<u8*>(this + 1); }
        Chunk* next() const
        {
            static_assert(std::is_standard_layout_v<Chunk> && offsetof(Chunk, piece) == 0);
            return reinterpret_cast<Chunk*>(piece.next);
        }
    };

    Result<> keep(RxBuffer& buffer, u32 size)
    {
        Chunk* chunk = unused_chunk();
        if (!chunk)
            return fail(KAPI_ENOMEM);
        chunk->piece.buffer = buffer.get();
        chunk->piece.size = size;
        usize own = chunk == &own_ ? 0 : kapi_alloc_true_size(sizeof(Chunk)), cost = kapi_rxbuf_true_size(buffer.get());
        chunk->network = std::move(buffer);
        add(chunk, own, cost);
        return {};
    }
    // The first piece needs no memory of its own. Null: there is none.
    Chunk* unused_chunk() { return first_ ? make<Chunk>(alloc_) : &own_; }
    void add(Chunk* chunk, usize own, usize network)
    {
        if (last_)
            last_->piece.next = &chunk->piece;
        else
            first_ = chunk;
        last_ = chunk;
        own_size_ += own;
        true_size_ += own + network;
    }
    u32 room_behind_last() const { return last_ ? last_->capacity - min(last_->capacity, last_->piece.size) : 0; }
    u32 capacity_for(u32 rest) const
    {
        u32 grown = min(2 * (last_ ? last_->capacity : 0), copy_chunk_most);
        return max(rest, max(grown, copy_chunk_first));
    }
    // copy(from, to, part) brings bytes. What does not fit behind the last piece gets one of its own.
    template <class Copy> Result<> append_copy(u32 size, Copy copy)
    {
        u32 first = min(room_behind_last(), size), rest = size - first;
        Chunk* previous = last_;
        if (rest) {
            u32 capacity = capacity_for(rest);
            Own<Chunk> chunk(make_with_tail<Chunk>(alloc_, capacity));
            if (!chunk)
                return fail(KAPI_ENOMEM);
            chunk->capacity = capacity;
            chunk->piece.bytes = chunk->bytes();
            chunk->piece.size = rest;
            copy(first, chunk->bytes(), rest);
            add(chunk.release(), kapi_alloc_true_size(sizeof(Chunk) + capacity), 0);
        }
        if (first) {
            copy(0, previous->bytes() + previous->piece.size, first);
            previous->piece.size += first;
        }
        return {};
    }

    const Alloc alloc_;
    Chunk own_;
    Chunk* first_ = nullptr; // the chain is owned, own_ as a part of us
    Chunk* last_ = nullptr;
    usize own_size_ = 0, true_size_ = 0;
};

} // namespace hw
