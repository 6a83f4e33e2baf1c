// SPDX-License-Identifier: GPL-2.0
// From sendmsg to the socket's send queue.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

// One message with its overhead, whatever the send buffer: it is in memory until its end is known.
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

// Who is told that there is no room gets a signal when there is, if the program asked for signals.
bool Socket::has_room_or_wants_it()
{
    if (has_room())
        return true;
    room_wanted_ = true;
    return false;
}

// The message goes on that is being built, or there is room for another one.
bool Socket::may_add()
{
    Guard guard(send_lock_);
    return building_ || has_room_or_wants_it();
}

// Something has left the send buffer, or it is larger: what is to be told of it, without the lock.
Socket::Room Socket::look_for_room()
{
    bool room = has_room();
    return {room, room && std::exchange(room_wanted_, false)};
}

void Socket::tell(Room room)
{
    if (room.there)
        waiters.wake(KAPI_OUT | KAPI_WRNORM);
    if (room.wanted)
        kapi_sk_signal(sk, KAPI_OUT);
}

Result<> Socket::wait_for_room(bool may_wait, u64 deadline_ns)
{
    // What is held for the rest of a batch would fill the buffer for ever.
    go();
    if (may_add())
        return {};
    if (!may_wait)
        return fail(KAPI_EAGAIN);
    TRY(waiters.wait_until(deadline_ns, [&] { return may_add() || kapi_sk_has_error(sk); }));
    return check(kapi_sk_take_error(sk));
}

void Socket::complete()
{
    queue_.push_back(std::move(building_));
    queued_++;
}

// Adds to the message that is being built, or begins one. False: there is no room.
Result<bool> Socket::add(Ref<Outgoing>& part, bool ends, bool goes)
{
    Guard guard(send_lock_);
    if (building_ && u64{building_->length()} + building_->overhead() + part->length() > max_outgoing)
        return fail(KAPI_EMSGSIZE);
    if (!building_ && !has_room())
        return false;
    queued_bytes_.add(part->length() + part->overhead());
    if (building_)
        building_->append(std::move(part));
    else
        building_ = std::move(part);
    if (ends)
        complete();
    if (goes)
        ready_ = queued_;
    return true;
}

// As add(), once there is room.
Result<> Socket::add_when_room(Ref<Outgoing> part, bool ends, const kcm_send& send)
{
    bool goes = !(send.flags & KCM_ABI_MSG_BATCH);
    if (TRY(add(part, ends, goes))) [[likely]]
        return {};
    bool may_wait = !(send.flags & KCM_ABI_MSG_DONTWAIT);
    u64 timeout = may_wait ? kapi_sk_sndtimeo_ns(sk) : 0;
    u64 deadline = deadline_after(timeout);
    Result<> room;
    while (room && !TRY(add(part, ends, goes)))
        room = wait_for_room(may_wait, deadline);
    if (room)
        return {};
    int error = room.error().code();
    if (error == KAPI_ETIMEDOUT)
        return fail(KAPI_EAGAIN);
    return fail(error == KAPI_EINTR && timeout == KAPI_FOREVER ? KAPI_ERESTARTSYS : error);
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
    Addressed addressed;
    if (send.control_length)
        addressed = TRY(parse_control(send));
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
        u32 size = static_cast<u32>(send.size);
        Ref<Outgoing> part = TRY(Outgoing::create(used_.take(), send.msg, size, std::move(wanted)));
        bool alone = ends && !addressed.given && !(send.flags & KCM_ABI_MSG_BATCH);
        if (alone && send_at_once(part)) {
            if (part)
                used_.keep(std::move(part));
            return size;
        }
        TRY(add_when_room(std::move(part), ends, send));
        if (!(send.flags & KCM_ABI_MSG_BATCH))
            transmit();
        return size;
    }
    if (ends) {
        Guard guard(send_lock_);
        if (building_)
            complete();
    }
    if (!(send.flags & KCM_ABI_MSG_BATCH))
        go();
    return 0;
}

void Socket::send_limit_changed()
{
    Room room;
    {
        Guard guard(send_lock_);
        room = look_for_room();
    }
    tell(room);
}

Socket::SendLoad Socket::send_load()
{
    Guard guard(send_lock_);
    return {queued_, ready_ != queued_, static_cast<bool>(building_)};
}

} // namespace kcm
