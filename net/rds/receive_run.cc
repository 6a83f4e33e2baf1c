// SPDX-License-Identifier: GPL-2.0
// Many messages of one sender in one recvmsg(): RDS_RECV_LENGTHS.
#include "socket.h"

#include "trace.h"
#include "uapi.h"

namespace rds {

namespace {

// What the calls of all threads may have in hand beside their first messages: all of it may have to be put back.
constexpr u32 most_held = 256;
constexpr s64 space_of_cookies = RDS_ABI_CMSG_ALIGN(sizeof(rds_abi_cmsghdr)) + RDS_ABI_CMSG_ALIGN(sizeof(rds_abi_zcopy_cookies));

// A message with a control message of its own is returned alone.
bool is_plain(const Incoming& incoming)
{
    return !incoming.header.extensions[0];
}

} // namespace

// What one call returns. Held until the program has the lengths: before, all of it may have to be put back.
struct Socket::Run : Pinned {
    explicit Run(Ref<Incoming> first) : count(1) { messages[0] = std::move(first); }

    static constexpr unsigned max = RDS_ABI_MAX_RUN;
    Ref<Incoming> messages[max];
    unsigned count;
};

// The message behind last, if it is of the same sender and fits in whole; null: there is none. Another thread may have taken
// it meanwhile: then the one behind it is not last's successor.
Ref<Incoming> Socket::take_next(const Incoming& last, usize room)
{
    Ref<Incoming> taken;
    CongestionChange change;
    bool stalls;
    {
        Guard guard(lock_);
        if (closed_ || received_.empty() || held_ >= most_held)
            return taken;
        Incoming& next = *received_.front();
        if (next.place != last.place + 1 || next.length() > room || !is_plain(next) || !(next.source == last.source))
            return taken;
        taken = received_.pop_front();
        held_++;
        account_receive(*taken, false);
        change = update_congestion(false);
        stalls = !stalled_.empty();
    }
    report_congestion(change);
    if (stalls)
        room_made();
    return taken;
}

// The copy may take for ever, so no other message is taken before. The bytes of those that were added.
u32 Socket::add_to_run(Run& run, unsigned most, usize room, rds_receive& receive)
{
    u32 bytes = 0;
    while (run.count < most) {
        Ref<Incoming> next = take_next(*run.messages[run.count - 1], room - bytes);
        if (!next)
            break;
        if (!next->copy_to_user(receive.msg, next->length())) { // the next call's
            run.messages[run.count] = std::move(next);
            put_back({run.messages + run.count, 1});
            release_held(1);
            break;
        }
        bytes += next->length();
        run.messages[run.count++] = std::move(next);
    }
    return bytes;
}

void Socket::release_held(unsigned count)
{
    Guard guard(lock_);
    held_ -= count;
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

// So many lengths have room; cookies of finished zerocopy sends go behind them if both fit.
unsigned Socket::room_for_lengths(const rds_receive& receive) const
{
    s64 bytes = kapi_msg_cmsg_room(receive.msg);
    if (kapi_sk_zerocopy(sk) && bytes >= space_of_cookies + s64{sizeof(u32)})
        bytes -= space_of_cookies;
    return static_cast<unsigned>(min(max(bytes, s64{0}) / s64{sizeof(u32)}, s64{Run::max}));
}

// The first message with its control messages, and what fits behind both.
Result<u32> Socket::hand_over_run(Run& run, bool traced, bool alone, rds_receive& receive)
{
    Incoming& first = *run.messages[0];
    u32 size = TRY(hand_over(first, traced, receive)), more = 0;
    unsigned most = room_for_lengths(receive);
    if (!most) {
        receive.out_flags |= RDS_ABI_MSG_CTRUNC;
        return size;
    }
    if (!alone && is_plain(first) && first.length() <= receive.size)
        more = add_to_run(run, most, receive.size - first.length(), receive);
    TRY(put_lengths(run, size, receive));
    return size + more;
}

Result<u32> Socket::receive_run(Input& input, bool peek, rds_receive& receive)
{
    Run run(std::move(input.incoming));
    bool alone = peek || input.traced || kapi_sk_timestamps(sk);
    auto result = hand_over_run(run, input.traced, alone, receive);
    unsigned held = run.count - 1;
    if (result)
        handed_over(*result, run.count, receive);
    for (unsigned i = 0; result && !peek && i < run.count; i++)
        trace_delivery(bound_key(), run.messages[i]->source, run.messages[i]->header);
    if (!result && !peek)
        put_back({run.messages, run.count});
    if (held)
        release_held(held);
    return result;
}

} // namespace rds
