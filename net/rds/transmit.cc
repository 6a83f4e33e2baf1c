// SPDX-License-Identifier: GPL-2.0
#include "transmit.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

// A map, a handshake, a ping or its answer: its receiver waits for it, and has nothing to do with messages that go one way.
bool hurries(Message& message)
{
    return !message.was_owned || u16{message.header().dport} == 0;
}

bool may_wait_for_others(Batch& batch)
{
    for (unsigned i = 0; i < batch.count; i++)
        if (hurries(*batch.item(i).message))
            return false;
    return true;
}

} // namespace

Transmitter::~Transmitter()
{
    HW_ASSERT(!partial_);
}

void Transmitter::stream_ended()
{
    Ref<Message> partial = std::move(partial_);
    partial_begin_ = 0;
    control_.store_relaxed(0);
}

bool Transmitter::pump()
{
    return path_.connection().loops() ? pump_loop() : pump_stream();
}

// ---- to a stream

// A foreign peer is sent to at once, as it expects; see receiver_memory.h for what that costs.
bool Transmitter::may_send_numbered() const
{
    return path_.is_answered() || path_.connection().peer() == Peer::foreign;
}

// Null when there is no memory.
Ref<Message> Transmitter::make_control(Control what)
{
    Connection& connection = path_.connection();
    auto message = what == control_map ? Message::internal(map_bytes, Alloc::sleep) : Message::internal();
    if (!message)
        return {};
    (*message)->control = what;
    if (what != control_map) {
        connection.write_handshake_to(path_, (*message)->header(), what == control_reply);
        return std::move(*message);
    }
    (*message)->header().flags = flag_congestion_map;
    connection.local_map().snapshot((*message)->internal_payload());
    connection.net.count(Stat::cong_update_queued);
    return std::move(*message);
}

// False when something is still due, because there was no memory: it must be sent before the messages.
bool Transmitter::collect_control(Batch& batch)
{
    if (!control_.load_acquire())
        return true;
    u32 due = control_.exchange(0);
    for (Control what : {control_probe, control_reply, control_map}) {
        if (!(due & what))
            continue;
        Ref<Message> message = make_control(what);
        if (!message) {
            control_.fetch_or(due);
            path_.retry_later(RDS_PATH_SEND);
            return false;
        }
        due &= ~what;
        batch.add(std::move(message), 0);
    }
    return true;
}

void Transmitter::collect(Batch& batch)
{
    // Read before control_ is: the answer that allows the first message came after the peer's own probe, so our reply
    // to that goes before the message.
    bool numbered = may_send_numbered();
    if (partial_)
        batch.add(std::move(partial_), std::exchange(partial_begin_, 0));
    if (collect_control(batch) && numbered) {
        if (!named_ && !path_.is_answered())
            path_.note_unnamed();
        queue_.fill(batch);
    }
    batch.more |= batch.cut;
}

void Transmitter::report_taken(Batch& batch, u32 taken)
{
    for (unsigned i = 0; i < batch.count; i++) {
        auto& item = batch.item(i);
        if (taken < item.bytes || item.begin + item.bytes < item.message->wire_length())
            return;
        taken -= item.bytes;
        report_outgoing(KAPI_TRACE_RDS_TRANSMIT, path_, item.message->header());
    }
}

// Notes what the stream took. True when it took everything.
bool Transmitter::account(Batch& batch, u32 taken, u32 end_seq)
{
    if (kapi_traces(KAPI_TRACE_RDS_TRANSMIT))
        report_taken(batch, taken);
    taken_.store_relaxed(taken_.load_relaxed() + taken);
    queue_.account(batch, taken, end_seq);
    partial_ = std::move(batch.partial);
    partial_begin_ = batch.partial_begin;
    control_.fetch_or(batch.control_left);
    if (batch.more_acked) [[unlikely]]
        path_.notify(RDS_PATH_SEND);
    if (batch.probe_sent) {
        probe_end_ = batch.probe_end;
        named_ = true;
    }
    return taken == batch.bytes;
}

// Returns the bytes that were taken, or an error that ended the stream.
s64 Transmitter::offer(Batch& batch, u32& end_seq)
{
    Connection& connection = path_.connection();
    const rds_transport& transport = connection.transport;
    if (!batch.whole) {
        connection.one_way.sent(batch.count);
        hurries_ = (held_back_ && hurries_) || !connection.one_way.sends() || !may_wait_for_others(batch);
        held_back_ = batch.more;
        u32 flags = batch.more ? KAPI_STREAM_MORE : hurries_ ? 0 : KAPI_STREAM_GATHER;
        return transport.send(connection.state(), path_.index(), batch.segment, batch.segments, flags, &end_seq);
    }
    rds_out* messages[Batch::max_messages];
    for (unsigned i = 0; i < batch.count; i++)
        messages[i] = reinterpret_cast<rds_out*>(batch.item(i).message.get());
    int taken = transport.post(connection.state(), path_.index(), messages, batch.count);
    s64 bytes = min(taken, 0);
    for (int i = 0; i < taken; i++)
        bytes += batch.item(static_cast<unsigned>(i)).bytes;
    return bytes;
}

// The following messages were cancelled.
void Transmitter::push()
{
    if (!std::exchange(held_back_, false))
        return;
    Connection& connection = path_.connection();
    u32 end_seq = 0;
    if (connection.transport.send(connection.state(), path_.index(), nullptr, 0, 0, &end_seq) < 0)
        path_.notify(RDS_PATH_LOST);
}

bool Transmitter::pump_stream()
{
    Connection& connection = path_.connection();
    for (unsigned rounds = 0; rounds < max_rounds; rounds++) {
        if (!path_.is_up())
            return false;
        HW_UNINITIALIZED Batch batch(connection.transport.post != nullptr);
        collect(batch);
        path_.arm_tick(); // also for what waits for an answer
        if (batch.count == 0) {
            blocked_.store_relaxed(0); // what was refused was cancelled
            push();
            return false;
        }
        u32 end_seq = 0;
        s64 taken = offer(batch, end_seq);
        bool all = account(batch, taken < 0 ? 0 : static_cast<u32>(taken), end_seq);
        if (taken < 0) {
            path_.notify(RDS_PATH_LOST);
            return false;
        }
        if (all) {
            blocked_.store_relaxed(0);
            // What became due meanwhile brought its own call, which waits for us to release the path.
            if (!batch.more) {
                push();
                return false;
            }
            continue;
        }
        // Room may have come just before the flag was up: one more try with the flag up settles it.
        if (blocked_.exchange(1))
            return false;
    }
    return true;
}

// ---- loopback

bool Transmitter::pump_loop()
{
    for (unsigned i = 0; i < max_looped; i++) {
        if (path_.stalled())
            return false;
        Ref<Message> message = queue_.take();
        if (!message)
            return false;
        auto incoming = Incoming::from_message(Ref<Message>::share(*message));
        if (!incoming) {
            queue_.give_back(std::move(message));
            path_.retry_later(RDS_PATH_SEND);
            return false;
        }
        hand_over(std::move(*incoming));
        if (Ref<Socket> owner = message->take_owner())
            owner->send_done(*message);
    }
    return true;
}

// Its socket counts it as sent already, and it is not on the socket's list.
bool Transmitter::pass(const Ref<Message>& message)
{
    if (!message->room_for_incoming() || path_.stalled() || !queue_.pass(*message))
        return false;
    path_.connection().net.count(Stat::send_queued);
    trace_outgoing(KAPI_TRACE_RDS_SEND, path_, message->header());
    auto incoming = Incoming::from_message(Ref<Message>::share(*message));
    if (HW_ASSERT(incoming.has_value()))
        hand_over(std::move(*incoming));
    return true;
}

void Transmitter::hand_over(Ref<Incoming> incoming)
{
    trace_outgoing(KAPI_TRACE_RDS_TRANSMIT, path_, incoming->header);
    taken_.store_relaxed(taken_.load_relaxed() + sizeof(Header) + incoming->length());
    incoming->trace_ns[0] = incoming->trace_ns[1] = path_.connection().net.trace_clock_ns();
    path_.receive(std::move(incoming));
}

} // namespace rds
