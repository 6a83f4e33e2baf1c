// SPDX-License-Identifier: GPL-2.0
#include "queue_ends.h"

namespace rds_rdma {

namespace {

// In ones' complement.
inline u64 plus(u64 a, u64 b)
{
    u64 sum;
    return __builtin_add_overflow(a, b, &sum) ? sum + 1 : sum;
}

} // namespace

// The sum of ones' complement may be made of words of any width in the host's order of bytes; so is then the result.
u16 header_checksum(const Header& header)
{
    u64 words[6];
    static_assert(sizeof(words) == sizeof(header));
    kapi_copy(words, &header, sizeof(words));
    u64 sum = plus(plus(plus(words[0], words[1]), plus(words[2], words[3])), plus(words[4], words[5]));
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16); // of 18 bits
    sum = (sum & 0xffff) + (sum >> 16); // 0x10000 at most: another carry
    sum += sum >> 16;
    return __builtin_bit_cast(Be16, static_cast<u16>(~sum));
}

void QueueEnds::failed(kapi_wc_status status)
{
    if (const char* text = text_of(status))
        rds_conn_note(conn, text);
    close();
    lost();
}

Result<> Headers::make(Domain& domain, u32 count, kapi_map_direction direction)
{
    auto* memory = static_cast<Header*>(kapi_alloc_contiguous(count * sizeof(Header)));
    if (!memory)
        return fail(KAPI_ENOMEM);
    memory_.reset(memory);
    kapi_segment segment{memory, nullptr, 0, static_cast<u32>(count * sizeof(Header))};
    TRY(map_.begin(
        [&](kapi_map* map) { return kapi_map_segments(map, domain.device.dev, &segment, 1, direction, KAPI_SLEEP); }));
    kapi_map_place place{};
    kapi_size length = segment.length;
    kapi_map_sges(map_.c(), &place, &length, domain.pd.get(), &all_, 1);
    return length ? Result<>(fail(KAPI_EIO)) : Result<>();
}

} // namespace rds_rdma
