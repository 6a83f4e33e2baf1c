// SPDX-License-Identifier: GPL-2.0
#include "assemble.h"

#include <kapi/errno.h>
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

Assembler::Outcome Assembler::feed(kapi_rx* rx, usize length)
{
    if (inc_ && rds_inc_leaves(inc_))
        return {0, Verdict::stalled};
    usize used = 0;
    for (unsigned parts = 0;; parts++) {
        if (rds_path_stalled(conn_, path_))
            return {used, Verdict::stalled};
        if (parts % parts_a_look == 0 && kapi_rx_turn_is_over(rx))
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
