// SPDX-License-Identifier: GPL-2.0
// sendmsg: from the call to the path.
#include "cmsg.h"
#include "connection.h"
#include "loop.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

namespace {

// MSG_BATCH is sendmmsg's own hint. MSG_NOSIGNAL is io_uring's, and needs no heed: RDS sends no signals.
constexpr unsigned honoured_flags =
    RDS_ABI_MSG_DONTWAIT | RDS_ABI_MSG_ZEROCOPY | RDS_ABI_MSG_BATCH | RDS_ABI_MSG_NOSIGNAL;
// A sender that may wait gives the handshake this long, to be spread over the paths; then it uses path 0.
constexpr u64 handshake_wait_ns = 5'000'000'000;
// Larger ones are a packet of the largest size, or nearly.
constexpr u32 most_that_waits = 16384;
constexpr u64 congestion_look_ns = 1'000'000'000; // how often a blocked sender repeats that it is blocked

u64 deadline_after(u64 timeout_ns)
{
    return timeout_ns == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + timeout_ns;
}

// False: it is not that of a host.
bool read_name(const rds_send& send, Endpoint& to)
{
    std::span name(static_cast<const std::byte*>(send.name), static_cast<usize>(send.name_length));
    if (name.size() < sizeof(rds_abi_sockaddr_in))
        return false;
    auto parsed = parse_sockaddr(name);
    if (!parsed || !parsed->ip.is_host() || (parsed->ip.is_link_local() && parsed->scope == 0))
        return false;
    to = *parsed;
    return true;
}

} // namespace

// An interrupted call without a time-out is restarted by the kernel; one with a time-out is not, as it would start
// over.
Result<> Socket::waited(Result<> result, u64 timeout_ns)
{
    if (!result && result.error().code() == KAPI_EINTR && timeout_ns == KAPI_FOREVER)
        return fail(KAPI_ERESTARTSYS);
    return result;
}

Result<> Socket::find_target(const rds_send& send, Target& target)
{
    bool is_named = send.name_length != 0;
    Endpoint& remote = target.remote;
    bool is_good = !is_named || read_name(send, remote);
    Guard guard(lock_);
    if (gathered_) [[unlikely]] // also by a call that fails: it is the last of its sendmmsg()
        target.gathered.swap(gathered_);
    if (!is_good)
        return fail(KAPI_EINVAL);
    if (!is_named)
        remote = peer_;
    if (bound_to_.ip.is_any() || remote.ip.is_any())
        return fail(KAPI_ENOTCONN);
    if (remote.ip.is_v4() != bound_to_.ip.is_v4())
        return fail(KAPI_EOPNOTSUPP);
    // A socket on one link reaches only that link.
    if (bound_to_.scope && remote.scope && bound_to_.scope != remote.scope)
        return fail(KAPI_EINVAL);
    target.local = bound_to_;
    target.transport = transport_;
    target.tos = tos_;
    if (connection_ && connection_->remote.ip == remote.ip && connection_->remote.scope == remote.scope &&
        connection_->tos == tos_) {
        target.connection = connection_;
        target.path = path_;
    }
    return {};
}

// What is requested of memory here and at the peer.
Result<> Socket::check_memory(const SendControls& controls, const rds_transport& transport)
{
    bool has_regions = transport.get_mr != nullptr;
    if (controls.rdma_args && !has_regions)
        TRY(check_rdma_args(*controls.rdma_args));
    if (controls.rdma_dest && !sync_region(key_of(*controls.rdma_dest), true))
        return fail(KAPI_EINVAL);
    if (controls.rdma_map && has_regions)
        TRY(check_region(*controls.rdma_map));
    if (controls.rdma() && !has_regions)
        return fail(KAPI_EOPNOTSUPP);
    return {};
}

Result<> Socket::add_operation(Message& message, Own<RdmaOperation> operation, u64 flags, u64 token)
{
    bool always = (flags & RDS_ABI_RDMA_NOTIFY_ME) != 0;
    if (always || recverr_.load_relaxed())
        TRY(operation->notify(TRY(notice_box()), token, !always));
    write_used_key(message.header(), operation->c().key);
    message.set_operation(std::move(operation));
    return {};
}

// Memory that cannot be pinned is registered for the device of the stream, so that there has to be one.
template <class Create> Result<Own<RdmaOperation>> Socket::make_operation(const rds_send& send, Target& to, Create create)
{
    RdmaOperation::Place place{*to.transport, kapi_sk_user(sk), nullptr};
    auto made = create(place);
    if (made || made.error().code() != KAPI_EOPNOTSUPP)
        return made;
    TRY(route(to));
    if (&to.connection->transport != to.transport) // a loop, which has no operations
        return made;
    place.held = TRY(to.connection->hold_stream(stream_deadline(!(send.flags & RDS_ABI_MSG_DONTWAIT))));
    made = create(place);
    to.transport->let_go(place.held);
    return made;
}

Result<Ref<Message>> Socket::build(const rds_send& send, const SendControls& controls, Target& target)
{
    if (send.size > max_message || send.size > kapi_sk_sndbuf(sk) / 2)
        return fail(KAPI_EMSGSIZE);
    u32 size = static_cast<u32>(send.size);
    TRY(check_memory(controls, *target.transport));
    bool zerocopy = (send.flags & RDS_ABI_MSG_ZEROCOPY) && kapi_sk_zerocopy(sk);
    if (zerocopy && !target.transport->zerocopy)
        return fail(KAPI_EOPNOTSUPP);
    bool asked = (send.flags & RDS_ABI_MSG_ZEROCOPY) || controls.zerocopy_cookie;
    auto cookie = zerocopy ? controls.zerocopy_cookie : std::nullopt;
    if (asked && !cookie)
        return fail(KAPI_EINVAL);
    Ref<Message> message = cookie ? TRY(Message::from_user_pages(send.msg, size, *cookie, TRY(notice_box())))
                                  : TRY(Message::from_user(send.msg, size, target.connection && target.connection->loops()));
    message->header().sport = target.local.port;
    message->header().dport = target.remote.port;
    message->destination = target.remote;
    if (const auto& args = controls.rdma_args) {
        auto create = [&](const auto& place) { return RdmaOperation::create(place, *args, size != 0); };
        auto operation = TRY(make_operation(send, target, create));
        const rds_rdma_op& op = operation->c();
        net.count(Stat::send_rdma);
        net.count(op.kind == RDS_OP_WRITE ? Stat::send_rdma_bytes : Stat::recv_rdma_bytes, op.bytes);
        TRY(add_operation(*message, std::move(operation), args->flags, args->user_token));
    }
    if (const auto& atomic = controls.atomic) {
        auto create = [&](const auto& place) { return RdmaOperation::create_atomic(place, *atomic, size != 0); };
        auto operation = TRY(make_operation(send, target, create));
        TRY(add_operation(*message, std::move(operation), atomic->args.flags, atomic->args.user_token));
    }
    if (controls.rdma_dest)
        write_cookie(message->header(), *controls.rdma_dest);
    net.count(Stat::copy_from_user, zerocopy ? 0 : size);
    return message;
}

// Made with the first message that needs it. A closed socket gets none, which nobody would take from it again;
// try_reserve() refuses the message of one that is closed later.
Result<Ref<NoticeBox>> Socket::notice_box()
{
    {
        Guard guard(lock_);
        if (notice_box_)
            return notice_box_;
    }
    auto* made = make<NoticeBox>(Alloc::charged, *this);
    if (!made)
        return fail(KAPI_ENOMEM);
    auto box = Ref<NoticeBox>::adopt(made);
    Guard guard(lock_);
    if (closed_)
        return fail(KAPI_ENOTCONN);
    if (!notice_box_) // no other thread was first
        notice_box_ = std::move(box);
    return notice_box_;
}

// Sees to it that target has a connection, which is that of the last message as long as nothing changed.
Result<> Socket::route(Target& target)
{
    u32 generation = kapi_net_addr_generation(net.host);
    if (target.connection && target.connection->checked_generation == generation && !target.connection->dying())
        return {};
    target.path = nullptr;
    // Whether the destination is this host is checked again whenever addresses changed: they may move between hosts.
    kapi_addr addr = target.remote.ip.with(0, target.remote.scope);
    bool here = loop_transport.check_local(net.host, &addr) == 0 || kapi_net_is_local(net.host, &addr);
    kapi_addr own = target.local.ip.with(0, target.local.scope);
    if (!here && loop_transport.check_local(net.host, &own) == 0) // nothing leaves the host by a loopback address
        return fail(KAPI_ENETUNREACH);
    const rds_transport& transport = here ? loop_transport : *target.transport;
    if (here && target.transport != &loop_transport)
        net.forget_peer(target.remote);
    Endpoint local{target.local.ip, 0, target.local.scope};
    Endpoint remote{target.remote.ip, 0, target.remote.scope};
    Ref<Connection> connection = TRY(net.connections.get(net, transport, local, remote, target.tos, kapi_sk_user(sk),
                                                         Alloc::charged));
    if (connection->dying())
        return fail(KAPI_EAGAIN);
    connection->checked_generation = generation;
    Ref<Connection> old;
    Guard guard(lock_);
    if (closed_)
        return fail(KAPI_ENOTCONN);
    target.connection = connection;
    connection->add_user(kapi_sk_user(sk));
    if (connection_)
        connection_->drop_user();
    if (connection_.get() != connection.get())
        path_ = nullptr;
    old = std::exchange(connection_, std::move(connection));
    return {};
}

// A socket's messages to one peer stay on one path, or they could overtake each other; so once chosen it is kept, even
// when the handshake later offers more paths.
Path& Socket::choose_path(Target& target, const Wait& wait)
{
    if (!target.path) [[unlikely]]
        target.path = &path_to(*target.connection, wait);
    return *target.path;
}

Path& Socket::path_to(Connection& connection, const Wait& wait)
{
    {
        Guard guard(lock_);
        if (path_ && connection_.get() == &connection)
            return *path_;
    }
    if (connection.paths() == 0) {
        connection.path(0).notify(RDS_PATH_WANTED);
        if (wait.may)
            static_cast<void>(connection.wait_for_handshake(min(wait.deadline_ns, kapi_now_ns() + handshake_wait_ns)));
    }
    Path& path = connection.path_for(bound_key().port);
    Guard guard(lock_);
    if (connection_.get() == &connection) {
        if (path_) // another thread of the program was first
            return *path_;
        path_ = &path;
    }
    return path;
}

// A sender that does not wait is notified of room by poll(). From here on, not from its next poll(): a program in epoll may make
// none before it is woken.
void Socket::notify_of_room(CongestionMap& map, u16 port)
{
    u64 ports = 1ull << (port % RDS_ABI_CONG_MONITOR_SIZE);
    {
        Guard guard(lock_);
        if (monitors_)
            watched_ports_ |= ports;
    }
    net.watchers.add(*this);
    // The bit may have been cleared before the socket was on the list of those that are notified.
    if (!map.refuse(port))
        congestion_changed(ports);
}

// The address may move to another host while a sender waits, maybe to this one; then target has another connection.
Result<> Socket::wait_for_congestion(Target& target, const Wait& wait)
{
    u16 port = target.remote.port;
    if (!target.connection->remote_map().congested(port)) [[likely]]
        return {};
    met_congestion();
    if (!wait.may) {
        target.connection->met_congestion(port);
        notify_of_room(target.connection->remote_map(), port);
        net.count(Stat::cong_send_error);
        return fail(KAPI_ENOBUFS);
    }
    target.gathered.transmit();
    net.count(Stat::cong_send_blocked);
    do {
        Connection& connection = *target.connection;
        CongestionMap& map = connection.remote_map();
        connection.met_congestion(port);
        u64 look = kapi_now_ns() + congestion_look_ns;
        auto result = map.block(port, connection, min(wait.deadline_ns, look), [&] {
            return !map.congested(port) || connection.dying() || is_closed();
        });
        if (result && is_closed())
            return fail(KAPI_ENOTCONN);
        if (result && connection.dying())
            return fail(KAPI_ENETUNREACH);
        if (!result && (result.error().code() != KAPI_ETIMEDOUT || look > wait.deadline_ns))
            return result;
        TRY(route(target));
    } while (target.connection->remote_map().congested(port));
    return {};
}

Socket::Wait Socket::wait_of(const rds_send& send)
{
    bool may = !(send.flags & RDS_ABI_MSG_DONTWAIT);
    u64 timeout = may ? kapi_sk_sndtimeo_ns(sk) : 0;
    return {may, timeout, deadline_after(timeout)};
}

Result<u32> Socket::queue(const Ref<Message>& message, Target& to, const Wait& wait)
{
    choose_path(to, wait); // until there is a handshake, there is no map either
    TRY(waited(wait_for_congestion(to, wait), wait.timeout_ns));
    if (message->operation() && !to.connection->transport.get_mr)
        return fail(KAPI_EOPNOTSUPP);
    Path& path = choose_path(to, wait);
    u32 size = message->length();
    if (path.pass(message))
        return size;
    if (!path.is_up()) [[unlikely]]
        to.connection->note_user(kapi_sk_user(sk));
    message->connection = to.connection;
    TRY(waited(reserve(*message, to, wait), wait.timeout_ns));
    message->promise_notice();
    // Who pings waits for the answer.
    bool waits = size <= most_that_waits && to.remote.port && path.is_up() && to.connection->gathers_packets();
    if (!path.enqueue(message, waits)) {
        message->withdraw_notice();
        if (Ref<Socket> owner = message->take_owner())
            send_done(*message);
        return fail(KAPI_ENETUNREACH);
    }
    net.count(Stat::send_queued);
    trace_outgoing(KAPI_TRACE_RDS_SEND, path, message->header());
    // The copy of the next message may take for ever, and others may wait for the room that those before it have.
    to.waits = waits && !to.fills;
    if (to.waits || (to.gathers && !to.connection->loops() && !to.fills)) {
        to.gathered.add(path);
        return size;
    }
    to.gathered.remove(path);
    path.transmit();
    if (to.fills) [[unlikely]]
        grow_send_limit(path);
    return size;
}

// For the next call. After a failure there may be none.
Result<u32> Socket::keep_gathered(const rds_send& send, Target& to, Result<u32> sent)
{
    if (((send.flags & RDS_ABI_MSG_BATCH) || to.waits) && sent) {
        Guard guard(lock_);
        if (!closed_)
            to.gathered.swap(gathered_); // to is left with those of another thread
    }
    return sent;
}

Result<u32> Socket::send(const rds_send& send)
{
    if (send.flags & ~honoured_flags)
        return fail(KAPI_EOPNOTSUPP);
    Target to;
    to.gathers = (send.flags & RDS_ABI_MSG_BATCH) != 0;
    TRY(find_target(send, to));
    HW_UNINITIALIZED SendControls controls; // most messages have none
    if (send.control_length)
        controls = TRY(parse_controls({static_cast<const std::byte*>(send.control), send.control_length}));
    if (!controls.lengths.empty())
        return keep_gathered(send, to, send_each(send, controls, to));
    Ref<Message> message = TRY(build(send, controls, to));
    TRY(route(to));
    if (controls.rdma() && !to.connection->transport.get_mr)
        return fail(KAPI_EOPNOTSUPP);
    if (controls.atomic)
        TRY(check(to.connection->transport.check_atomic(to.connection->state(), message->operation()->c().kind)));
    if (!controls.rdma_map)
        return keep_gathered(send, to, queue(message, to, wait_of(send)));
    u64 cookie = TRY(add_region(*controls.rdma_map, to, !(send.flags & RDS_ABI_MSG_DONTWAIT)));
    write_cookie(message->header(), cookie);
    auto sent = queue(message, to, wait_of(send));
    if (!sent)
        end_region(key_of(cookie));
    return sent;
}

} // namespace rds
