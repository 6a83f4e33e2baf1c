// SPDX-License-Identifier: GPL-2.0
// The sending side of a queue pair: requests leave in order as packets, until each is answered; what got lost is sent again.
#include <algorithm>
#include <cstring>

#include "rdma.h"
#include "rdma_cm.h"

namespace sim {

void resend(kapi_qp &qp);

namespace {

constexpr kapi_u64 kWindow = 64;      // packets without an acknowledgement
constexpr unsigned kPacketsAStep = 4;
constexpr unsigned kForEver = 7;      // rnr_retry

void set_timer(kapi_qp &qp)
{
    kapi_u64 serial = ++qp.timer_serial;
    if (qp.una == qp.next_psn)
        return;
    // A device's timer is late by any part of itself.
    std::uint64_t when = qp.ack_timeout_ns + world().host_random().below(qp.ack_timeout_ns);
    hardware_after(*qp.node, when, [qpn = qp.qpn, serial] {
        kapi_qp *again = fabric().qp(qpn);
        if (!again || again->timer_serial != serial || again->state != QpState::ready || again->dev->stuck)
            return;
        world().note("no answer", qpn, again->retries);
        resend(*again);
    });
}

/** The request has failed. borrowed: of others that ended silently. */
void fail_at(kapi_qp &qp, std::size_t place, kapi_wc_status status, Borrowed borrowed = {})
{
    SendEntry &entry = qp.send[place];
    Completion completion;
    completion.wc.cookie = entry.wr.cookie;
    completion.wc.status = status;
    completion.borrowed = std::move(borrowed);
    completion.borrowed.add(std::move(entry.borrowed));
    complete(qp, std::move(completion));
    qp.send.erase(qp.send.begin() + static_cast<std::ptrdiff_t>(place));
    fail_qp(qp);
}

/** The oldest request that has not ended has failed, and so have all after it. */
void fail_first(kapi_qp &qp, kapi_wc_status status)
{
    auto is_left = [](const SendEntry &entry) { return !entry.done && !entry.reported; };
    if (std::none_of(qp.send.begin(), qp.send.end(), is_left))
        return fail_qp(qp);
    Borrowed borrowed = std::exchange(qp.unreported, {});
    for (; !is_left(qp.send.front()); qp.send.pop_front()) // ended before: silently, for signalled ones were reported at once
        borrowed.add(std::move(qp.send.front().borrowed));
    qp.cursor = 0;
    fail_at(qp, 0, status, std::move(borrowed));
}

/** kapi_rdma_dev.sends_early: as siw, which has given it to TCP. */
void report_sent(kapi_qp &qp, SendEntry &entry)
{
    if (entry.wr.op != KAPI_WR_SEND || !(entry.wr.flags & KAPI_WR_SIGNALED) || entry.reported)
        return;
    Completion completion;
    completion.wc.cookie = entry.wr.cookie;
    completion.wc.op = KAPI_WC_SEND;
    completion.borrowed = std::exchange(entry.borrowed, {});
    entry.reported = true;
    entry.wr.flags &= ~static_cast<unsigned>(KAPI_WR_SIGNALED);
    complete(qp, std::move(completion));
}

void report_done(kapi_qp &qp)
{
    while (!qp.send.empty() && qp.send.front().done) {
        SendEntry &entry = qp.send.front();
        qp.unreported.add(std::move(entry.borrowed));
        if (entry.wr.flags & KAPI_WR_SIGNALED) {
            Completion completion;
            completion.wc.cookie = entry.wr.cookie;
            completion.wc.op = entry.is_local() ? KAPI_WC_REGISTER : entry.wr.op == KAPI_WR_READ ? KAPI_WC_READ : KAPI_WC_SEND;
            completion.borrowed = std::move(qp.unreported);
            qp.unreported = {};
            complete(qp, std::move(completion));
        }
        qp.send.pop_front();
        if (qp.cursor)
            qp.cursor--;
        else
            qp.cursor_packet = 0;
    }
}

/** The next packet is the oldest that was not acknowledged. */
void go_back(kapi_qp &qp)
{
    for (std::size_t i = 0; i < qp.send.size(); i++) {
        const SendEntry &entry = qp.send[i];
        if (!entry.started || entry.done || qp.una >= entry.psn + entry.packets)
            continue;
        qp.cursor = i;
        qp.cursor_packet = qp.una - entry.psn;
        return;
    }
}

bool answers_outstanding(const kapi_qp &qp, std::size_t before)
{
    for (std::size_t i = 0; i < before; i++)
        if (qp.send[i].is_answered() && !qp.send[i].done)
            return true;
    return false;
}

/** KAPI_RDMA_FENCE_HANGS: of what stands behind the request something has begun before it is sent again. */
bool hangs(const kapi_qp &qp, const SendEntry &entry)
{
    return qp.dev->attrs.flags & KAPI_RDMA_FENCE_HANGS && entry.wr.flags & KAPI_WR_FENCE &&
           std::any_of(qp.send.begin() + static_cast<std::ptrdiff_t>(qp.cursor), qp.send.end(),
                       [](const SendEntry &later) { return later.is_answered() && later.started && !later.done; });
}

/** Over iWARP the target of a read is in regions that the peer may write to. False: it is not. */
bool place_read(kapi_qp &qp, const SendEntry &entry, std::size_t offset, const unsigned char *from, std::size_t length)
{
    if (!(qp.dev->attrs.flags & KAPI_RDMA_IWARP))
        return !from || scatter(qp, entry.sges, offset, from, length);
    for (const kapi_sge &sge : entry.sges) {
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        std::size_t part = std::min(sge.length - offset, length);
        kapi_mr *mr = find_region(*qp.dev, qp.pd, sge.key, sge.address + offset, part, KAPI_ACCESS_REMOTE_WRITE);
        if (!mr)
            return false;
        expect_hidden_target(*qp.dev, sge);
        if (from && !region_write(*mr, sge.address + offset, std::exchange(from, from + part), part))
            return false;
        length -= part;
        offset = 0;
    }
    return true;
}

/** Whether the request can begin now; a local one is executed. */
bool start(kapi_qp &qp, SendEntry &entry)
{
    if (entry.wr.flags & KAPI_WR_FENCE && answers_outstanding(qp, qp.cursor))
        return false;
    if (entry.is_local()) {
        bool good = entry.wr.op == KAPI_WR_REGISTER ? execute_register(qp, entry) : execute_invalidate(qp, entry.wr.key);
        if (good)
            entry.done = true;
        else if (qp.una != qp.next_psn)
            return false; // it fails in its turn
        else
            fail_first(qp, KAPI_WC_LOCAL_PROTECTION);
        return good;
    }
    if (entry.wr.op == KAPI_WR_READ && !place_read(qp, entry, 0, nullptr, entry.length)) {
        if (qp.una == qp.next_psn) // else it fails in its turn
            fail_first(qp, KAPI_WC_LOCAL_PROTECTION);
        return false;
    }
    if (entry.is_answered()) {
        if (qp.reads_started >= qp.reads_out)
            return false;
        if (entry.wr.op == KAPI_WR_READ && qp.dev->failing && --qp.dev->failing == 0)
            return fail_at(qp, qp.cursor, KAPI_WC_LOCAL_ERROR), false; // as siw, whose TCP does not take it
        qp.reads_started++;
    }
    entry.started = true;
    entry.psn = qp.next_psn;
    entry.packets = std::max<kapi_u64>(1, (entry.length + qp.mtu - 1) / qp.mtu);
    if (entry.is_atomic())
        entry.packets = 1;
    qp.next_psn += entry.packets;
    return true;
}

/** False: the memory is in a region that does not allow it. */
bool emit(kapi_qp &qp, SendEntry &entry)
{
    kapi_u64 index = qp.cursor_packet;
    std::size_t offset = index * qp.mtu, length = std::min(qp.mtu, entry.length - std::min(entry.length, offset));
    RdmaPacket packet;
    packet.psn = entry.psn + index;
    packet.op = entry.wr.op;
    packet.first = index == 0;
    packet.last = index + 1 == entry.packets;
    packet.solicited = entry.wr.flags & KAPI_WR_SOLICITED;
    packet.key = entry.wr.key;
    packet.imm = entry.wr.imm;
    packet.remote = entry.wr.remote + offset;
    if (entry.is_answered()) {
        packet.length = entry.length - offset; // what is still missing
        packet.add_or_swap = entry.wr.add_or_swap;
        packet.compare = entry.wr.compare;
        packet.add_or_swap_mask = entry.wr.add_or_swap_mask;
        packet.compare_mask = entry.wr.compare_mask;
        qp.cursor_packet = entry.packets;
    } else {
        packet.payload.resize(length);
        if (entry.wr.flags & KAPI_WR_INLINE)
            std::copy_n(entry.inline_bytes.begin() + static_cast<std::ptrdiff_t>(offset), length, packet.payload.begin());
        else if (!gather(qp, entry.sges, offset, packet.payload.data(), length))
            return false;
        qp.cursor_packet++;
    }
    send_packet(qp, std::move(packet));
    return true;
}

void step(kapi_qp &qp)
{
    qp.stepping = false;
    if (qp.state != QpState::ready || qp.waits_for_peer || qp.dev->stuck)
        return;
    bool quiet = qp.una == qp.next_psn, blocked = false;
    for (unsigned sent = 0; sent < kPacketsAStep && qp.cursor < qp.send.size();) {
        SendEntry &entry = qp.send[qp.cursor];
        if (!entry.done && !entry.started && !start(qp, entry)) {
            blocked = true; // goes on with an answer, which may be lost
            break;
        }
        if (entry.done || qp.cursor_packet >= entry.packets) {
            qp.cursor++;
            qp.cursor_packet = 0;
            continue;
        }
        if (entry.psn + qp.cursor_packet >= qp.una + kWindow)
            break; // goes on with an acknowledgement
        if (hangs(qp, entry)) {
            world().note("hangs at a fence", qp.qpn, entry.psn);
            qp.timer_serial++;
            return;
        }
        if (!emit(qp, entry)) {
            report_done(qp);
            if (&entry == &qp.send.front())
                return fail_first(qp, KAPI_WC_LOCAL_PROTECTION);
            blocked = true; // it fails in its turn
            break;
        }
        sent++;
        if (qp.dev->sends_early && qp.cursor_packet == entry.packets && answers_outstanding(qp, qp.cursor))
            report_sent(qp, entry);
    }
    report_done(qp);
    if (quiet)
        set_timer(qp);
    if (blocked || qp.cursor == qp.send.size())
        return;
    const SendEntry &entry = qp.send[qp.cursor];
    if ((entry.started ? entry.psn + qp.cursor_packet : qp.next_psn) < qp.una + kWindow)
        step_soon(qp);
}

void acknowledge(kapi_qp &qp, kapi_u64 psn)
{
    if (psn + 1 <= qp.una || psn >= qp.next_psn)
        return;
    qp.una = psn + 1;
    for (SendEntry &entry : qp.send) {
        if (entry.done)
            continue;
        if (!entry.started || entry.psn > psn)
            break;
        if (entry.is_answered()) { // an answer was lost: it is asked for again
            qp.una = entry.psn + entry.received / qp.mtu;
            go_back(qp);
            break;
        }
        if (entry.psn + entry.packets - 1 > psn)
            break;
        entry.done = true;
    }
    qp.retries = qp.rnr_retries = 0;
    report_done(qp);
    set_timer(qp);
    step_soon(qp);
}

void take_response(kapi_qp &qp, const RdmaPacket &packet)
{
    for (SendEntry &entry : qp.send) {
        if (entry.done || !entry.started)
            continue;
        if (!entry.is_answered()) { // acknowledged by what answers a later one
            if (entry.psn + entry.packets <= packet.psn) {
                entry.done = true;
                continue;
            }
            return;
        }
        if (packet.psn != entry.psn + entry.received / qp.mtu)
            return; // one of an earlier attempt, or one is missing
        bool placed = entry.is_atomic()
                          ? scatter(qp, entry.sges, entry.received, packet.payload.data(), packet.payload.size())
                          : place_read(qp, entry, entry.received, packet.payload.data(), packet.payload.size());
        if (!placed)
            return fail_first(qp, KAPI_WC_LOCAL_PROTECTION);
        entry.received += packet.payload.size();
        qp.una = packet.psn + 1;
        qp.retries = qp.rnr_retries = 0;
        if (entry.received >= entry.length) {
            entry.done = true;
            qp.reads_started--;
        }
        report_done(qp);
        set_timer(qp);
        step_soon(qp);
        return;
    }
}

void wait_for_peer(kapi_qp &qp, const RdmaPacket &packet)
{
    if (qp.waits_for_peer || packet.psn < qp.una)
        return;
    if (packet.psn > qp.una)
        acknowledge(qp, packet.psn - 1);
    if (qp.rnr_retry != kForEver && qp.rnr_retries++ >= qp.rnr_retry)
        return fail_first(qp, KAPI_WC_RNR_EXCEEDED);
    qp.waits_for_peer = true;
    bool counts = qp.dev->counts_not_ready && qp.una + 1 == qp.next_psn; // the timer of its first attempt runs on
    qp.timer_serial += !counts;
    hardware_after(*qp.node, packet.timer_ns, [qpn = qp.qpn, counts] {
        kapi_qp *again = fabric().qp(qpn);
        if (!again || again->state != QpState::ready)
            return;
        again->waits_for_peer = false;
        go_back(*again);
        if (!counts)
            set_timer(*again);
        step_soon(*again);
    });
}

} // namespace

/** The peer did not answer in time, or missed a packet. */
void resend(kapi_qp &qp)
{
    if (qp.retries++ >= qp.retry)
        return fail_first(qp, KAPI_WC_RETRY_EXCEEDED);
    go_back(qp);
    set_timer(qp);
    step_soon(qp);
}

void step_soon(kapi_qp &qp)
{
    if (qp.stepping || qp.state != QpState::ready)
        return;
    qp.stepping = true;
    hardware_after(*qp.node, some_time(10 * kMicrosecond, kMillisecond), [qpn = qp.qpn] {
        if (kapi_qp *again = fabric().qp(qpn))
            step(*again);
    });
}

void handle_answer(kapi_qp &qp, const RdmaPacket &packet)
{
    if (qp.state != QpState::ready)
        return;
    switch (packet.kind) {
    case PacketKind::ack:
        return acknowledge(qp, packet.psn);
    case PacketKind::read_response:
    case PacketKind::atomic_response:
        return take_response(qp, packet);
    case PacketKind::nak_sequence: // psn is the one that is expected
        if (packet.psn < qp.una)
            return;
        if (packet.psn > qp.una)
            acknowledge(qp, packet.psn - 1);
        else if (!qp.waits_for_peer && qp.una != qp.next_psn)
            resend(qp);
        return;
    case PacketKind::nak_not_ready:
        return wait_for_peer(qp, packet);
    case PacketKind::nak_access:
    case PacketKind::nak_invalid:
        if (packet.psn > qp.una)
            acknowledge(qp, packet.psn - 1);
        if (packet.psn != qp.una)
            return; // an answer before it is missing, and is asked for in vain
        return fail_first(qp, packet.kind == PacketKind::nak_access ? KAPI_WC_REMOTE_ACCESS : KAPI_WC_REMOTE_ERROR);
    case PacketKind::request:
        break;
    }
}

} // namespace sim
