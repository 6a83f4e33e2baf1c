// SPDX-License-Identifier: GPL-2.0
#include "socket.h"

#include "connection.h"
#include "uapi.h"

namespace rds {

Result<Socket*> Socket::create(Net& net, kapi_sk* sk)
{
    Socket* socket = make<Socket>(Alloc::charged, net, sk);
    if (!socket)
        return fail(KAPI_ENOMEM);
    Guard guard(socket->lock_);
    socket->seen_congestion_generation_ = net.congestion_generation();
    return socket;
}

void Socket::destroy(Socket* socket)
{
    dispose(socket);
}

Socket::Socket(Net& n, kapi_sk* s) : net(n), sk(s) {}

Socket::~Socket()
{
    // Only notices that came while release() ran are left.
    Guard guard(lock_);
    static_cast<void>(HW_ASSERT(!held_));
    zerocopy_.clear();
    rdma_notices_.clear();
    Module::drop_transport(transport_);
}

// ---- names

// From here to end_use() peers can connect to the namespace by this transport.
Result<> Socket::begin_use(const rds_transport& transport)
{
    return check(transport.socket_bound ? transport.socket_bound(net.host) : 0);
}

void Socket::end_use(const rds_transport& transport)
{
    if (transport.socket_closed)
        transport.socket_closed(net.host);
}

Result<> Socket::bind(std::span<const std::byte> name)
{
    auto parsed = parse_sockaddr(name);
    if (!parsed) // the kernel's own answers EINVAL to a foreign family here
        return fail(KAPI_EINVAL);
    Endpoint endpoint = *parsed;
    if (!endpoint.ip.is_host() || (endpoint.ip.is_link_local() && endpoint.scope == 0))
        return fail(KAPI_EINVAL);
    if (endpoint.port == probe_port)
        return fail(KAPI_EINVAL);
    const rds_transport* transport = nullptr;
    {
        Guard guard(lock_);
        if (bound_ || closed_)
            return fail(KAPI_EINVAL);
        if (endpoint.scope && connect_scope_ && endpoint.scope != connect_scope_)
            return fail(KAPI_EINVAL);
        transport = transport_;
        bound_ = true; // no other call binds meanwhile
        bind_scope_ = endpoint.scope;
    }
    bool chosen = transport != nullptr;
    auto undo = [&](int error) {
        if (!chosen)
            Module::drop_transport(transport);
        Guard guard(lock_);
        bound_ = false;
        bind_scope_ = 0;
        return fail(error);
    };
    kapi_addr addr = endpoint.ip.with(0, endpoint.scope);
    if (chosen) {
        if (int err = transport->check_local(net.host, &addr))
            return undo(err == -KAPI_ENOMEM ? KAPI_ENOMEM : KAPI_ENOPROTOOPT);
    } else {
        auto found = net.module.transport_for(net.host, addr);
        if (!found)
            return undo(found.error().code());
        transport = *found;
    }
    if (auto begun = begin_use(*transport); !begun)
        return undo(begun.error().code());
    auto added = net.binds.add(*this, endpoint);
    if (!added) {
        end_use(*transport);
        return undo(added.error().code());
    }
    net.forget_peer(*added); // of the host that had the address before
    Guard guard(lock_);
    transport_ = transport;
    bound_to_ = *added;
    return {};
}

Result<> Socket::connect(std::span<const std::byte> name)
{
    Endpoint endpoint = TRY(parse_sockaddr(name));
    if (!endpoint.ip.is_host()) {
        u16 family; // its name was long enough to be parsed
        kapi_copy(&family, name.data(), sizeof(family));
        if (family != RDS_ABI_AF_INET)
            return fail(KAPI_EPROTOTYPE);
        bool any = endpoint.ip == Ip::mapped(Ip().bytes());
        return fail(any ? KAPI_EDESTADDRREQ : KAPI_EINVAL);
    }
    Guard guard(lock_);
    if (endpoint.ip.is_link_local() && (endpoint.scope == 0 || (bind_scope_ && bind_scope_ != endpoint.scope)))
        return fail(KAPI_EINVAL);
    connect_scope_ = endpoint.ip.is_link_local() ? endpoint.scope : 0;
    peer_ = endpoint;
    return {};
}

Result<int> Socket::name(void* sockaddr, bool peer)
{
    Guard guard(lock_);
    if (peer) {
        if (peer_.ip.is_any())
            return fail(KAPI_ENOTCONN);
        return format_sockaddr(peer_, sockaddr);
    }
    if (!bound_to_.ip.is_any())
        return format_sockaddr(bound_to_, sockaddr);
    // Not bound: an empty address of the peer's family, or of no family.
    kapi_fill(sockaddr, 0, sizeof(rds_abi_sockaddr_in6));
    u16 family = RDS_ABI_AF_UNSPEC;
    if (!peer_.ip.is_any())
        family = peer_.ip.is_v4() ? RDS_ABI_AF_INET : RDS_ABI_AF_INET6;
    kapi_copy(sockaddr, &family, sizeof(family));
    return family == RDS_ABI_AF_INET6 ? sizeof(rds_abi_sockaddr_in6) : sizeof(rds_abi_sockaddr_in);
}

// ---- the end

void Socket::release()
{
    RefList<Incoming, SocketQueue> unread;
    RefList<MemoryRegion, OwnedRegions> regions;
    Gathered gathered;
    bool was_bound;
    const rds_transport* transport;
    {
        Guard guard(lock_);
        closed_ = true;
        if (std::exchange(trace_count_, u8{0}))
            net.traced_sockets.fetch_sub(1);
        gathered.swap(gathered_);
        congested_ = false;
        was_bound = bound_ && !bound_to_.ip.is_any();
        transport = transport_; // which stays until the socket is freed
    }
    gathered.transmit(); // as what was sent before the end: the rest is cancelled below
    report_congestion(CongestionChange::cleared); // while the port is ours
    if (was_bound)
        net.binds.remove(*this);
    net.watchers.remove(*this);
    if (Ref<Path> path = take_unread())
        path->notify(RDS_PATH_RESUME); // others wait for what comes behind
    Ref<Connection> connection;
    Ref<NoticeBox> notices;
    {
        Guard guard(lock_);
        notices = std::move(notice_box_);
        unread.splice_front(received_);
        regions.splice_front(regions_);
        net.count(Stat::recv_bytes_freed_fromsock, received_bytes_); // of any number, so none is looked at
        received_bytes_ = received_true_ = 0;
        connection = std::move(connection_);
        if (connection)
            connection->drop_user();
        path_ = nullptr;
    }
    for (unsigned dropped = 1; unread.pop_front(); dropped++)
        if (dropped % 64 == 0)
            kapi_resched();
    regions.clear();
    if (notices)
        notices->close();
    cancel_sends(nullptr);
    room_made();
    senders.wake();
    receivers.wake(KAPI_HUP);
    pollers.wake(KAPI_IN | KAPI_OUT | KAPI_ERR | KAPI_HUP);
    if (was_bound)
        end_use(*transport);
}

// ---- cancellation

namespace {

// A link-local name without a scope means the address on any link.
bool names(const Endpoint& name, const Endpoint& destination)
{
    bool same_link = name.scope == 0 || name.scope == destination.scope;
    return name.ip == destination.ip && name.port == destination.port && same_link;
}

} // namespace

// Looks at the next few messages from place on, which is one that was passed over, and takes those for destination. False at the
// end.
bool Socket::take_sends(const Endpoint* destination, Ref<Message>& place, RefList<Message, OwnerQueue>& taken)
{
    constexpr unsigned some = 64;
    // Without an owner it has left the list, or is about to: from the beginning again.
    Message* m = place && place->has_owner() ? sending_.previous(*place) : sending_.back();
    Message* passed = nullptr;
    for (unsigned looked = 0; m && looked < some; looked++) {
        Message* older = sending_.previous(*m);
        // An acknowledgement may be taking it at this moment: then it removes it from the list itself.
        if ((destination && !names(*destination, m->destination)) || !m->take_owner()) {
            passed = m;
        } else {
            if (RdmaOperation* operation = m->operation())
                operation->cancel();
            taken.push_back(account_sent(*m));
        }
        m = older;
    }
    if (passed)
        place = Ref<Message>::share(*passed);
    return m != nullptr;
}

// The newest first: what a path sends meanwhile is then older than all that was cancelled, and the receiver sees no gap.
void Socket::cancel_sends(const Endpoint* destination)
{
    Ref<Message> place;
    for (bool more = true; more; kapi_resched()) {
        RefList<Message, OwnerQueue> cancelled;
        Ref<Message> before = place ? Ref<Message>::share(*place) : Ref<Message>(); // ends after the lock
        bool wanted;
        {
            Guard guard(lock_);
            more = take_sends(destination, place, cancelled);
            wanted = room_came();
        }
        while (Ref<Message> message = cancelled.pop_front()) {
            Ref<Connection> connection = message->connection;
            connection->cancel(*message);
            // A stream may have its beginning for as long as the peer does not read, which is no use of the connection.
            if (!connection->transport.post)
                message->connection = nullptr;
        }
        if (wanted)
            wake_senders();
    }
}

void Socket::zerocopy_done(Ref<ZerocopyBatch> batch)
{
    {
        Guard guard(lock_);
        // One control message carries several cookies: join them while there is room.
        ZerocopyBatch* last = zerocopy_last_;
        if (last && last->count < ZerocopyBatch::max_cookies) {
            last->cookies[last->count++] = batch->cookies[0];
        } else {
            zerocopy_last_ = batch.get();
            zerocopy_.push_back(std::move(batch));
        }
    }
    pollers.wake(KAPI_IN | KAPI_RDNORM | KAPI_ERR);
}

void Socket::rdma_done(Ref<RdmaNotice> notice)
{
    {
        Guard guard(lock_);
        rdma_notices_.push_back(std::move(notice));
    }
    notify_input();
}

// ---- congestion

void Socket::congestion_changed(u64 ports)
{
    unsigned events = KAPI_IN | KAPI_RDNORM | KAPI_WRBAND | KAPI_OUT;
    bool freed;
    {
        Guard guard(lock_);
        freed_ports_ |= watched_ports_ & ports;
        watched_ports_ &= ~ports;
        freed = freed_ports_ != 0;
        if (monitors_)
            events = freed ? KAPI_IN | KAPI_RDNORM : 0;
        else
            seen_congestion_generation_ = net.congestion_generation() - 1; // the next poll() reports a change
    }
    if (events)
        pollers.wake(events);
    if (freed)
        receivers.wake();
}

Socket::Info Socket::info()
{
    Guard guard(lock_);
    return {.bound = bound_to_, .peer = peer_, .sndbuf = kapi_sk_sndbuf(sk) / 2, .rcvbuf = kapi_sk_rcvbuf(sk) / 2,
            .send_limit = send_room().payload, .receive_limit = receive_limit(), .inode = kapi_sk_inode(sk),
            .sending = sending_bytes_, .unread = received_bytes_};
}

} // namespace rds
