// SPDX-License-Identifier: GPL-2.0
#include "path_receive.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

// Not 0, which stands for no memory's name.
u32 new_receiver_id()
{
    return kapi_random_u32() | 1;
}

// More would be read in many parts, for each of which its program would be woken.
constexpr u32 most_left = 16384;

// To a ping of a program. Its sender does not wait for a full socket, and it may be lost.
bool is_answer(const Header& header)
{
    return u16{header.sport} == 0;
}

} // namespace

PathReceiver::PathReceiver(Path& path, Spin<PathLock>& lock)
    : path_(path), lock_(lock), pull_(path, lock), memory_(new_receiver_id())
{
}
PathReceiver::~PathReceiver() = default;

// ---- numbers

bool PathReceiver::note_sender(u32 sender, bool hawser)
{
    u32 new_id = new_receiver_id();
    Guard guard(lock_);
    return memory_.note_sender(sender, hawser, new_id);
}

bool PathReceiver::note_answer(u32 peers_id)
{
    Guard guard(lock_);
    return memory_.note_answer(peers_id);
}

void PathReceiver::note_unnamed()
{
    Guard guard(lock_);
    memory_.note_unnamed();
}

bool PathReceiver::has_name()
{
    Guard guard(lock_);
    return memory_.has_name();
}

u32 PathReceiver::sender()
{
    Guard guard(lock_);
    return memory_.sender();
}

u32 PathReceiver::receiver_id()
{
    Guard guard(lock_);
    return memory_.receiver_id();
}

u64 PathReceiver::next_number()
{
    Guard guard(lock_);
    return memory_.next();
}

u64 PathReceiver::received()
{
    Guard guard(lock_);
    return received_;
}

bool PathReceiver::in_sequence(const Header& header)
{
    Guard guard(lock_);
    received_ += sizeof(Header) + header.length;
    return memory_.accept(header.sequence, (header.flags & flag_retransmitted) != 0);
}

// ---- stalling

bool PathReceiver::is_posted() const { return path_.connection().transport.post != nullptr; }

bool PathReceiver::stall_on(Socket& socket, usize bytes)
{
    Ref<Socket> old, before;
    Guard guard(lock_);
    if (stalled_.load_relaxed() == overdrawn) {
        if (socket.takes_overdraft(bytes, stalled_on_.get() == &socket ? beyond_ : 0, is_posted()))
            return false;
        before = std::move(stalled_on_);
        before->unstall(path_);
        stalled_.store_release(not_stalled);
    }
    if (!socket.stall(path_))
        return false;
    old = std::exchange(stalled_on_, Ref<Socket>::share(socket)); // room_made() waits for the lock to take it back
    stalled_.store_release(stalled_now);
    return true;
}

bool PathReceiver::overdraw(usize beyond)
{
    Guard guard(lock_);
    if (!stalled_on_ || !stalled_on_->takes_overdraft(0, is_posted() ? beyond : 0, is_posted()))
        return false;
    beyond_ = beyond;
    stalled_.store_release(overdrawn);
    return true;
}

void PathReceiver::release_stall()
{
    pull_.end();
    Ref<Socket> old;
    Guard guard(lock_);
    old = std::move(stalled_on_);
    if (old)
        old->unstall(path_);
    stalled_.store_release(not_stalled);
}

void PathReceiver::stream_ended()
{
    heard_.store_relaxed(0);
    memory_lack_.store_relaxed(lacks_none);
    pull_.end();
    Guard guard(lock_);
    memory_.stream_ended();
    if (stalled_on_)
        stalled_.store_release(stalled_before);
}

bool PathReceiver::may_read(MessageKind kind)
{
    if (stalled_.load_acquire() == not_stalled || kind != MessageKind::data) [[likely]]
        return true;
    Guard guard(lock_);
    if (!stalled_on_ || stalled_.load_relaxed() == overdrawn)
        return true;
    stalled_.store_release(stalled_now);
    return false;
}

// Something else may hold up the path later, and is looked for then (Path::let_acknowledgements_pass()).
void PathReceiver::end_lack()
{
    if (lacks_memory())
        memory_lack_.store_relaxed(lacks_none);
}

// Each path may bring a message more than a socket's limit, or one that nobody is charged for, and a peer can have any number of
// paths. So while a path waits for a full socket, or there is such memory, what comes next for the same sockets stays with the
// transport; and for others of a user who has as much as may be. A lost stream that is overdrawn does not wait for full sockets,
// but a peer can have any number of those, too.
Result<bool> PathReceiver::find_place(const Header& header)
{
    if (is_answer(header))
        return false; // it is dropped when there is no place
    Connection& connection = path_.connection();
    Net& net = connection.net;
    bool uncharged = net.module.peers_share.has_uncharged();
    if (!uncharged)
        end_lack();
    if (!uncharged && !net.stalled_paths.load_relaxed()) [[likely]]
        return false;
    Endpoint to = connection.local;
    to.port = header.dport;
    Ref<Socket> socket = net.binds.find(to);
    if (!socket)
        return false;
    bool waits = stalled_.load_acquire() != overdrawn && stall_on(*socket, 0);
    if (waits || !uncharged || socket->has_memory_for(sizeof(Header) + header.length)) {
        end_lack();
        return waits ? Result<bool>(fail(KAPI_EAGAIN)) : false;
    }
    if (memory_lack_.load_relaxed() == does_not_matter && socket->may_overdraw_memory())
        return true;
    memory_lack_.store_relaxed(lacks);
    path_.partial().wait_for_turn(net.peers_memory);
    return fail(KAPI_ENOMEM);
}

bool PathReceiver::leaves_to_program(const Header& header)
{
    if (!path_.connection().one_way.receives() || is_posted())
        return false;
    if (header.length > most_left || classify(header) != MessageKind::data)
        return false;
    Endpoint to = path_.connection().local;
    to.port = header.dport;
    Ref<Socket> socket = find_socket(to);
    return socket && pull_.leave_to(*socket);
}

void PathReceiver::resumed(Socket& socket)
{
    Ref<Socket> old;
    Guard guard(lock_);
    // Closed and stalled anew meanwhile: by another socket, or by this one, which then has us on its list again.
    if (stalled_on_.get() != &socket || socket.stalls(path_))
        return;
    old = std::move(stalled_on_);
    stalled_.store_release(not_stalled);
}

// ---- delivery

void PathReceiver::answer_ping(const Header& header)
{
    Connection& connection = path_.connection();
    Net& net = connection.net;
    net.count(Stat::recv_ping);
    // On loopback the way back is another connection, unless both addresses are the same.
    Ref<Connection> back = Ref<Connection>::share(connection);
    if (connection.loops() && !(connection.local.ip == connection.remote.ip)) {
        auto other = net.connections.get(net, connection.transport, connection.remote, connection.local, 0,
                                         connection.payer, Alloc::atomic_charged);
        if (!other)
            return;
        back = std::move(*other);
    }
    Path& path = back->loops() ? back->path(0) : path_;
    auto pong = Message::internal();
    if (!pong)
        return; // a ping may be lost, as any program that pings expects
    (*pong)->header().dport = header.sport;
    if (!path.enqueue_bounded(std::move(*pong))) {
        net.count(Stat::recv_drop_pong);
        return;
    }
    net.count(Stat::send_pong);
    path.notify(RDS_PATH_SEND);
}

// All that comes is for one address; most of it for the port that the message before was for.
Ref<Socket> PathReceiver::find_socket(const Endpoint& to)
{
    BindTable& binds = path_.connection().net.binds;
    u64 last = last_hash_.load_relaxed();
    if (last >> 32 != to.port) {
        last = static_cast<u64>(to.port) << 32 | binds.hash_of(to);
        last_hash_.store_relaxed(last);
    }
    return binds.find(to, static_cast<u32>(last));
}

void PathReceiver::deliver(Ref<Incoming> incoming)
{
    Connection& connection = path_.connection();
    Net& net = connection.net;
    bool loops = connection.loops();
    const Endpoint& from = loops ? connection.local : connection.remote;
    Endpoint to = loops ? connection.remote : connection.local;
    incoming->source = {from.ip, incoming->header.sport, from.scope};
    to.port = incoming->header.dport;
    Ref<Socket> socket = find_socket(to);
    if (!socket) {
        net.count(Stat::recv_drop_no_sock);
        return;
    }
    if (!connection.transport.get_mr) // then it has nothing to say of memory
        incoming->header.extensions[0] = 0;
    usize bytes = sizeof(Header) + incoming->length();
    bool answer = is_answer(incoming->header);
    if (answer && !socket->has_room_for_answer(bytes)) {
        net.count(Stat::recv_drop_pong);
        return;
    }
    if (socket->deliver(std::move(incoming)) && !answer)
        stall_on(*socket, bytes);
}

void PathReceiver::receive(Ref<Incoming> incoming)
{
    Connection& connection = path_.connection();
    if (!heard_.load_relaxed())
        heard_.store_relaxed(1);
    const Header& header = incoming->header;
    auto kind = classify(header);
    if (!HW_ASSERT(kind.has_value())) // rds_inc_create() has seen to it
        return;
    trace_incoming(path_, header);
    bool handshake = *kind == MessageKind::probe || *kind == MessageKind::probe_reply;
    bool sequenced = *kind != MessageKind::congestion_map && !(handshake && parse_handshake(header).hawser);
    if (handshake) // first, for a foreign one says whose number its own is
        connection.handshake_received(path_, header, *kind == MessageKind::probe_reply);
    if (sequenced && !in_sequence(header)) {
        connection.net.count(Stat::recv_drop_old_seq);
        // The answer was not kept when its stream ended, and the peer does not ask anew. It may get two.
        if (*kind == MessageKind::ping && connection.net.sysctl.ping_enable)
            answer_ping(header);
        return;
    }
    switch (*kind) {
    case MessageKind::congestion_map:
        connection.map_received(*incoming);
        return;
    case MessageKind::nothing:
    case MessageKind::probe:
    case MessageKind::probe_reply:
        return;
    case MessageKind::ping:
        if (connection.net.sysctl.ping_enable)
            answer_ping(header);
        return;
    case MessageKind::data:
        connection.one_way.received();
        deliver(std::move(incoming));
        return;
    }
}

} // namespace rds
