// SPDX-License-Identifier: GPL-2.0
#include "path.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 connect_timeout_ns = 3000 * ms;  // then a new attempt, so that a healed link is noticed soon
constexpr u64 answer_timeout_ns = 1000 * ms;   // for the peer to connect to us after we asked it to
constexpr u64 tick_ns = 1000 * ms;
constexpr u64 closing_tick_ns = 50 * ms;
constexpr u64 stable_ns = 1000 * ms;           // up for so long: the next attempt is not a repetition
constexpr u32 max_pongs_queued = 1024;
// A peer that says nothing of itself for so many ticks, though its TCP takes the questions, is none of ours. Long, because
// one of ours may stand still for a while, and what is sent to it unasked may be lost or doubled (path.h).
constexpr unsigned max_asked = 60;
constexpr u32 batch_bytes = 512 * 1024;        // enough to fill any send buffer in one call
constexpr unsigned loop_batch = 64;
constexpr u32 stream_events = RDS_PATH_ESTABLISHED | RDS_PATH_LOST | RDS_PATH_RESUME;

} // namespace

Path::Path(Connection& connection, unsigned index)
    : connection_(connection), index_(index), memory_(kapi_random_u32() | 1)
{
}

Path::~Path()
{
    HW_ASSERT(!current_);
}

void Path::ref() const { connection_.ref(); }
void Path::unref() const { connection_.unref(); }

// ---- queueing

bool Path::enqueue(Ref<Message> message)
{
    Guard guard(lock_);
    if (dead_)
        return false;
    // Cancelled between reserving room and now. What has no owner from the start is ours and is always queued.
    if (message->was_owned && !message->has_owner())
        return true;
    message->header().sequence = next_tx_++;
    if (message->pong)
        pongs_queued_++;
    send_.push_back(std::move(message));
    return true;
}

bool Path::enqueue_bounded(Ref<Message> message)
{
    {
        Guard guard(lock_);
        if (pongs_queued_ >= max_pongs_queued)
            return false;
    }
    message->pong = true;
    return enqueue(std::move(message));
}

void Path::cancel(Message& message)
{
    Ref<Message> removed;
    Guard guard(lock_);
    if (static_cast<ListNode<PathQueue>&>(message).linked())
        removed = send_.remove(message); // from whichever queue it is on
}

void Path::complete(Queue& done)
{
    for (;;) {
        Ref<Message> message;
        {
            // cancel() may take a message off this queue at any moment: it is on no queue of ours, but it is linked.
            Guard guard(lock_);
            message = done.pop_front();
        }
        if (!message)
            return;
        if (Ref<Socket> owner = message->take_owner())
            owner->send_done(*message);
    }
}

void Path::reap(Queue& done)
{
    if (!una_known_)
        return;
    while (Message* m = retransmit_.front()) {
        if (!m->position_known || static_cast<s32>(una_ - m->ack_position) < 0)
            return;
        if (m->pong)
            pongs_queued_--;
        done.push_back(retransmit_.pop_front());
    }
}

void Path::acked(u32 una)
{
    Queue done;
    {
        Guard guard(lock_);
        una_ = una;
        una_known_ = true;
        reap(done);
    }
    complete(done);
    if (write_full_.load_relaxed())
        notify(RDS_PATH_SEND);
}

void Path::drop_all(Queue& done)
{
    done.splice_front(send_);
    done.splice_front(retransmit_);
    pongs_queued_ = 0;
}

// What was sent and will not be acknowledged any more. On the retransmit queue is what the present stream has.
void Path::drop_sent(Queue& done)
{
    u32 dropped = 0;
    for (Message *m = send_.front(), *next; m; m = next) {
        next = send_.next(*m);
        if (!m->sent)
            continue;
        if (m->pong)
            pongs_queued_--;
        done.push_back(send_.remove(*m));
        dropped++;
    }
    connection_.net.count(Stat::send_drop_restart, dropped);
}

// The peer turned out to use fewer paths than we thought. Of the worker, while down.
void Path::move_queue_to(Path& other)
{
    Queue moving, done;
    {
        Guard guard(lock_);
        drop_all(moving);
    }
    for (;;) {
        Ref<Message> message;
        {
            Guard guard(lock_); // as in complete()
            message = moving.pop_front();
            if (!message)
                break;
            if (message->sent) { // the peer may have it, under a number that path other does not know
                done.push_back(std::move(message));
                continue;
            }
        }
        if (!other.enqueue(message)) {
            Guard guard(lock_);
            done.push_back(std::move(message));
        }
    }
    complete(done);
    other.notify(RDS_PATH_SEND);
}

// ---- ownership

bool Path::acquire()
{
    for (;;) {
        u32 expected = 0;
        if (busy_.compare_exchange(expected, 1))
            return true;
        if (busy_.fetch_or(2) & 1)
            return false; // the owner sees the bit when it releases
        expected = 2;
        if (busy_.compare_exchange(expected, 1))
            return true;
    }
}

// True when somebody else wanted to own the path meanwhile.
bool Path::release()
{
    bool wanted = (busy_.exchange(0) & 2) != 0;
    if (connection_.dying())
        idle_.wake();
    return wanted;
}

void Path::notify(u32 events)
{
    events_.fetch_or(events);
    if (connection_.dying())
        return;
    ref(); // the queued work's
    if (!work_.queue(connection_.net.module.workqueue))
        unref();
}

void Path::arm(u64 delay_ns)
{
    if (connection_.dying())
        return;
    ref();
    if (!timer_.mod(connection_.net.module.workqueue, delay_ns))
        unref();
}

void Path::ticked()
{
    ticking_.store_release(0);
    notify(RDS_PATH_TICK);
    unref();
}

void Path::retry_later(u32 events, u64 delay_ns)
{
    events_.fetch_or(events);
    if (connection_.dying())
        return;
    ref();
    if (!retry_.queue(connection_.net.module.workqueue, delay_ns))
        unref();
}

void Path::retried()
{
    notify(0);
    unref();
}

void Path::run()
{
    if (!connection_.dying() && acquire()) {
        step();
        if (release())
            notify(0);
    }
    unref();
}

void Path::transmit()
{
    if (!is_up() || !acquire()) {
        if (!is_up())
            notify(RDS_PATH_SEND);
        return;
    }
    bool more = pump();
    if (release() || more)
        notify(RDS_PATH_SEND);
}

// ---- transmitting, by the owner

struct Path::Batch {
    struct Item {
        Ref<Message> message;
        u32 begin; // wire bytes already given to the stream
        u32 bytes; // on offer now
    };
    alignas(Item) std::byte storage[batch_messages * sizeof(Item)]; // most batches are one message
    unsigned count = 0;
    unsigned segments = 0;
    u32 bytes = 0;
    bool more = false; // messages were left that the next batch can take
    kapi_segment segment[batch_segments]; // only so many as are used are ever written

    ~Batch()
    {
        for (unsigned i = 0; i < count; i++)
            item(i).~Item();
    }
    Item& item(unsigned i) { return *reinterpret_cast<Item*>(storage + i * sizeof(Item)); }
    bool full() const { return count == batch_messages || segments == batch_segments || bytes >= batch_bytes; }
    void add(Ref<Message> message, u32 offset)
    {
        auto gathered = message->gather(offset, std::span(segment + segments, batch_segments - segments));
        segments += gathered.count;
        bytes += gathered.bytes;
        ::new (&item(count++)) Item{std::move(message), offset, gathered.bytes};
    }
};

// Others than our own peers are sent to at once, as they expect; see the head of path.h for what that costs.
bool Path::may_send_numbered() const
{
    return is_answered() || connection_.peer() == Peer::foreign;
}

Ref<Message> Path::take_first()
{
    Ref<Message> message = send_.pop_front();
    if (message) {
        message->sent = true;
        retransmit_.push_back(message);
    }
    return message;
}

// Null when there is no memory.
Ref<Message> Path::make_told(Told what)
{
    auto message = Message::internal(what == told_map ? map_bytes : 0);
    if (!message)
        return {};
    (*message)->told = what;
    if (what != told_map) {
        connection_.write_handshake_to(*this, (*message)->header(), what == told_reply);
        return std::move(*message);
    }
    (*message)->header().flags = flag_congestion_map;
    connection_.local_map().snapshot((*message)->internal_payload());
    connection_.net.count(Stat::cong_update_queued);
    return std::move(*message);
}

// False when something is still due, for want of memory: it must come before the messages.
bool Path::collect_told(Batch& batch)
{
    if (!due_.load_acquire())
        return true;
    u32 due = due_.exchange(0);
    for (Told what : {told_probe, told_reply, told_map}) {
        if (!(due & what))
            continue;
        Ref<Message> message = make_told(what);
        if (!message) {
            due_.fetch_or(due);
            retry_later(RDS_PATH_SEND);
            return false;
        }
        due &= ~what;
        batch.add(std::move(message), 0);
    }
    return true;
}

void Path::collect(Batch& batch)
{
    // Asked before what is due is looked at: the answer that allows the first message came after the peer's own probe,
    // so our reply to that goes before the message.
    bool numbered = may_send_numbered();
    if (current_)
        batch.add(std::move(current_), std::exchange(current_offset_, 0));
    if (!collect_told(batch) || !numbered)
        return;
    Guard guard(lock_);
    while (!batch.full()) {
        Ref<Message> message = take_first();
        if (!message)
            return;
        batch.add(std::move(message), 0);
    }
    batch.more = !send_.empty();
}

// Notes what the stream took, and whether more came to be sent meanwhile. True when it took everything.
bool Path::account(Batch& batch, u32 taken, u32 end_seq)
{
    Queue done;
    bool all = taken == batch.bytes;
    {
        Guard guard(lock_);
        u32 left = taken;
        unsigned whole = 0; // items that were taken to their end
        for (; whole < batch.count; whole++) {
            auto& item = batch.item(whole);
            u32 part = min(left, item.bytes);
            left -= part;
            item.begin += part;
            if (item.begin < item.message->wire_length())
                break;
            item.message->ack_position = end_seq - left;
            item.message->position_known = true;
            if (item.message->told == told_probe)
                probe_end_ = item.message->ack_position;
        }
        for (unsigned i = batch.count; i-- > whole;) {
            auto& item = batch.item(i);
            if (item.begin > 0) { // the stream has its beginning, so it must get the rest, cancelled or not
                current_offset_ = item.begin;
                current_ = std::move(item.message);
                continue;
            }
            Message& m = *item.message;
            due_.fetch_or(m.told);
            if (!static_cast<ListNode<PathQueue>&>(m).linked())
                continue; // told, or cancelled
            m.sent = (m.header().flags & flag_retransmitted) != 0;
            send_.push_front(retransmit_.remove(m));
        }
        reap(done);
        batch.more = !send_.empty();
    }
    complete(done);
    return all;
}

// True when there is more to send at once.
bool Path::pump_stream()
{
    for (int rounds = 0; rounds < 8; rounds++) {
        if (!is_up())
            return false;
        HW_UNINITIALIZED Batch batch;
        collect(batch);
        if (batch.count == 0)
            return false;
        if (!ticking_.exchange(1))
            arm(tick_ns);
        u32 end_seq = 0;
        s64 taken = connection_.transport.send(connection_.state(), index_, batch.segment, batch.segments, batch.more,
                                                &end_seq);
        bool all = account(batch, taken < 0 ? 0 : static_cast<u32>(taken), end_seq);
        if (taken < 0) {
            notify(RDS_PATH_LOST);
            return false;
        }
        if (all) {
            write_full_.store_relaxed(0);
            // What became due meanwhile brought its own call, which waits for us to release the path.
            if (!batch.more)
                return false;
            continue;
        }
        // Room may have come just before the flag was up: one more try with the flag up settles it.
        if (write_full_.exchange(1))
            return false;
    }
    return true;
}

bool Path::pump_loop()
{
    for (unsigned i = 0; i < loop_batch; i++) {
        if (stalled_.load_acquire())
            return false;
        Ref<Message> message; // on no queue, so that a cancel leaves it to us
        {
            Guard guard(lock_);
            message = send_.pop_front();
            if (!message)
                return false;
            if (message->pong)
                pongs_queued_--;
        }
        auto incoming = Incoming::from_message(Ref<Message>::share(*message));
        if (!incoming) {
            {
                Guard guard(lock_);
                if (message->pong)
                    pongs_queued_++;
                send_.push_front(std::move(message));
            }
            retry_later(RDS_PATH_SEND);
            return false;
        }
        (*incoming)->trace_ns[0] = (*incoming)->trace_ns[1] = kapi_local_clock_ns();
        receive(std::move(*incoming));
        if (Ref<Socket> owner = message->take_owner())
            owner->send_done(*message);
    }
    return true;
}

bool Path::pump()
{
    return connection_.loops() ? pump_loop() : pump_stream();
}

// ---- the worker

void Path::start_looping()
{
    Guard guard(lock_);
    state_.must(PathEvent::adopt);
    up_.store_release(1);
}

bool Path::has_work()
{
    Guard guard(lock_);
    return !send_.empty();
}

bool Path::drained()
{
    Guard guard(lock_);
    return state_.is(PathState::up) && send_.empty() && retransmit_.empty();
}

void Path::step()
{
    u32 events = events_.exchange(0);
    if (connection_.loops()) {
        if (pump())
            notify(RDS_PATH_SEND);
        return;
    }
    if (events & RDS_PATH_WANTED)
        wanted_ = true;
    if ((events & RDS_PATH_PROBE) && is_up())
        connection_.send_handshake(*this, false);
    for (bool again = true; again;) {
        PathState state = snapshot().state;
        switch (state) {
        case PathState::down:
            again = step_down();
            break;
        case PathState::connecting:
            again = step_connecting(events);
            break;
        case PathState::up:
            again = step_up(events);
            break;
        case PathState::closing:
            again = step_closing();
            events &= ~stream_events; // they were of the stream that is being closed
            break;
        }
    }
}

bool Path::step_down()
{
    if (!connection_.uses(*this)) {
        move_queue_to(connection_.path(0));
        return false;
    }
    if (!connection_.may_come_up(*this))
        return false;
    if (connection_.transport.adopt(connection_.state(), index_) == 1) {
        {
            Guard guard(lock_);
            state_.must(PathEvent::adopt);
        }
        came_up();
        return true;
    }
    if (!wanted_ && !has_work())
        return false;
    u64 now = kapi_now_ns();
    if (now < retry_at_ns_) {
        arm(retry_at_ns_ - now);
        return false;
    }
    start_connecting();
    return true;
}

void Path::start_connecting()
{
    {
        Guard guard(lock_);
        state_.must(PathEvent::connect);
    }
    connect_deadline_ns_ = kapi_now_ns() + connect_timeout_ns;
    if (connection_.transport.connect(connection_.state(), index_) < 0) {
        peer_gone_ = true;
        lose();
    }
}

bool Path::step_connecting(u32& events)
{
    u64 now = kapi_now_ns();
    bool lost = (events & RDS_PATH_LOST) || now >= connect_deadline_ns_;
    if (!lost && (events & RDS_PATH_ESTABLISHED)) {
        events &= ~RDS_PATH_ESTABLISHED;
        if (connection_.transport.established(connection_.state(), index_) == 1) {
            {
                Guard guard(lock_);
                state_.must(PathEvent::establish);
            }
            came_up();
            return true;
        }
        connect_deadline_ns_ = now + answer_timeout_ns;
    }
    if (lost || connection_.transport.has_accepted(connection_.state(), index_)) {
        peer_gone_ = true; // nothing was received on it
        lose();
        return true;
    }
    arm(connect_deadline_ns_ - now);
    return false;
}

bool Path::step_up(u32& events)
{
    bool replaced = connection_.transport.has_accepted(connection_.state(), index_);
    if ((events & RDS_PATH_LOST) || replaced || ((events & RDS_PATH_RECYCLE) && drained())) {
        peer_gone_ = replaced;
        lose();
        return true;
    }
    if (events & RDS_PATH_RESUME) {
        events &= ~RDS_PATH_RESUME;
        connection_.transport.resume(connection_.state(), index_);
    }
    u64 now = kapi_now_ns();
    if (now >= next_tick_ns_) {
        next_tick_ns_ = now + tick_ns;
        if (connection_.transport.tick(connection_.state(), index_)) {
            connection_.net.count(Stat::path_dead_peer);
            peer_gone_ = true;
            lose();
            return true;
        }
        ask_again();
    }
    if (pump())
        notify(RDS_PATH_SEND);
    if ((!drained() || asking()) && !ticking_.exchange(1))
        arm(tick_ns);
    return false;
}

// The first path asks for all: an idle one of the others needs no tick.
bool Path::asking() const
{
    return index_ == 0 && !is_answered() && asked_ < max_asked;
}

// The peer's TCP has the last question. While it has not, the peer is cut off, slow or dead, and its silence says nothing.
bool Path::was_asked()
{
    Guard guard(lock_);
    return asked_ == 0 || (una_known_ && static_cast<s32>(una_ - probe_end_) >= 0);
}

// One of ours answers for certain. Another may lack the memory to, or have been told not to answer pings at all.
void Path::ask_again()
{
    if (!asking() || !was_asked())
        return;
    if (++asked_ < max_asked)
        connection_.send_handshake(*this, false);
    else
        connection_.no_answer();
}

bool Path::step_closing()
{
    // A peer that opened a new stream has left the old one.
    if (connection_.transport.has_accepted(connection_.state(), index_))
        peer_gone_ = true;
    rds_close_mode mode = peer_gone_ ? RDS_CLOSE_PEER_GONE : RDS_CLOSE_GRACEFUL;
    if (connection_.transport.close(connection_.state(), index_, mode) != 1) {
        arm(closing_tick_ns);
        return false;
    }
    closed();
    return true;
}

void Path::came_up()
{
    {
        Guard guard(lock_);
        una_known_ = false;
    }
    u64 now = kapi_now_ns();
    wanted_ = false;
    peer_gone_ = false;
    asked_ = 0;
    up_since_ns_ = now;
    next_tick_ns_ = now + tick_ns;
    write_full_.store_relaxed(0);
    connection_.path_coming_up(*this);
    up_.exchange(1); // seen before path_came_up() looks at the peer's kind
    connection_.path_came_up(*this);
}

void Path::lose()
{
    bool was_up = up_.exchange(0) != 0;
    {
        Guard guard(lock_);
        state_.must(PathEvent::lose);
        if (was_up)
            drops_++;
    }
    wanted_ = true;
    if (was_up) {
        connection_.net.count(Stat::conn_reset);
        if (kapi_now_ns() - up_since_ns_ >= stable_ns)
            back_off_ns_ = 0;
    }
}

void Path::requeue_unacknowledged()
{
    for (Message* m = retransmit_.front(); m; m = retransmit_.next(*m)) {
        m->header().flags |= flag_retransmitted;
        m->position_known = false;
    }
    send_.splice_front(retransmit_);
}

void Path::closed()
{
    unstall();
    Ref<Message> partial = std::move(current_);
    current_offset_ = 0;
    {
        Guard guard(lock_);
        requeue_unacknowledged();
        una_known_ = false;
        state_.must(PathEvent::closed);
    }
    due_.store_relaxed(0); // what was due on that stream
    answered_.store_release(0);
    events_.fetch_and(~stream_events);
    back_off();
}

// The first attempt follows at once, later ones after a random time below a growing bound.
void Path::back_off()
{
    const rds_sysctl& sysctl = connection_.net.sysctl;
    u64 shortest = max<u64>(sysctl.reconnect_min_delay_ms, 1) * ms;
    u64 longest = max<u64>(sysctl.reconnect_max_delay_ms * ms, shortest);
    u64 now = kapi_now_ns();
    if (back_off_ns_ == 0) {
        retry_at_ns_ = now;
        back_off_ns_ = shortest;
        return;
    }
    retry_at_ns_ = now + static_cast<u64>(kapi_random_u32()) * back_off_ns_ / 0xffffffffu;
    back_off_ns_ = min(back_off_ns_ * 2, longest);
}

void Path::kill()
{
    if (work_.cancel_sync())
        unref();
    if (timer_.cancel_sync())
        unref();
    if (retry_.cancel_sync())
        unref();
    while (!acquire()) // and never release: nobody else touches the transport any more
        idle_.wait_for([&] { return (busy_.load_acquire() & 1) == 0; });
    up_.store_release(0);
    if (!connection_.loops()) {
        PathState state = snapshot().state;
        if (state == PathState::connecting || state == PathState::up)
            lose();
        if (state != PathState::down) {
            int is_closed = connection_.transport.close(connection_.state(), index_, RDS_CLOSE_AT_ONCE);
            HW_ASSERT(is_closed == 1);
        }
    }
    unstall();
    Queue done;
    Ref<Message> partial = std::move(current_);
    {
        Guard guard(lock_);
        dead_ = true;
        drop_all(done);
    }
    complete(done);
}

Path::Snapshot Path::snapshot()
{
    Guard guard(lock_);
    return {next_tx_, next_rx_, state_.state(), (busy_.load_relaxed() & 1) != 0, drops_};
}

// ---- stalling

bool Path::stall_on(Socket& socket)
{
    Ref<Socket> old;
    Guard guard(lock_);
    if (!is_up() || !socket.stall(*this))
        return false;
    old = std::exchange(stalled_on_, Ref<Socket>::share(socket)); // room_made() waits for the lock to take it back
    stalled_.store_release(1);
    return true;
}

void Path::unstall()
{
    Ref<Socket> old;
    Guard guard(lock_);
    old = std::move(stalled_on_);
    if (old)
        old->unstall(*this);
    stalled_.store_release(0);
}

void Path::resumed(Socket& socket)
{
    {
        Ref<Socket> old;
        Guard guard(lock_);
        // Closed and stalled anew meanwhile: by another socket, or by this one, which then has us on its list again.
        if (stalled_on_.get() != &socket || socket.stalls(*this))
            return;
        old = std::move(stalled_on_);
        stalled_.store_release(0);
    }
    notify(RDS_PATH_RESUME | RDS_PATH_SEND);
}

// ---- the handshake

bool Path::heard(u32 sender)
{
    Guard guard(lock_);
    u32 old = std::exchange(sender_, sender);
    if (old == 0 || old == sender)
        return false;
    next_rx_ = 1;
    memory_ = kapi_random_u32() | 1;
    return true;
}

u32 Path::sender()
{
    Guard guard(lock_);
    return sender_;
}

u32 Path::memory()
{
    Guard guard(lock_);
    return memory_;
}

void Path::answered(u32 memory)
{
    Queue done;
    {
        Guard guard(lock_);
        if (std::exchange(sent_to_, memory) != memory)
            drop_sent(done);
        answered_.store_release(1);
    }
    complete(done);
    notify(RDS_PATH_SEND);
}

void Path::give_up_sent(bool with_present)
{
    Queue done;
    {
        Guard guard(lock_);
        if (with_present)
            send_.splice_front(retransmit_);
        drop_sent(done);
    }
    complete(done);
}

// ---- receiving

// The peer sends again, marked, what it cannot know to have arrived; a smaller number without the mark is a peer that
// started over. Numbers may skip: messages can be cancelled before they are sent.
bool Path::in_sequence(const Header& header)
{
    Guard guard(lock_);
    if (header.sequence < next_rx_ && (header.flags & flag_retransmitted))
        return false;
    next_rx_ = header.sequence + 1;
    return true;
}

void Path::answer_ping(const Header& header)
{
    Net& net = connection_.net;
    net.count(Stat::recv_ping);
    // On loopback the way back is another connection, unless both addresses are the same.
    Ref<Connection> back = Ref<Connection>::share(connection_);
    if (connection_.loops() && !(connection_.local.ip == connection_.remote.ip)) {
        auto other = net.connections.get(net, connection_.transport, connection_.remote, connection_.local, 0);
        if (!other)
            return;
        back = std::move(*other);
    }
    Path& path = back->loops() ? back->path(0) : *this;
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

bool Path::deliver(Ref<Incoming> incoming)
{
    Net& net = connection_.net;
    bool loops = connection_.loops();
    const Endpoint& from = loops ? connection_.local : connection_.remote;
    Endpoint to = loops ? connection_.remote : connection_.local;
    incoming->source = {from.ip, incoming->header.sport, from.scope};
    to.port = incoming->header.dport;
    Ref<Socket> socket = net.binds.find(to);
    if (!socket) {
        net.count(Stat::recv_drop_no_sock);
        return true;
    }
    return !(socket->deliver(std::move(incoming)) && stall_on(*socket));
}

bool Path::receive(Ref<Incoming> incoming)
{
    const Header& header = incoming->header;
    auto kind = classify(header);
    HW_ASSERT(kind.has_value());
    bool handshake = *kind == MessageKind::probe || *kind == MessageKind::probe_reply;
    bool sequenced = *kind != MessageKind::congestion_map && !(handshake && parse_handshake(header).hawser);
    if (sequenced && !in_sequence(header)) {
        connection_.net.count(Stat::recv_drop_old_seq);
        return true;
    }
    switch (*kind) {
    case MessageKind::congestion_map:
        connection_.map_received(*incoming);
        return true;
    case MessageKind::nothing:
        return true;
    case MessageKind::ping:
        if (connection_.net.sysctl.ping_enable)
            answer_ping(header);
        return true;
    case MessageKind::probe:
    case MessageKind::probe_reply:
        connection_.handshake_received(*this, header, *kind == MessageKind::probe_reply);
        return true;
    case MessageKind::data:
        return deliver(std::move(incoming));
    }
    return true;
}

} // namespace rds
