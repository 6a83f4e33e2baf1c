// SPDX-License-Identifier: GPL-2.0
// The data of one call of the transport's send(): some messages, the first and the last of them possibly in part. Or of its
// post(): whole messages, without segments.
#pragma once

#include "message.h"

#include <span>

namespace rds {

struct Batch : Pinned {
    static constexpr unsigned max_messages = 16;
    static constexpr unsigned max_segments = 40;
    static constexpr u32 max_bytes = 512 * 1024; // enough to fill any send buffer in one call

    struct Item {
        Ref<Message> message;
        u32 begin; // wire bytes already given to the stream
        u32 bytes; // on offer now
    };

    explicit Batch(bool messages = false) : whole(messages) {}
    ~Batch()
    {
        for (unsigned i = 0; i < count; i++)
            item(i).~Item();
    }
    Item& item(unsigned i) { return *reinterpret_cast<Item*>(storage + i * sizeof(Item)); }
    bool full() const { return count == max_messages || segments == max_segments || bytes >= max_bytes; }
    void add(Ref<Message> message, u32 offset)
    {
        auto gathered = whole ? Message::Gathered{0, message->wire_length()}
                              : message->gather(offset, std::span(segment + segments, max_segments - segments));
        segments += gathered.count;
        bytes += gathered.bytes;
        cut |= offset + gathered.bytes < message->wire_length();
        ::new (&item(count++)) Item{std::move(message), offset, gathered.bytes};
    }

    const bool whole; // for post()
    alignas(Item) std::byte storage[max_messages * sizeof(Item)]; // most batches are one message
    unsigned count = 0;
    unsigned segments = 0;
    u32 bytes = 0;
    bool cut = false;  // the last message did not fit
    bool more = false; // the next batch has something to take
    kapi_segment segment[max_segments]; // only so many as are used are ever written

    // Of SendQueue::account():
    Ref<Message> partial; // the stream has its beginning
    u32 partial_begin = 0;
    u32 control_left = 0; // control messages of which the stream has nothing
    bool probe_sent = false;
    bool more_acked = false; // SendQueue::end_acked() has something to do
    u32 probe_end = 0;
};

} // namespace rds
