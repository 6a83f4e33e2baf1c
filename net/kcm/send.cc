// SPDX-License-Identifier: GPL-2.0
// From sendmsg to the socket's send queue.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

// One message, whatever the send buffer: it is in memory until its end is known.
constexpr u64 max_outgoing = 64u << 20;

u64 deadline_after(u64 timeout_ns)
{
    return timeout_ns == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + timeout_ns;
}

} // namespace

// Only our own control message means something; others are for other protocols.
Result<Socket::Addressed> Socket::parse_control(const kcm_send& send)
{
    Addressed addressed;
    const u8* at = static_cast<const u8*>(send.control);
    usize left = send.control_length;
    while (left >= sizeof(kcm_abi_cmsghdr)) {
        kcm_abi_cmsghdr head;
        kapi_copy(&head, at, sizeof(head));
        if (head.length < sizeof(head) || head.length > left)
            return fail(KAPI_EINVAL);
        if (head.level == KCM_ABI_SOL_KCM) {
            kcm_abi_connection connection;
            if (head.type != KCM_ABI_CONNECTION || head.length != sizeof(head) + sizeof(connection))
                return fail(KAPI_EINVAL);
            kapi_copy(&connection, at + sizeof(head), sizeof(connection));
            addressed = {true, connection.id};
        }
        usize step = min((static_cast<usize>(head.length) + 7) & ~usize{7}, left);
        at += step;
        left -= step;
    }
    return addressed;
}

Result<> Socket::wait_for_room(bool may_wait, u64 deadline_ns)
{
    bool held;
    {
        Guard guard(send_lock_);
        if (building_ || has_room()) [[likely]]
            return {};
        held = ready_ != queued_;
    }
    // What is held for the rest of a batch would fill the buffer for ever.
    if (held)
        go();
    auto may_go_on = [&] {
        Guard guard(send_lock_);
        return building_ || has_room();
    };
    if (may_go_on())
        return {};
    if (!may_wait)
        return fail(KAPI_EAGAIN);
    TRY(waiters.wait_until(deadline_ns, [&] { return may_go_on() || kapi_sk_has_error(sk); }));
    if (kapi_sk_has_error(sk))
        TRY(check(kapi_sk_take_error(sk)));
    return {};
}

void Socket::complete()
{
    queue_.push_back(std::move(building_));
    queued_++;
}

// Adds to the message that is being built, or begins one.
Result<> Socket::add(Ref<Outgoing> part, bool ends)
{
    Guard guard(send_lock_);
    if (building_ && u64{building_->length()} + part->length() > max_outgoing)
        return fail(KAPI_EMSGSIZE);
    queued_bytes_ += part->length();
    if (building_)
        building_->append(std::move(part));
    else
        building_ = std::move(part);
    if (ends)
        complete();
    return {};
}

// Everything that is queued may go.
void Socket::go()
{
    {
        Guard guard(send_lock_);
        ready_ = queued_;
    }
    transmit();
}

Result<u32> Socket::send(const kcm_send& send)
{
    bool by_more = datagram || send.spliced;
    bool ends = by_more ? !(send.flags & KCM_ABI_MSG_MORE) : (send.flags & KCM_ABI_MSG_EOR) != 0;
    auto addressed = TRY(parse_control(send));
    Ref<Psock> wanted;
    if (addressed.given) {
        wanted = mux->find(addressed.id);
        if (!wanted || wanted->failed())
            return fail(KAPI_ENOTCONN);
    }
    TRY(check(kapi_sk_take_error(sk)));
    if (send.size > max_outgoing)
        return fail(KAPI_EMSGSIZE);
    if (send.size) {
        // The copy comes first: it may fault, or take for ever, and then nothing has begun.
        kapi_pages* copied;
        TRY(check(kapi_pages_from_msg(send.msg, send.size, &copied)));
        Ref<Outgoing> part = TRY(Outgoing::create(Pages(copied), std::move(wanted)));
        bool may_wait = !(send.flags & KCM_ABI_MSG_DONTWAIT);
        u64 timeout = may_wait ? kapi_sk_sndtimeo_ns(sk) : 0;
        auto room = wait_for_room(may_wait, deadline_after(timeout));
        if (!room) {
            int error = room.error().code();
            if (error == KAPI_ETIMEDOUT)
                return fail(KAPI_EAGAIN);
            return fail(error == KAPI_EINTR && timeout == KAPI_FOREVER ? KAPI_ERESTARTSYS : error);
        }
        TRY(add(std::move(part), ends));
    } else if (ends) {
        Guard guard(send_lock_);
        if (building_)
            complete();
    }
    if (!(send.flags & KCM_ABI_MSG_BATCH))
        go();
    return static_cast<u32>(send.size);
}

void Socket::send_limit_changed()
{
    waiters.wake(KAPI_OUT | KAPI_WRNORM);
}

Socket::SendLoad Socket::send_load()
{
    Guard guard(send_lock_);
    return {queued_, ready_ != queued_, static_cast<bool>(building_)};
}

} // namespace kcm
