// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "socket.h"

namespace rds {

Result<Ref<Connection>> Connection::create(Net& net, const rds_transport& transport, const Endpoint& local,
                                           const Endpoint& remote, u8 tos, Alloc mode)
{
    bool charged = mode == Alloc::charged || mode == Alloc::atomic_charged;
    if (!charged && !net.peers_memory.take_connection()) {
        if (net.module.notices.memory_of_peers.is_due())
            rds::note(KAPI_LOG_NOTICE, remote.ip, "is refused: connections that peers made have all memory that they may have");
        return fail(KAPI_ENOBUFS);
    }
    auto* made = make<Connection>(mode, net, transport, local, remote, tos);
    if (!made) {
        if (!charged)
            net.peers_memory.give_connection();
        return fail(KAPI_ENOMEM);
    }
    made->charged_ = charged;
    net.connection_made(transport.type);
    auto connection = Ref<Connection>::adopt(made);
    TRY(connection->build(mode));
    return connection;
}

Result<> Connection::build(Alloc mode)
{
    local_map_ = TRY(net.own_maps.get(local, mode));
    remote_map_ = TRY((loops() ? net.own_maps : net.maps_of_peers(transport.names_peer != 0)).get(remote, mode));
    for (unsigned i = 0; i < transport.max_paths; i++) {
        paths_[i].reset(make<Path>(mode, *this, i));
        if (!paths_[i])
            return fail(KAPI_ENOMEM);
    }
    if (transport.max_paths == 1) {
        paths_said_.store_release(1);
        paths_agreed_.store_release(1);
    }
    if (loops()) {
        path(0).start_looping();
        return {};
    }
    kapi_addr local_addr = local.ip.with(0, local.scope);
    kapi_addr remote_addr = remote.ip.with(0, remote.scope);
    void* state = transport.create(reinterpret_cast<rds_conn*>(this), net.host, &local_addr, &remote_addr, tos,
                                   static_cast<kapi_alloc_mode>(mode));
    if (!state)
        return fail(KAPI_ENOMEM);
    Guard guard(lock_);
    state_ = state;
    return {};
}

void Connection::destroy(Connection* connection)
{
    Net& net = connection->net;
    rds_transport_type type = connection->transport.type;
    bool charged = connection->charged_;
    // Still there when the connection was never used.
    if (connection->state_)
        connection->transport.destroy(connection->state_);
    dispose(connection);
    if (!charged)
        net.peers_memory.give_connection();
    net.connection_gone(type);
}

void Connection::kill()
{
    dying_.store_release(1);
    local_map_->remove_connection(*this);
    map_refresh_.stop();
    for (unsigned i = 0; i < transport.max_paths; i++)
        path(i).kill();
    void* state = nullptr;
    {
        Guard guard(lock_);
        state = std::exchange(state_, nullptr);
    }
    if (state)
        transport.destroy(state);
    handshake_waiters_.wake();
    stream_waiters_.wake();
    remote_map_->wake_blocked();
}

void Connection::cancel(Message& message)
{
    path(0).cancel(message);
}

void Connection::note(kapi_log_level level, const char* what) const
{
    rds::note(level, remote.ip, what);
}

// ---- the end for want of use

u64 Connection::activity()
{
    u64 sum = 0;
    for (unsigned i = 0; i < transport.max_paths; i++) {
        Path::Snapshot now = path(i).snapshot();
        sum += now.next_tx + now.next_rx + now.drops;
    }
    return sum;
}

bool Connection::is_empty()
{
    for (unsigned i = 0; i < transport.max_paths; i++)
        if (!path(i).has_only_answers() || path(i).partial().exists()) // a large one takes long over a slow link
            return false;
    return true;
}

bool Connection::has_streams()
{
    for (unsigned i = 0; i < transport.max_paths && !loops(); i++)
        if (path(i).snapshot().state != PathState::down)
            return true;
    return false;
}

Ending Connection::ending()
{
    Ending worst = Ending::none;
    for (unsigned i = 0; i < transport.max_paths; i++)
        worst = max(worst, path(i).ending());
    return worst;
}

void Connection::retire()
{
    for (unsigned i = 0; i < transport.max_paths; i++)
        path(i).notify(RDS_PATH_RETIRE);
}

void Connection::end_streams()
{
    for (unsigned i = 0; i < transport.max_paths; i++)
        path(i).notify(RDS_PATH_LOST | RDS_PATH_RETIRE);
}

// ---- congestion

void Connection::map_changed()
{
    if (loops())
        return;
    path(0).queue_control(control_map);
    if (path(0).is_up())
        path(0).notify(RDS_PATH_SEND);
}

void Connection::map_received(const Incoming& incoming)
{
    net.count(Stat::cong_update_received);
    assume_foreign(Peer::unknown); // a hawser's stream begins with a probe, which shows its kind; another's may begin so
    const std::byte* map = incoming.map_payload();
    if (!map)
        return;
    if (remote_map_->replace(map)) // an answer to a request for it is often the same again
        net.congestion_changed();
}

} // namespace rds
