// SPDX-License-Identifier: GPL-2.0
// What the simulated TCP sends.
#include "tcp.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sim {

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
            if (segment.offset)
                broken("a segment of an address has an offset in a page");
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

} // namespace sim
