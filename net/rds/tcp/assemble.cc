// SPDX-License-Identifier: GPL-2.0
#include "assemble.h"

#include <kapi/errno.h>
#include <kapi/host.h>
#include <kapi/stream.h>

namespace rds_tcp {

namespace {

Assembler::Verdict verdict_of(int error)
{
    switch (error) {
    case -KAPI_ENOMEM:
        return Assembler::Verdict::starved;
    case -KAPI_EAGAIN:
        return Assembler::Verdict::stalled;
    default:
        return Assembler::Verdict::garbage;
    }
}

} // namespace

// Counts a part.
bool Assembler::is_enough(const kapi_rx* rx)
{
    if (++parts_ % parts_a_look) [[likely]]
        return false;
    u64 now = kapi_now_ns();
    u32 call = kapi_rx_call(rx);
    if (std::exchange(call_, call) != call)
        call_since_ns_ = now;
    bool is_long = now - call_since_ns_ >= call_ns;
    if (parts_ < parts_at_once && !is_long)
        return false;
    parts_ = 0;
    u64 since = std::exchange(counted_since_ns_, now);
    return is_long || now - since < at_once_ns;
}

Assembler::Outcome Assembler::feed(kapi_rx* rx, usize length)
{
    if (inc_ && rds_inc_leaves(inc_))
        return {0, Verdict::stalled};
    usize used = 0;
    for (;;) {
        if (rds_path_stalled(conn_, path_))
            return {used, Verdict::stalled};
        if (is_enough(rx))
            return {used, Verdict::enough};
        if (!inc_) {
            u32 part = static_cast<u32>(min<usize>(RDS_HEADER_SIZE - header_have_, length - used));
            kapi_rx_copy(rx, used, header_ + header_have_, part);
            if (header_have_ + part < RDS_HEADER_SIZE) {
                header_have_ += part;
                return {used + part, Verdict::more};
            }
            // The end of the header is left unread until there is memory or room: a message that is no more than a
            // header would else leave nothing to be offered again.
            int err = rds_inc_create(conn_, path_, header_, length - used - part, &inc_);
            if (err)
                return {used, verdict_of(err)};
            header_have_ = RDS_HEADER_SIZE;
            used += part;
        }
        u32 part = static_cast<u32>(min<usize>(rds_inc_left(inc_), length - used));
        if (part) {
            if (rds_inc_append(inc_, rx, used, part) < 0)
                return {used, Verdict::starved};
            used += part;
        }
        data_left_.store_relaxed(rds_inc_left(inc_));
        if (rds_inc_left(inc_))
            return {used, Verdict::more};
        header_have_ = 0;
        rds_inc_deliver(std::exchange(inc_, nullptr));
        if (used == length)
            return {used, Verdict::more};
    }
}

void Assembler::reset()
{
    if (inc_)
        rds_inc_free(std::exchange(inc_, nullptr));
    header_have_ = 0;
    data_left_.store_relaxed(0);
}

} // namespace rds_tcp
