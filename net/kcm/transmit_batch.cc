// SPDX-License-Identifier: GPL-2.0
// One step of a socket's transmitter with one queue: what goes to TCP in one call, and what follows from its result.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr unsigned batch_segments = 32;
constexpr unsigned batch_messages = 256; // bounds how long the queue is locked
constexpr u32 batch_contended = 16 * 1024; // bytes after which others get the connection

} // namespace

// What goes to TCP in one call.
struct Socket::Batch {
    kapi_segment segments[batch_segments];
    unsigned count;
    u32 bytes;
    bool more; // messages follow that may go at once

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
    // Goes no further than that.
    void end_at(u32 most)
    {
        while (bytes > most) {
            kapi_segment& last = segments[count - 1];
            u32 over = min(bytes - most, last.length);
            last.length -= over;
            bytes -= over;
            if (!last.length)
                count--;
        }
    }
    static bool is_continued(const kapi_segment& a, const kapi_segment& b)
    {
        return a.page && a.page == b.page && a.offset + a.length == b.offset;
    }
};

// The messages from the first on, as far as they fit. Not many when others wait for the connection or it is to be unattached,
// and only what is left of the first when TCP has a part of it: with a slow peer this one would never be through.
void Socket::collect(SendQueue& queue, Batch& batch)
{
    bool contended = mux->reservations.contended(*queue.psock) || !mux->reservations.usable(*queue.psock);
    Outgoing& first = *queue.messages.front();
    if (contended && first.is_cut()) {
        batch.add(first);
        batch.end_at(first.left_of_cut());
        return;
    }
    u32 seen = 0, most_bytes = contended ? batch_contended : ~u32{0};
    for (Outgoing* m = &first; m && may_go(*m) && batch.bytes < most_bytes; m = queue.messages.next(*m)) {
        batch.more = true;
        if (seen >= batch_messages || batch.count == batch_segments || !batch.add(*m))
            return;
        seen += m->count() - m->done();
        batch.more = false;
    }
}

// Finds what is to be done next, and for sending a connection and what goes.
Socket::Step Socket::prepare(SendQueue& queue, Batch& batch)
{
    Guard guard(send_lock_);
    if (queue.messages.empty())
        return Step::nothing;
    Outgoing& first = *queue.messages.front();
    if (!may_go(first))
        return Step::nothing;
    if (given_up_.load_acquire() && !first.is_cut())
        return Step::drop;
    if (!queue.psock) {
        HW_ASSERT(!first.is_cut()); // such a message keeps its connection
        auto taken = mux->reservations.take(queue);
        bool again = !taken && taken.error().code() == KAPI_EAGAIN;
        if (!taken && !again)
            return Step::refuse;
        if (taken)
            queue.psock = std::move(*taken);
        queue.waits = !queue.psock;
        if (queue.waits)
            return again ? Step::again : Step::wait;
    }
    bool begins = !first.is_cut() && !queue.psock->failed();
    if (begins && mux->reservations.holds_back() && !mux->reservations.usable(*queue.psock))
        return Step::release; // it is to be unattached
    keep_psock(queue);
    collect(queue, batch);
    return Step::send;
}

// False: the queue has to wait for its connection, or for room in TCP.
bool Socket::send_next(SendQueue& queue)
{
    HW_UNINITIALIZED Batch batch;
    batch.count = batch.bytes = 0;
    batch.more = false;
    switch (prepare(queue, batch)) {
    case Step::nothing:
        stop_using(queue);
        return true;
    case Step::wait:
        return false;
    case Step::again:
        return true;
    case Step::drop:
        leave_psock(queue);
        drop_unsent(queue);
        return true;
    case Step::refuse:
        drop_unsent(queue);
        report(KAPI_ENOTCONN);
        return true;
    case Step::release:
        leave_psock(queue);
        return true;
    case Step::send:
        return send_batch(queue, batch);
    }
    return true;
}

void Socket::count_bytes(Psock& psock, u32 bytes)
{
    tx_bytes.add(bytes);
    psock.tx_bytes.add(bytes);
}

// before: done() of them.
void Socket::count_messages(Psock& psock, const Outgoing& message, u32 before)
{
    u32 count = message.done() - before;
    if (!count)
        return;
    if (kapi_traces(KAPI_TRACE_KCM_TRANSMIT))
        for (u32 i = before; i < message.done(); i++)
            kapi_trace_kcm_message(KAPI_TRACE_KCM_TRANSMIT, psock.id, 1, message.length_of(i));
    tx_msgs.add(count);
    psock.tx_msgs.add(count);
}

// TCP took so many more bytes.
Socket::Left Socket::account(SendQueue& queue, u32 bytes)
{
    RefList<Outgoing, ToSend> done;
    Room room;
    Left left;
    {
        Guard guard(send_lock_);
        uncharge(queue, bytes);
        count_bytes(*queue.psock, bytes);
        while (bytes) {
            Outgoing* m = queue.messages.front();
            u32 part = min(bytes, m->left()), before = m->done();
            m->advance(part);
            count_messages(*queue.psock, *m, before);
            bytes -= part;
            if (m->left())
                break;
            uncharge(queue, m->overhead());
            queued_ -= m->count();
            done.push_back(queue.messages.pop_front());
        }
        room = look_for_room(queue);
        Outgoing* next = queue.messages.front();
        left.any = next && may_go(*next);
        left.cut = left.any && next->is_cut();
    }
    while (Ref<Outgoing> message = done.pop_front())
        used_.recycle(std::move(message));
    notify_room(room);
    return left;
}

// The connection ended. A message of which TCP has a part goes again, as a whole, over another: this one's peer can
// never have received it whole. It must not take what it has for a message either, so the connection is reset.
void Socket::connection_lost(SendQueue& queue)
{
    bool cut = false;
    {
        Guard guard(send_lock_);
        Outgoing* m = queue.messages.front();
        cut = m && m->is_cut();
        if (cut)
            charge(queue, m->rewind());
    }
    Psock& psock = *queue.psock;
    psock.tx_aborts.add(1);
    if (cut) {
        psock.mark_for_reset();
        mux->count_retry();
        kapi_stream_reset(psock.stream());
    }
    release_psock(queue);
}

// The first message of which TCP has nothing is not going to be sent. False: there is none.
bool Socket::drop_unsent(SendQueue& queue)
{
    Ref<Outgoing> dropped;
    Room room;
    {
        Guard guard(send_lock_);
        Outgoing* unsent = queue.messages.front();
        if (unsent && unsent->is_cut())
            unsent = queue.messages.next(*unsent);
        if (!unsent)
            return false;
        dropped = queue.messages.remove(*unsent);
        queued_ -= dropped->count();
        uncharge(queue, u64{dropped->left()} + dropped->overhead());
        room = look_for_room(queue);
    }
    notify_room(room);
    return true;
}

// Sends what one call to TCP can take.
bool Socket::send_batch(SendQueue& queue, Batch& batch)
{
    Psock& psock = *queue.psock;
    if (given_up_.load_acquire()) {
        drop_cut(queue, true);
        return true; // what TCP has nothing of is dropped next
    }
    if (psock.failed()) {
        connection_lost(queue);
        return true;
    }
    if (!HW_ASSERT(batch.bytes != 0)) { // such a step would be repeated for ever
        psock.fail(KAPI_EIO);
        return true;
    }
    u32 end;
    queue.unpushed = batch.more;
    s64 taken = kapi_stream_send(psock.stream(), batch.segments, batch.count, batch.more ? KAPI_STREAM_MORE : 0, &end);
    if (taken < 0) {
        psock.fail(static_cast<int>(-taken));
        return true;
    }
    Left left = account(queue, static_cast<u32>(taken));
    if (taken < batch.bytes) {
        // Between messages it goes to a socket that wants it for itself: that is not to wait for room.
        if (!left.cut && !mux->reservations.usable(psock)) {
            leave_psock(queue);
            return true;
        }
        // Once more after saying that we wait: what TCP acknowledged in between went unnoticed.
        if (psock.expects_room() && taken == 0)
            return false;
        psock.expect_room(true);
        return true;
    }
    psock.expect_room(false);
    if (!left.any) {
        stop_using(queue);
        return true;
    }
    if (!left.cut && (mux->reservations.contended(psock) || !mux->reservations.usable(psock)))
        leave_psock(queue);
    return true;
}

} // namespace kcm
