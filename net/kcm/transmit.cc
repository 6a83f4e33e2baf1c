// SPDX-License-Identifier: GPL-2.0
// From the send queue to TCP. One context does it at a time for a socket: whoever sends when nobody else does, or the
// socket's work.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr unsigned batch_segments = 32;
constexpr unsigned few_segments = 4; // of one message, of which most have one
constexpr unsigned batch_messages = 256; // bounds how long the queue is locked
constexpr u32 batch_contended = 16 * 1024; // bytes after which others get the connection
constexpr unsigned rounds_max = 64; // then the socket's work goes on, and the program gets back to its own

} // namespace

// What goes to TCP in one call.
struct Socket::Batch {
    kapi_segment segments[batch_segments];
    unsigned count = 0;
    u32 bytes = 0;
    bool more = false; // messages follow that may go at once

    // Adds what is left of m. False: not all of it fits.
    bool add(const Outgoing& m)
    {
        auto filled = m.fill(segments + count, batch_segments - count);
        bytes += filled.bytes;
        // Small messages lie one behind the other in a page, as they were sent, and TCP gets them as one piece.
        for (unsigned end = count + filled.segments; filled.segments--;) {
            const kapi_segment& next = segments[end - filled.segments - 1];
            if (count && is_continued(segments[count - 1], next))
                segments[count - 1].length += next.length;
            else
                segments[count++] = next;
        }
        return filled.bytes == m.left();
    }
    static bool is_continued(const kapi_segment& a, const kapi_segment& b)
    {
        return a.page && a.page == b.page && a.offset + a.length == b.offset;
    }
};

void Socket::transmit_later()
{
    ref();
    if (!transmit_work_.queue(mux->workqueue()))
        unref();
}

void Socket::transmit_in_work()
{
    transmit();
    unref();
}

void Socket::transmit()
{
    if (transmitters_.fetch_add(1) == 0)
        transmit_until_left();
    // Else whoever is at it looks again before he leaves.
}

// Ends being the transmitter. False: somebody has asked for transmission since.
bool Socket::leave()
{
    u32 seen = 1;
    return transmitters_.compare_exchange(seen, 0);
}

// Transmits, and ends being the transmitter when nobody has asked since.
void Socket::transmit_until_left()
{
    u32 seen = 1;
    unsigned rounds = 0;
    do {
        transmit_all();
        if (++rounds == rounds_max) {
            transmitters_.exchange(0);
            transmit_later();
            return;
        }
    } while (!transmitters_.compare_exchange(seen, 0));
}

// A message before which there is none goes straight to a connection that is free, by no queue, and stays the caller's. What
// TCP does not take of it is queued before all others. False: it has to be queued behind others.
bool Socket::send_at_once(Ref<Outgoing>& message)
{
    u32 nobody = 0;
    if (queued_bytes_ || !transmitters_.compare_exchange(nobody, 1))
        return false;
    // We are the transmitter. Whoever was it when we looked may have left something for when there is room.
    if (queued_bytes_) {
        transmit_until_left();
        return false;
    }
    if (!keeps_) {
        HW_ASSERT(!psock_); // who leaves with one has a message partly with TCP
        psock_ = mux->reservations.take_if_free(*this);
    }
    if (psock_ && !psock_->failed() && send_whole(*message)) [[likely]] {
        done_at_once();
        bool keeps = keeps_;
        if (leave()) [[likely]] {
            if (keeps && mux->reservations.wants_back())
                transmit();
            return true;
        }
    } else {
        put_first(std::move(message));
    }
    transmit_until_left();
    return true;
}

// Keeps the connection for the next message, which saves locks, where it makes no difference to anybody.
void Socket::done_at_once()
{
    if (!keeps_) {
        keeps_ = mux->reservations.keep(*psock_);
        if (!keeps_)
            let_go();
        return;
    }
    psock_->reserved.add(1);
    psock_->unreserved.add(1);
}

Ref<Psock> Socket::take_kept(bool& asked)
{
    u32 nobody = 0;
    if (!transmitters_.compare_exchange(nobody, 1))
        return nullptr;
    keeps_ = false;
    Ref<Psock> kept = std::move(psock_);
    asked = !leave();
    if (asked)
        transmitters_.exchange(0);
    return kept;
}

void Socket::put_first(Ref<Outgoing> message)
{
    Guard guard(send_lock_);
    queued_bytes_.add(message->left() + message->overhead());
    queue_.push_front(std::move(message));
    queued_++;
    ready_++;
}

// False: TCP took only a part, or nothing.
bool Socket::send_whole(Outgoing& message)
{
    HW_UNINITIALIZED kapi_segment segments[few_segments];
    auto filled = message.fill(segments, few_segments);
    u32 end;
    s64 taken = kapi_stream_send(psock_->stream(), segments, filled.segments, filled.bytes < message.left(), &end);
    if (taken < 0) {
        psock_->fail(static_cast<int>(-taken));
        return false;
    }
    message.sent = static_cast<u32>(taken);
    count_bytes(message.sent);
    if (message.left())
        return false;
    count_message();
    return true;
}

void Socket::transmit_all()
{
    while (transmit_batch())
        ;
    bool done;
    {
        Guard guard(send_lock_);
        done = closed_ && queue_.empty();
    }
    if (done)
        finish();
}

// The messages from the first on that may take this connection, as far as they fit. Not many when others wait for the
// connection, and only what is left of the first when TCP has a part of it: with a slow peer this one would never be through.
void Socket::collect(Batch& batch)
{
    bool contended = mux->reservations.contended();
    unsigned seen = 0, most = contended && queue_.front()->sent ? 1 : ready_;
    u32 most_bytes = contended ? batch_contended : ~u32{0};
    for (Outgoing* m = queue_.front(); m && seen < most && batch.bytes < most_bytes; m = queue_.next(*m), seen++) {
        if (m->wanted && m->wanted.get() != psock_.get())
            return;
        batch.more = true;
        if (seen == batch_messages || batch.count == batch_segments || !batch.add(*m))
            return;
        batch.more = false;
    }
}

// Finds what is to be done next, and for sending a connection and what goes.
Socket::Step Socket::prepare(Batch& batch)
{
    Guard guard(send_lock_);
    if (!ready_)
        return Step::done;
    Outgoing& first = *queue_.front();
    if (given_up_.load_acquire() && first.sent == 0)
        return Step::drop;
    if (!psock_) {
        auto taken = mux->reservations.take(*this, first.wanted.get());
        if (!taken)
            return Step::refuse;
        psock_ = std::move(*taken);
        if (!psock_)
            return Step::wait;
    }
    // It may have been granted for a message that is gone.
    if (first.wanted && first.wanted.get() != psock_.get() && first.sent == 0)
        return Step::let_go;
    if (std::exchange(keeps_, false))
        mux->reservations.resume(*psock_);
    collect(batch);
    return Step::send;
}

void Socket::count_bytes(u32 bytes)
{
    tx_bytes.add(bytes);
    psock_->tx_bytes.add(bytes);
}

void Socket::count_message()
{
    tx_msgs.add(1);
    psock_->tx_msgs.add(1);
}

// TCP took so many more bytes.
Socket::Left Socket::account(u32 bytes)
{
    RefList<Outgoing, ToSend> done;
    Room room;
    Left left;
    {
        Guard guard(send_lock_);
        queued_bytes_.sub(bytes);
        count_bytes(bytes);
        while (bytes) {
            Outgoing* m = queue_.front();
            u32 part = min(bytes, m->left());
            m->sent += part;
            bytes -= part;
            if (m->left())
                break;
            queued_bytes_.sub(m->overhead());
            done.push_back(queue_.pop_front());
            queued_--;
            ready_--;
            count_message();
        }
        room = look_for_room();
        left.any = ready_ != 0;
        left.cut = left.any && queue_.front()->sent != 0;
    }
    while (Ref<Outgoing> message = done.pop_front())
        used_.keep(std::move(message));
    tell(room);
    return left;
}

void Socket::let_go()
{
    Ref<Psock> psock = std::move(psock_);
    if (!psock)
        return;
    keeps_ = false;
    psock->expect_room(false);
    mux->reservations.give_back(*psock);
}

// The connection ended. A message of which TCP has a part goes again, as a whole, over another: this one's peer can
// never have received it whole. It must not take what it has for a message either, so the connection is reset.
void Socket::connection_lost()
{
    bool cut = false;
    {
        Guard guard(send_lock_);
        Outgoing* m = queue_.front();
        if (m && m->sent) {
            queued_bytes_.add(m->sent);
            m->sent = 0;
            cut = true;
        }
    }
    psock_->tx_aborts.add(1);
    if (cut) {
        psock_->cut();
        mux->count_retry();
        kapi_stream_reset(psock_->stream());
    }
    let_go();
}

// The first message cannot be sent at all.
void Socket::drop_head()
{
    Ref<Outgoing> dropped;
    Room room;
    {
        Guard guard(send_lock_);
        dropped = queue_.pop_front();
        queued_--;
        ready_--;
        queued_bytes_.sub(dropped->left() + dropped->overhead());
        room = look_for_room();
    }
    tell(room);
}

// Does one step. False: there is nothing more to do now.
bool Socket::transmit_batch()
{
    HW_UNINITIALIZED Batch batch;
    batch.count = batch.bytes = 0;
    batch.more = false;
    switch (prepare(batch)) {
    case Step::done:
        let_go();
        return false;
    case Step::wait:
        return false;
    case Step::let_go:
        let_go();
        return true;
    case Step::drop:
        let_go();
        drop_head();
        return true;
    case Step::refuse:
        drop_head();
        report(KAPI_ENOTCONN);
        return true;
    case Step::send:
        return send_batch(batch);
    }
    return false;
}

// Sends what one call to TCP can take.
bool Socket::send_batch(Batch& batch)
{
    Psock& psock = *psock_;
    if (psock.failed()) {
        connection_lost();
        return true;
    }
    if (given_up_.load_acquire()) {
        psock.fail(KAPI_ECONNABORTED);
        return true;
    }
    u32 end;
    s64 taken = kapi_stream_send(psock.stream(), batch.segments, batch.count, batch.more, &end);
    if (taken < 0) {
        psock.fail(static_cast<int>(-taken));
        return true;
    }
    Left left = account(static_cast<u32>(taken));
    if (taken < batch.bytes) {
        // Between messages it goes to whoever wants to have it to himself: that is not to wait for room.
        if (!left.cut && !mux->reservations.usable(psock)) {
            let_go();
            return true;
        }
        // Once more after saying that we wait: what TCP acknowledged in between went unnoticed.
        if (psock.expects_room() && taken == 0)
            return false;
        psock.expect_room(true);
        return true;
    }
    psock.expect_room(false);
    bool wanted = mux->reservations.contended() || !mux->reservations.usable(psock);
    if (!left.any || (wanted && !left.cut))
        let_go();
    return left.any;
}

} // namespace kcm
