// SPDX-License-Identifier: GPL-2.0
// The memory of messages, for the device: all of it is mapped before the first request of a message is posted.
#include "sender.h"

namespace rds_rdma {

namespace {

constexpr u64 longest_unmapped_ns = 5'000'000'000, retried_within_ns = 3'000'000'000; // an attempt may come a second late

} // namespace

// Where in a message's payload we are.
struct Pieces {
    explicit Pieces(rds_out* o) : out(o) {}
    rds_out* const out;
    u32 offset = 0; // of what was taken from the message
    unsigned count = 0, at = 0;
    kapi_segment segment[8];

    // Takes up to size bytes that lie together; none: the message has no more.
    kapi_segment take(u32 size)
    {
        if (at == count) {
            at = 0;
            count = rds_out_segments(out, offset, segment, sizeof(segment) / sizeof(segment[0]));
            if (!count)
                return {};
        }
        kapi_segment& from = segment[at];
        kapi_segment piece = from;
        piece.length = min(from.length, size);
        offset += piece.length;
        from.length -= piece.length;
        from.offset += piece.length;
        if (from.addr)
            from.addr = static_cast<const u8*>(from.addr) + piece.length;
        if (!from.length)
            at++;
        return piece;
    }
};

Result<> Sender::map_fragment(Slot& slot, Pieces& pieces)
{
    HW_UNINITIALIZED kapi_segment parts[max_pieces];
    unsigned count = 0;
    u32 length = rds_out_length(pieces.out);
    u32 left = min(ends_.fragments.size(length), length - pieces.offset);
    while (left) {
        kapi_segment part = count + 1 < pieces_ ? pieces.take(left) : kapi_segment{};
        if (!HW_ASSERT(part.length)) // pages of our own: few lie in so many bytes
            return fail(KAPI_EIO);
        left -= part.length;
        parts[count++] = part;
    }
    if (count)
        TRY(slot.payload.begin([&](kapi_map* map) {
            return kapi_map_segments(map, ends_.device.dev, parts, count, KAPI_MAP_TO_DEVICE, KAPI_SLEEP);
        }));
    return {};
}

// One piece is less work for the device than two. Small ones go with the request.
Result<> Sender::map_whole(Slot& slot, u32 length)
{
    kapi_segment all{slot.whole, nullptr, 0, header_size + length};
    slot.carries = all.length <= carried_;
    if (slot.carries)
        return {};
    return slot.payload.begin([&](kapi_map* map) {
        return kapi_map_segments(map, ends_.device.dev, &all, 1, KAPI_MAP_TO_DEVICE, KAPI_SLEEP);
    });
}

// All or nothing, before anything of it is posted.
Result<> Sender::map_payload(rds_out* out, u64 at, u32 fragments)
{
    if (fragments == 1) {
        slot(at).whole = static_cast<Header*>(rds_out_whole(out));
        if (slot(at).whole)
            return map_whole(slot(at), rds_out_length(out));
    }
    HW_UNINITIALIZED Pieces pieces(out);
    for (u32 i = 0; i < fragments; i++) {
        slot(at + i).carries = false;
        slot(at + i).whole = nullptr;
        auto mapped = map_fragment(slot(at + i), pieces);
        if (mapped)
            continue;
        while (i--)
            slot(at + i).payload.end();
        return mapped;
    }
    return {};
}

// There may be no memory, or no room for what the device does not reach itself, which others give back. False: for too long.
bool Sender::may_map_later()
{
    u64 now = kapi_now_ns();
    if (now - std::exchange(unmapped_at_ns_, now) > retried_within_ns) // the one that waited was cancelled
        unmapped_since_ns_ = 0;
    if (!unmapped_since_ns_)
        unmapped_since_ns_ = now;
    return now - unmapped_since_ns_ < longest_unmapped_ns;
}

bool Sender::map_later()
{
    if (!may_map_later())
        return false;
    want_ack(); // which ends what reports no completion
    send_ack();
    rds_path_retry_later(ends_.conn, 0, RDS_PATH_SEND);
    return true;
}

// How many have room and are mapped. Before anything is posted, so that the last one of them is known when it is.
unsigned Sender::prepare(rds_out* const* messages, unsigned count)
{
    u64 at = head_;
    for (unsigned i = 0; i < count; i++) {
        u32 needed = fragments(messages[i]);
        if (waits_for_room(at + needed))
            return i;
        if (auto mapped = map_payload(messages[i], at, needed); !mapped) {
            ends_.counters.count(Stat::tx_sg_mapping_failure);
            broken_ = !map_later(); // nothing is before it in this call, which would have begun the time anew
            return i;
        }
        unmapped_since_ns_ = 0;
        at += needed;
    }
    return count;
}

} // namespace rds_rdma
