// SPDX-License-Identifier: GPL-2.0
// Many messages of one sender in one recvmsg(): RDS_RECV_LENGTHS.
#include "socket.h"

#include "trace.h"
#include "uapi.h"

#include <hawser/steps.h>

namespace rds {

// What one call returns. Held until the program has the lengths: before, all of it may have to be put back.
struct Socket::Run : Pinned {
    explicit Run(Ref<Incoming> first) : count(1) { messages[0] = std::move(first); }

    static constexpr unsigned max = RDS_ABI_MAX_RUN;
    Ref<Incoming> messages[max];
    unsigned count;
};

// A message with a control message of its own is returned alone.
static bool is_plain(const Incoming& incoming)
{
    return !incoming.header.extensions[0];
}

// What waits behind the first message, is of the same sender, and fits in whole.
void Socket::take_more(Run& run, unsigned most, usize room)
{
    CongestionChange change;
    bool stalls;
    {
        Guard guard(lock_);
        if (closed_)
            return;
        const Incoming& first = *run.messages[0];
        while (run.count < most && !received_.empty()) {
            HW_STEP();
            Incoming& next = *received_.front();
            if (next.length() > room || !is_plain(next) || !(next.source == first.source))
                break;
            room -= next.length();
            account_receive(next, false);
            run.messages[run.count++] = received_.pop_front();
        }
        change = update_congestion(false);
        stalls = !stalled_.empty();
    }
    report_congestion(change);
    if (stalls)
        room_made();
}

// Those that could be copied are returned, and the others are the next call's.
u32 Socket::copy_more(Run& run, rds_receive& receive)
{
    u32 bytes = 0;
    for (unsigned i = 1; i < run.count; i++) {
        const Incoming& incoming = *run.messages[i];
        if (!incoming.copy_to_user(receive.msg, incoming.length())) {
            put_back_from(run, i);
            break;
        }
        bytes += incoming.length();
    }
    net.count(Stat::copy_to_user, bytes);
    net.count(Stat::recv_delivered, run.count - 1);
    return bytes;
}

void Socket::put_back_from(Run& run, unsigned first)
{
    for (unsigned i = first; i < run.count; i++)
        put_back(std::move(run.messages[i]));
    run.count = first;
}

// first: what was returned of the first message, which may be a part.
Result<> Socket::put_lengths(const Run& run, u32 first, rds_receive& receive)
{
    HW_UNINITIALIZED u32 lengths[Run::max];
    lengths[0] = first;
    for (unsigned i = 1; i < run.count; i++)
        lengths[i] = run.messages[i]->length();
    return check(kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_LENGTHS, lengths, run.count * sizeof(u32)));
}

// The first message with its control messages, and what fits behind both.
Result<u32> Socket::hand_over_run(Run& run, bool traced, bool alone, rds_receive& receive)
{
    Incoming& first = *run.messages[0];
    u32 size = TRY(hand_over(first, traced, receive));
    s64 room = kapi_msg_cmsg_room(receive.msg) / s64{sizeof(u32)};
    if (room <= 0) {
        receive.out_flags |= RDS_ABI_MSG_CTRUNC;
        return size;
    }
    auto most = static_cast<unsigned>(min(room, s64{Run::max}));
    u32 more = 0;
    if (!alone && is_plain(first) && first.length() <= receive.size) {
        take_more(run, most, receive.size - first.length());
        more = copy_more(run, receive);
    }
    TRY(put_lengths(run, size, receive));
    return size + more;
}

Result<u32> Socket::receive_run(Input& input, bool peek, rds_receive& receive)
{
    Run run(std::move(input.incoming));
    bool alone = peek || input.traced || kapi_sk_timestamps(sk);
    auto result = hand_over_run(run, input.traced, alone, receive);
    if (peek)
        return result;
    if (!result)
        put_back_from(run, 0);
    for (unsigned i = 0; i < run.count; i++)
        trace_delivery(bound_key(), run.messages[i]->source, run.messages[i]->header);
    return result;
}

} // namespace rds
