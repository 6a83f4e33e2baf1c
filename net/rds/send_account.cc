// SPDX-License-Identifier: GPL-2.0
// What a socket has sent and may send: SO_SNDBUF.
#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

// What waits for a third may have less: other messages may be stuck on the way to a peer that is gone.
constexpr u64 room_look_ns = 100'000'000;

} // namespace

Socket::SendRoom Socket::send_room()
{
    u64 initial = kapi_sk_sndbuf(sk) / 2;
    SendLimit& limit = send_limit_; // that is reset for good: nobody waits for room that comes unnoticed with SO_BUF_LOCK
    if (limit.payload(initial) != initial && kapi_sk_sndbuf_is_set(sk))
        limit.reset();
    return {limit.payload(initial), limit.memory(initial)};
}

bool Socket::has_send_room()
{
    return has_room_in(send_room());
}

// Acknowledgements of the RDS of the peer make room: they are asked for in time, also for the case that the limit is the initial
// one again.
bool Socket::wants_room_soon()
{
    u64 initial = kapi_sk_sndbuf(sk) / 2;
    SendLimit least;
    return sending_bytes_ >= least.payload(initial) / 2 || sending_true_ >= least.memory(initial) / 2;
}

// Only messages that are queued already are checked, so one message may exceed the limit: programs rely on it.
bool Socket::try_reserve(Message& message, Target& target, bool may_wait)
{
    Guard guard(lock_);
    if (closed_)
        return false;
    SendRoom room = send_room();
    if (!has_room_in(room)) {
        const Message *first = sending_.front(), *last = sending_.back();
        const Connection* there = message.connection.get();
        bool elsewhere = first && (first->connection.get() != there || last->connection.get() != there);
        room_wanted_ = max(room_wanted_, may_wait && !elsewhere ? RoomWanted::third : RoomWanted::any);
        return false;
    }
    sending_bytes_ += message.length();
    sending_true_ += message.true_size();
    if (message.connection->transport.post && wants_room_soon())
        message.header().flags |= flag_ack_required;
    message.was_owned = true;
    message.set_owner(Ref<Socket>::share(*this));
    sending_.push_back(Ref<Message>::share(message));
    target.fills = !has_room_in(room);
    return true;
}

Result<> Socket::reserve(Message& message, Target& target, const Wait& wait)
{
    if (try_reserve(message, target, wait.may)) [[likely]]
        return {};
    if (is_closed())
        return fail(KAPI_ENOTCONN);
    net.count(Stat::send_queue_full);
    if (!wait.may)
        return fail(KAPI_EAGAIN);
    target.gathered.transmit();
    bool reserved = false;
    for (;;) {
        u64 look = kapi_now_ns() + room_look_ns;
        auto result = senders.wait_in_turn(min(wait.deadline_ns, look), [&] {
            return reserved || (reserved = try_reserve(message, target, true)) || is_closed();
        });
        if (result)
            return reserved ? Result<>() : fail(KAPI_ENOTCONN);
        if (result.error().code() != KAPI_ETIMEDOUT || look > wait.deadline_ns)
            return result;
    }
}

// Any user can be the administrator of a namespace: there the usual maximum is the largest, or what the host's administrator set
// if that is less.
u64 Socket::most_send_limit() const
{
    u64 most = net.sysctl.send_limit_max;
    if (!net.connections.shares.is_users()) [[likely]]
        return most;
    const Net* initial = net.module.initial_net.load_acquire(); // there is one as long as there are sockets
    return min<u64>(most, initial ? min(initial->sysctl.send_limit_max, Net::usual_send_limit_max) : 0);
}

// The last message filled the buffer. When the stream has taken all of path, it could take more.
void Socket::grow_send_limit(Path& path)
{
    if (kapi_sk_sndbuf_is_set(sk) || path.connection().loops() || !path.took_all())
        return;
    bool wanted;
    {
        Guard guard(lock_);
        wanted = send_limit_.grow(kapi_sk_sndbuf(sk) / 2, sending_bytes_, most_send_limit()) && room_came();
    }
    if (wanted)
        wake_senders();
}

void Socket::met_congestion()
{
    Guard guard(lock_);
    send_limit_.reset();
}

bool Socket::has_third_free()
{
    SendRoom room = send_room();
    return 3 * sending_bytes_ <= 2 * room.payload && 3 * sending_true_ <= 2 * room.memory;
}

// True when a sender waits for room and now has it. One that was woken for each message would send each by itself.
bool Socket::room_came()
{
    if (room_wanted_ == RoomWanted::none || !(room_wanted_ == RoomWanted::any ? has_send_room() : has_third_free()))
        return false;
    room_wanted_ = RoomWanted::none;
    return true;
}

Ref<Message> Socket::account_sent(Message& message)
{
    sending_bytes_ -= message.length();
    sending_true_ -= message.true_size();
    return sending_.remove(message);
}

void Socket::wake_senders()
{
    senders.wake();
    pollers.wake(KAPI_OUT | KAPI_WRNORM | KAPI_WRBAND);
}

void Socket::send_done(Message& message)
{
    Ref<Message> removed;
    bool wanted;
    {
        Guard guard(lock_);
        removed = account_sent(message);
        wanted = room_came();
    }
    if (wanted)
        wake_senders();
}

void Socket::send_limit_changed()
{
    bool wanted;
    {
        Guard guard(lock_);
        static_cast<void>(send_room()); // one that is set is not forgotten when it is unset again
        wanted = room_came();
    }
    if (wanted)
        wake_senders();
}

} // namespace rds
