// SPDX-License-Identifier: GPL-2.0
#include "tcp.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sim {

namespace {

constexpr unsigned kSynRetries = 6;
constexpr unsigned kProbes = 15; // as net.ipv4.tcp_retries2
// What 15 retransmissions take when each waits twice as long as the one before, up to the longest. The kernel counts the time.
constexpr std::uint64_t kGiveUpNs = 924'600 * kMillisecond;
constexpr unsigned kOrphanRetries = 8;
constexpr std::uint64_t kRetransmitNs = 200 * kMillisecond;
constexpr std::uint64_t kSlowestTripNs = 3 * kSecond;
constexpr std::uint64_t kLongestRetransmitNs = 120 * kSecond;
constexpr std::uint64_t kTimeWaitNs = kSecond;       // shorter than real: simulated hosts make many connections
constexpr std::uint64_t kTryAgainNs = 8 * kMillisecond; // as TCP_TIMEOUT_MIN
constexpr std::uint64_t kOrphanNs = 60 * kSecond;
constexpr std::uint64_t kPromiseNs = 50 * kMillisecond; // less than TCP's own timer

kapi_u32 first_sequence_number(Random &random)
{
    // Half of the streams wrap around early.
    auto near_wrap = static_cast<kapi_u32>(-static_cast<kapi_s64>(random.below(100'000)));
    return random.one_in(2) ? near_wrap : static_cast<kapi_u32>(random.next());
}

} // namespace

Tcb::Tcb(World &w, kapi_net &n, const kapi_addr &l, const kapi_addr &r)
    : world(w), net(&n), node(n.node), local(l), remote(r), retransmit_ns(kRetransmitNs),
      last_heard_ns(n.node->now_ns())
{
    static constexpr kapi_u32 kSegmentSizes[] = {536, 1448, 16384, 65536};
    Random &random = w.host_random();
    id = static_cast<std::uint32_t>(random.next());
    segment_size = kSegmentSizes[random.below(4)];
    kapi_u32 first = first_sequence_number(random);
    una = next = sent_max = recover = peer_right = first;
    write_seq = first + 1; // the SYN takes one
}

void Tcb::connect()
{
    state = TcpState::syn_sent;
    next = sent_max = una + 1;
    send_syn();
    set_timer();
}

kapi_u32 Tcb::window() const
{
    return unread >= rcvbuf() ? 0 : rcvbuf() - static_cast<kapi_u32>(unread);
}

kapi_u32 Tcb::room() const
{
    kapi_u32 used = write_seq - una;
    return used >= sndbuf() ? 0 : sndbuf() - used;
}

// ---- sending

void Tcb::send_packet(Packet packet) const
{
    packet.from = local;
    packet.to = remote;
    world.network().send(*node, std::move(packet));
}

void Tcb::send_syn()
{
    Packet packet;
    packet.syn = true;
    packet.seq = una;
    packet.window = window();
    if (state == TcpState::syn_received) {
        packet.ack = true;
        packet.acked = rcv_next;
        rcv_right = rcv_next + packet.window;
    }
    send_packet(std::move(packet));
}

void Tcb::send_ack(kapi_u32 seq)
{
    if (before(rcv_right, rcv_next + window()))
        rcv_right = rcv_next + window();
    Packet packet;
    packet.ack = true;
    packet.seq = seq;
    packet.acked = rcv_next;
    packet.window = rcv_right - rcv_next;
    send_packet(std::move(packet));
}

void Tcb::send_reset(kapi_u32 seq)
{
    Packet packet;
    packet.rst = packet.ack = true;
    packet.seq = seq;
    packet.acked = rcv_next;
    send_packet(std::move(packet));
}

void Tcb::reset_peer()
{
    send_reset(sent_max);
}

void Tcb::verify(const Piece &piece)
{
    if (piece.page && checksum(piece.bytes(), piece.length) != piece.sum)
        broken("a page that was handed to a stream changed before it was acknowledged");
}

void Tcb::copy_out(kapi_u32 seq, unsigned char *to, kapi_u32 length) const
{
    for (const Piece &piece : out) {
        kapi_u32 skip = seq - piece.seq;
        if (!length)
            return;
        if (skip >= piece.length)
            continue;
        if (!skip)
            verify(piece);
        kapi_u32 size = std::min(piece.length - skip, length);
        std::memcpy(to, piece.bytes() + skip, size);
        to += size;
        seq += size;
        length -= size;
    }
    if (length)
        broken("tcp: %u bytes to send are not there", length);
}

void Tcb::send_data(kapi_u32 length)
{
    bool dies = reset_budget && reset_budget <= length;
    if (dies)
        length = static_cast<kapi_u32>(reset_budget);
    Packet packet;
    packet.ack = true;
    packet.seq = next;
    packet.acked = rcv_next;
    packet.window = rcv_right - rcv_next;
    packet.payload.resize(length);
    copy_out(next, packet.payload.data(), length);
    next += length;
    if (before(sent_max, next)) {
        sent_max = next;
        if (!timed_since_ns) {
            timed_seq = next;
            timed_since_ns = world.now_ns();
        }
    }
    send_packet(std::move(packet));
    if (dies)
        network_reset();
    else if (reset_budget)
        reset_budget -= length;
}

/** The network's own reset, after the byte it had chosen. */
void Tcb::network_reset()
{
    reset_budget = 0;
    world.network().count_reset();
    world.note("network resets", local.port, remote.port);
    if (reset_seen != Sees::first)
        send_reset(next);
    if (reset_seen != Sees::second)
        post({Input::lost, nullptr, -KAPI_ECONNRESET});
}

/** Sends one packet if the window and what is queued allow. */
bool Tcb::push_one()
{
    kapi_u32 end = before(peer_right, write_seq) ? peer_right : write_seq;
    if (before(una + on_the_way, end))
        end = una + on_the_way;
    if (before(next, end)) {
        kapi_u32 length = std::min(end - next, segment_size);
        bool partial = write_seq - next < segment_size;
        if (holds_back && partial && !before(next, sent_max) && !fin_queued)
            return false;
        if (world.host_random().one_in(16))
            length = 1 + static_cast<kapi_u32>(world.host_random().below(length));
        send_data(length);
        return true;
    }
    if (fin_queued && next == write_seq) {
        Packet packet;
        packet.fin = packet.ack = true;
        packet.seq = next;
        packet.acked = rcv_next;
        packet.window = rcv_right - rcv_next;
        if (!fin_sent)
            fin_received_first = fin_received;
        fin_sent = true;
        next++;
        if (before(sent_max, next))
            sent_max = next;
        send_packet(std::move(packet));
        return true;
    }
    return false;
}

void Tcb::push()
{
    if (state != TcpState::established)
        return;
    bool idle = una == next;
    while (push_one())
        ;
    bool first = idle && una != next; // its time begins now, not when it was held back
    if (!timer.armed() || !timer_retransmits || first) // frequent writes must not delay a retransmission
        set_timer();
}

kapi_size Tcb::append(const kapi_segment *segments, unsigned int count)
{
    kapi_size limit = room();
    if (limit && world.host_random().one_in(16))
        limit = 1 + world.host_random().below(limit); // the host is short of memory: it takes less
    kapi_size taken = 0;
    for (unsigned int i = 0; i < count; i++) {
        const kapi_segment &segment = segments[i];
        auto length = static_cast<kapi_u32>(std::min<kapi_size>(segment.length, limit - taken));
        if (!length)
            continue;
        Piece piece{write_seq, length, {}, PageRef(), segment.offset, 0};
        if (segment.page) {
            auto *page = static_cast<Page *>(segment.page);
            if (segment.offset > page->size || segment.length > page->size - segment.offset)
                broken("a segment reaches beyond its page");
            piece.page = PageRef(page);
            piece.sum = checksum(piece.bytes(), length);
        } else {
            const auto *bytes = static_cast<const unsigned char *>(segment.addr);
            piece.copied.assign(bytes, bytes + length);
        }
        out.push_back(std::move(piece));
        write_seq += length;
        taken += length;
        if (length < segment.length)
            break;
    }
    appended_ns = world.now_ns();
    return taken;
}

void Tcb::queue_fin()
{
    if (fin_queued)
        return;
    fin_queued = true;
    push();
}

// ---- timers

std::uint64_t Tcb::timeout_ns() const
{
    std::uint64_t now = world.now_ns();
    auto backed_off = [&](std::uint64_t first) {
        return now + std::min(first << std::min(backoff, 12u), kLongestRetransmitNs);
    };
    switch (state) {
    case TcpState::syn_sent:
    case TcpState::syn_received:
        return backed_off(kSecond);
    case TcpState::time_wait:
        return now + kTimeWaitNs;
    case TcpState::closed:
        return 0;
    case TcpState::established:
        break;
    }
    if (una != next || next != write_seq + fin_queued)
        return backed_off(retransmit_ns); // unacknowledged, or a closed window to probe
    if (orphan)
        return now + kOrphanNs;
    if (!options.keepalive_idle_s)
        return 0;
    return probes ? now + options.keepalive_interval_s * kSecond
                  : node->world_time(last_heard_ns + options.keepalive_idle_s * kSecond);
}

void Tcb::set_timer()
{
    timer_retransmits = una != next || next != write_seq + fin_queued;
    set_timer(timeout_ns());
}

void Tcb::set_timer(std::uint64_t when)
{
    world.cancel(timer);
    if (when)
        timer = world.at(when, [weak = weak_from_this()] {
            if (auto self = weak.lock()) {
                self->timer = {};
                self->post({Input::timeout, nullptr});
            }
        });
}

void Tcb::limit_back_off(std::uint64_t limit_ns)
{
    limit_ns = std::max(limit_ns, 3 * shortest_trip_ns);
    if (state != TcpState::established || !timer_retransmits || timer.time_ns <= world.now_ns() + limit_ns)
        return;
    backoff = 0;
    retransmit_ns = std::min(retransmit_ns, limit_ns);
    probes = std::min(probes, 1u);
    set_timer(world.now_ns() + limit_ns);
}

void Tcb::handle_timeout()
{
    if (timer.armed())
        return; // a packet came in between and moved it
    switch (state) {
    case TcpState::closed:
        return;
    case TcpState::time_wait:
        close(0);
        return;
    case TcpState::syn_sent:
    case TcpState::syn_received:
        backoff++;
        if (++retries > kSynRetries)
            return close(-KAPI_ETIMEDOUT);
        send_syn();
        return set_timer();
    case TcpState::established:
        break;
    }
    if (una != next) {
        backoff++;
        if (!retries++)
            retries_since_ns = world.now_ns();
        if (orphan ? retries > kOrphanRetries : world.now_ns() - retries_since_ns >= kGiveUpNs)
            return close(-KAPI_ETIMEDOUT);
        slow_down();
        next = una;
        push_one();
    } else if (next != write_seq + fin_queued) {
        probe();
        if (state == TcpState::closed)
            return;
    } else if (orphan) {
        return close(0);
    } else if (node->now_ns() >= last_heard_ns + options.keepalive_idle_s * kSecond) {
        if (++probes > options.keepalive_count) {
            reset_peer();
            return close(-KAPI_ETIMEDOUT);
        }
        send_ack(una - 1);
    }
    set_timer();
}

/** Something is to be sent and nothing is on its way: the window is closed, or more was to come. */
void Tcb::probe()
{
    holds_back = false;
    if (push_one())
        return;
    backoff++;
    if (++probes > kProbes)
        return close(-KAPI_ETIMEDOUT);
    send_ack(una - 1);
}

void Tcb::watch_promise()
{
    if (promise_due_ns)
        return;
    promise_due_ns = world.now_ns() + kPromiseNs;
    world.at(promise_due_ns, [weak = weak_from_this()] {
        if (auto self = weak.lock())
            self->post({Input::promise, nullptr});
    });
}

/** What was announced to follow at once has followed, or has been taken back: it is not left to a timer of TCP's. */
void Tcb::check_promise()
{
    std::uint64_t now = world.now_ns();
    bool late = now - std::exchange(promise_due_ns, 0) > kMillisecond; // the machine stood still, or a program had the lock
    // While something is on its way, an acknowledgement is to come, with which the rest goes.
    if (state != TcpState::established || !holds_back || next != una || next == write_seq)
        return;
    if (!late && now - appended_ns >= kPromiseNs)
        broken("port %u to %u: TCP held %u bytes back for more, which did not come", local.port, remote.port, write_seq - next);
    watch_promise();
}

// ---- receiving

void Tcb::post(Input input)
{
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
    if (!to->stopped) {
        to->calls++;
        {
            AtomicScope atomic(this);
            to->ready(to->context);
        }
        to->calls--;
        world.wake(to->idle);
    }
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
        retransmit_ns = std::max({kRetransmitNs, std::min(3 * trip_ns, kSlowestTripNs), retransmit_ns / 8 * 7});
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

// ---- events

void Tcb::tell(kapi_stream_event event, int why)
{
    world.note("event", static_cast<std::uint64_t>(event), static_cast<std::uint64_t>(-why));
    AtomicScope atomic(this);
    ops.event(context, event, why);
}

void Tcb::tell_acked()
{
    if (!attached || state == TcpState::closed)
        return;
    wants_room = false;
    AtomicScope atomic(this);
    ops.acked(context, una);
}

void Tcb::tell_pending()
{
    if (!attached)
        return;
    bool was_established = state == TcpState::established || state == TcpState::time_wait || fin_received;
    if (!told_established && was_established) {
        told_established = true;
        tell(KAPI_STREAM_ESTABLISHED, 0);
    }
    if (!told_eof && fin_received) {
        told_eof = true;
        tell(KAPI_STREAM_EOF, 0);
    }
    if (!told_closed && (state == TcpState::closed || state == TcpState::time_wait)) {
        told_closed = true;
        tell(KAPI_STREAM_CLOSED, error);
    }
}

void Tcb::finish_if_both_closed()
{
    if (state != TcpState::established || !fin_acked || !fin_received)
        return;
    if (fin_received_first)
        return close(0);
    state = TcpState::time_wait;
    set_timer();
    tell_pending();
}

void Tcb::close(int why)
{
    if (state == TcpState::closed)
        return;
    world.note("closed", local.port, static_cast<std::uint64_t>(-why));
    if (state == TcpState::syn_received && listener)
        listener->embryos--;
    if (state != TcpState::time_wait)
        error = why;
    state = TcpState::closed;
    world.cancel(timer);
    auto self = shared_from_this(); // the list may hold the last reference
    world.network().remove(*self);
    tell_pending();
}

} // namespace sim

bool kapi_listener::matches(const kapi_net *packet_net, const kapi_addr &to) const
{
    static constexpr kapi_u8 kAny6[16] = {};
    static constexpr kapi_u8 kAny4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    bool is4 = std::memcmp(to.ip, kAny4, 12) == 0;
    return packet_net == net && to.port == addr.port && !stopped &&
           (std::memcmp(addr.ip, kAny6, 16) == 0 || (is4 && std::memcmp(addr.ip, kAny4, 16) == 0) ||
            sim::same_ip(addr, to));
}
