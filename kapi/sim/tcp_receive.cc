// SPDX-License-Identifier: GPL-2.0
// What the simulated TCP does with packets.
#include "tcp.h"
#include "turn.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>

namespace sim {

namespace {

constexpr std::uint64_t kSlowestTripNs = 3 * kSecond;
constexpr std::uint64_t kTryAgainNs = 8 * kMillisecond; // as TCP_TIMEOUT_MIN

} // namespace

void Tcb::post(Input input)
{
    if (life != node->life())
        return; // of an abandoned task, which may have had the lock
    inbox.push_back(std::move(input));
    if (worker)
        return;
    worker = world.spawn(*node, "tcp", [self = shared_from_this()] { self->work(); }, TaskKind::softirq);
    worker->cpu = static_cast<int>(id % kCpus); // the network card's choice
}

void Tcb::work()
{
    while (!inbox.empty()) {
        lock.lock("a stream's lock");
        while (!inbox.empty()) {
            Input input = std::move(inbox.front());
            inbox.pop_front();
            handle(input);
        }
        lock.unlock();
    }
    worker = nullptr;
}

void Tcb::handle(const Input &input)
{
    switch (input.kind) {
    case Input::packet:
        return handle_packet(*input.data);
    case Input::timeout:
        return handle_timeout();
    case Input::lost:
        return close(input.error);
    case Input::promise:
        return check_promise();
    }
}

void Tcb::handle_packet(const Packet &packet)
{
    if (state == TcpState::closed && packet.syn && !packet.ack && listener) { // a new embryo
        state = TcpState::syn_received;
        rcv_next = packet.seq + 1;
        next = sent_max = una + 1;
        peer_right = next + packet.window;
        send_syn();
        return set_timer();
    }
    if (state == TcpState::closed) {
        if (!packet.rst)
            send_reset(packet.acked);
        return;
    }
    last_heard_ns = node->now_ns();
    if (state == TcpState::syn_sent)
        return handle_syn_sent(packet);
    if (state == TcpState::syn_received && !handle_syn_received(packet))
        return;
    if (packet.rst) {
        if (!before(packet.seq, rcv_next) && !before(rcv_right, packet.seq))
            close(fin_received ? -KAPI_EPIPE : -KAPI_ECONNRESET);
        return;
    }
    if (state == TcpState::time_wait || packet.syn || !packet.ack)
        return send_ack(next);
    if (probes)
        backoff = 0;
    probes = 0;
    holds_back = holds_back && is_predicted(packet);
    handle_ack(packet);
    if (state == TcpState::established)
        handle_data(packet);
    push();
}

/** Data in order and nothing else: for such a packet TCP does not look whether it has something to send. */
bool Tcb::is_predicted(const Packet &packet) const
{
    return !packet.payload.empty() && !packet.fin && packet.seq == rcv_next && packet.acked == una &&
           packet.acked + packet.window == peer_right;
}

void Tcb::handle_syn_sent(const Packet &packet)
{
    if (!packet.ack || packet.acked != next) {
        if (packet.ack && !packet.rst) {
            send_reset(packet.acked); // the answer to an earlier life of this port, whose end at the peer this ends
            if (!retries)
                set_timer(world.now_ns() + kTryAgainNs);
        }
        return;
    }
    if (packet.rst)
        return close(-KAPI_ECONNREFUSED);
    if (!packet.syn)
        return;
    rcv_next = rcv_right = packet.seq + 1; // a right edge of 0 is no place in the peer's sequence space
    una = next;
    peer_right = una + packet.window;
    world.network().count_connection();
    established();
    send_ack(next);
    push();
}

/** Whether the packet is then handled as one of an established connection. */
bool Tcb::handle_syn_received(const Packet &packet)
{
    if (packet.rst) {
        if (packet.seq == rcv_next)
            close(-KAPI_ECONNRESET);
        return false;
    }
    if (packet.syn) {
        send_syn();
        return false;
    }
    if (!packet.ack || packet.acked != next)
        return false;
    if (!listener) { // it closed in the meantime
        reset_peer();
        close(-KAPI_ECONNRESET);
        return false;
    }
    una = next;
    peer_right = una + packet.window;
    established();
    kapi_listener *to = listener;
    to->embryos--;
    to->queue.push_back(shared_from_this());
    to->notify(this);
    return state == TcpState::established;
}

void Tcb::established()
{
    state = TcpState::established;
    backoff = retries = 0;
    if (before(rcv_right, rcv_next + window()))
        rcv_right = rcv_next + window();
    reset_budget = world.network().budget_for_reset();
    reset_seen = static_cast<Sees>(world.host_random().below(3));
    world.note("established", local.port, remote.port);
    set_timer();
    tell_pending();
    if (wants_room)
        tell_acked();
}

/** Half of what was too much for the way. */
void Tcb::slow_down()
{
    on_the_way = std::max((sent_max - una) / 2, 4 * segment_size);
}

/** Too long when something was lost, which is forgotten again. */
void Tcb::measure_round_trip()
{
    if (timed_since_ns && !before(una, timed_seq)) {
        std::uint64_t trip_ns = world.now_ns() - timed_since_ns;
        shortest_trip_ns = shortest_trip_ns ? std::min(shortest_trip_ns, trip_ns) : trip_ns;
        retransmit_ns = std::max({kFirstRetransmitNs, std::min(3 * trip_ns, kSlowestTripNs), retransmit_ns / 8 * 7});
        timed_since_ns = 0;
    }
}

void Tcb::release_acked()
{
    while (!out.empty() && !before(una, out.front().seq + out.front().length)) {
        verify(out.front());
        out.pop_front();
    }
}

void Tcb::handle_ack(const Packet &packet)
{
    kapi_u32 acked = packet.acked;
    if (before(sent_max, acked) || before(acked, una))
        return;
    bool window_moved = before(peer_right, acked + packet.window);
    if (window_moved)
        peer_right = acked + packet.window;
    if (acked == una) {
        bool duplicate = !packet.length() && !window_moved && una != next;
        if (duplicate && !before(una, recover)) {
            recover = sent_max; // once a window: something was lost on the way
            slow_down();
            next = una;
        }
        return;
    }
    una = acked;
    measure_round_trip();
    on_the_way = std::min(on_the_way + segment_size, kNoLimit);
    if (before(next, una))
        next = una;
    backoff = retries = 0;
    release_acked();
    if (fin_sent && una == write_seq + 1)
        fin_acked = true;
    set_timer();
    tell_acked();
    finish_if_both_closed();
}

/** Cuts a packet down to what is new and fits; false when nothing is left. */
bool Tcb::trim(Packet &packet)
{
    if (before(rcv_next, packet.seq) || !before(rcv_next, packet.seq + packet.length()))
        return false; // something is missing before it, or all of it is old
    kapi_u32 old = rcv_next - packet.seq;
    packet.payload.erase(packet.payload.begin(),
                         packet.payload.begin() + std::min<std::ptrdiff_t>(old, std::ssize(packet.payload)));
    packet.seq = rcv_next;
    kapi_u32 fits = rcv_right - rcv_next;
    if (packet.payload.size() > fits) {
        packet.payload.resize(fits);
        packet.fin = false;
    }
    return packet.length() != 0;
}

void Tcb::handle_data(const Packet &arrived)
{
    if (!arrived.length()) {
        if (before(arrived.seq, rcv_next))
            send_ack(next); // a probe
        return;
    }
    Packet packet = arrived;
    if (fin_received || !trim(packet))
        return send_ack(next);
    if (orphan && !packet.payload.empty()) { // no program can read that
        reset_peer();
        return close(-KAPI_ECONNRESET);
    }
    rcv_next += packet.length();
    if (!packet.payload.empty()) {
        unread += packet.payload.size();
        in.push_back(std::move(packet.payload));
        deliver();
    }
    if (packet.fin)
        fin_received = true;
    if (state == TcpState::established)
        send_ack(next);
    tell_pending();
    finish_if_both_closed();
}

void Tcb::consume(std::size_t size)
{
    unread -= size;
    in_taken += size;
    if (in_taken == in.front().size()) {
        in.pop_front();
        in_taken = 0;
    }
}

void Tcb::put_back(std::vector<unsigned char> bytes)
{
    if (bytes.empty())
        return;
    if (in_taken) {
        std::vector<unsigned char> &first = in.front();
        first.erase(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(in_taken));
        in_taken = 0;
    }
    unread += bytes.size();
    in.push_front(std::move(bytes));
}

void Tcb::forget_unread()
{
    in.clear();
    unread = in_taken = 0;
}

void Tcb::deliver()
{
    TurnScope turn;
    while (attached && !declined && unread) {
        const std::vector<unsigned char> &first = in.front();
        kapi_rx rx{this, first.data() + in_taken, first.size() - in_taken};
        kapi_size taken;
        {
            AtomicScope atomic(this);
            taken = ops.rx(context, &rx, rx.length);
        }
        if (taken > rx.length)
            broken("rx() consumed %zu of %zu bytes", static_cast<std::size_t>(taken),
                   static_cast<std::size_t>(rx.length));
        if (taken < rx.length)
            declined = true;
        if (taken)
            consume(taken);
    }
}

void Tcb::announce_window()
{
    if (state != TcpState::established || fin_received)
        return;
    kapi_u32 told = rcv_right - rcv_next;
    if (window() > told && (told < segment_size || window() - told >= rcvbuf() / 2))
        send_ack(next);
}

} // namespace sim
