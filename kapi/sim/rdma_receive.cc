// SPDX-License-Identifier: GPL-2.0
// The answering side of a queue pair: requests are executed in order, each packet at the moment it arrives.
#include <algorithm>
#include <cstring>

#include "rdma.h"
#include "rdma_cm.h"

namespace sim {

namespace {

constexpr kapi_u64 kRemembered = 1024; // packets, for atomics that are asked for again
constexpr kapi_u64 kAckEach = 16;      // packets

void next_answer(kapi_qp &qp);

void answer_soon(kapi_qp &qp)
{
    if (qp.answering || qp.answers.empty())
        return;
    qp.answering = true;
    hardware_after(*qp.node, some_time(10 * kMicrosecond, 2 * kMillisecond), [qpn = qp.qpn] {
        kapi_qp *again = fabric().qp(qpn);
        if (!again)
            return;
        again->answering = false;
        next_answer(*again);
    });
}

/** Answers leave in order. */
void answer(kapi_qp &qp, PacketKind kind, kapi_u64 psn, std::vector<unsigned char> payload = {}, std::uint64_t timer_ns = 0)
{
    RdmaPacket packet;
    packet.kind = kind;
    packet.psn = psn;
    packet.payload = std::move(payload);
    packet.timer_ns = timer_ns;
    qp.answers.push_back({std::move(packet), false, 0});
    answer_soon(qp);
}

/** The request cannot be executed, now or ever: the connection is over. */
void refuse(kapi_qp &qp, PacketKind kind, kapi_u64 psn)
{
    world().note("request is refused", psn, static_cast<std::uint64_t>(kind));
    fail_qp(qp); // which forgets earlier answers
    answer(qp, kind, psn);
    cm_queue_failed(*qp.cm);
}

/** What follows is dropped without an answer, until this one comes again. */
void not_ready(kapi_qp &qp, kapi_u64 psn)
{
    qp.nak_sent = true;
    answer(qp, PacketKind::nak_not_ready, psn, {}, qp.rnr_timer_ns);
}

void end_receive(kapi_qp &qp, const RdmaPacket &packet, kapi_wc_status status, kapi_wc_op op, kapi_u32 length)
{
    RecvEntry &entry = qp.recv.front();
    Completion completion;
    completion.recv = true;
    completion.wc.cookie = entry.cookie;
    completion.wc.status = status;
    completion.wc.op = op;
    completion.wc.length = length;
    completion.solicited = packet.solicited;
    if (packet.op == KAPI_WR_SEND_IMM || packet.op == KAPI_WR_WRITE_IMM) {
        completion.wc.flags |= KAPI_WC_IMM;
        completion.wc.imm = packet.imm;
    } else if (packet.op == KAPI_WR_SEND_INV) {
        completion.wc.flags |= KAPI_WC_INVALIDATED;
        completion.wc.key = packet.key;
    }
    completion.borrowed = std::move(entry.borrowed);
    qp.recv.pop_front();
    complete(qp, std::move(completion));
}

bool take_send(kapi_qp &qp, const RdmaPacket &packet)
{
    if (qp.recv.empty()) {
        not_ready(qp, packet.psn);
        return false;
    }
    if (packet.first)
        qp.recv_offset = 0;
    RecvEntry &entry = qp.recv.front();
    if (packet.payload.size() > entry.length - qp.recv_offset) {
        end_receive(qp, packet, KAPI_WC_LOCAL_ERROR, KAPI_WC_RECV, 0);
        refuse(qp, PacketKind::nak_invalid, packet.psn);
        return false;
    }
    if (!scatter(qp, entry.sges, qp.recv_offset, packet.payload.data(), packet.payload.size()))
        broken("a receive has memory that is fetched on demand");
    qp.recv_offset += packet.payload.size();
    if (!packet.last)
        return true;
    if (packet.op == KAPI_WR_SEND_INV && !execute_invalidate(qp, packet.key)) {
        end_receive(qp, packet, KAPI_WC_LOCAL_PROTECTION, KAPI_WC_RECV, 0);
        refuse(qp, PacketKind::nak_access, packet.psn);
        return false;
    }
    end_receive(qp, packet, KAPI_WC_OK, KAPI_WC_RECV, static_cast<kapi_u32>(qp.recv_offset));
    return true;
}

bool take_write(kapi_qp &qp, const RdmaPacket &packet)
{
    bool immediate = packet.last && packet.op == KAPI_WR_WRITE_IMM;
    if (immediate && qp.recv.empty()) {
        not_ready(qp, packet.psn);
        return false;
    }
    if (packet.first)
        qp.recv_offset = 0;
    if (!packet.payload.empty()) {
        kapi_mr *mr = find_region(*qp.dev, qp.pd, packet.key, packet.remote, packet.payload.size(), KAPI_ACCESS_REMOTE_WRITE);
        if (!mr) {
            refuse(qp, PacketKind::nak_access, packet.psn);
            return false;
        }
        if (!region_write(*mr, packet.remote, packet.payload.data(), packet.payload.size())) {
            refuse(qp, PacketKind::nak_access, packet.psn);
            return false;
        }
        qp.recv_offset += packet.payload.size();
    }
    if (immediate)
        end_receive(qp, packet, KAPI_WC_OK, KAPI_WC_RECV_WRITE_IMM, static_cast<kapi_u32>(qp.recv_offset));
    return true;
}

/** One packet of a read's answer; the memory is read when it leaves. True: that was the last. */
bool respond(kapi_qp &qp, const RdmaPacket &request, kapi_u64 index)
{
    std::size_t offset = index * qp.mtu, length = std::min(qp.mtu, request.length - std::min(request.length, offset));
    RdmaPacket packet;
    packet.kind = PacketKind::read_response;
    packet.psn = request.psn + index;
    packet.payload.resize(length);
    if (length) {
        kapi_mr *mr = find_region(*qp.dev, qp.pd, request.key, request.remote + offset, length, KAPI_ACCESS_REMOTE_READ);
        if (!mr || !region_read(*mr, request.remote + offset, packet.payload.data(), length)) {
            refuse(qp, PacketKind::nak_access, packet.psn);
            return false;
        }
    }
    send_packet(qp, std::move(packet));
    return offset + length >= request.length;
}

void next_answer(kapi_qp &qp)
{
    if (qp.answers.empty())
        return;
    Answer &first = qp.answers.front();
    if (first.reads) {
        kapi_u64 psn = first.packet.psn;
        bool last = respond(qp, first.packet, first.index);
        if (qp.answers.empty() || qp.answers.front().packet.psn != psn || !qp.answers.front().reads)
            return; // it was refused
        if (last)
            qp.answers.pop_front();
        else
            qp.answers.front().index++;
    } else {
        send_packet(qp, std::move(first.packet));
        qp.answers.pop_front();
    }
    answer_soon(qp);
}

bool take_read(kapi_qp &qp, const RdmaPacket &packet)
{
    if (packet.length &&
        !find_region(*qp.dev, qp.pd, packet.key, packet.remote, packet.length, KAPI_ACCESS_REMOTE_READ)) {
        refuse(qp, PacketKind::nak_access, packet.psn);
        return false;
    }
    auto reads = std::count_if(qp.answers.begin(), qp.answers.end(), [](const Answer &one) { return one.reads; });
    if (packet.psn == qp.expected && static_cast<unsigned>(reads) >= std::max(1u, qp.reads_in)) {
        refuse(qp, PacketKind::nak_invalid, packet.psn);
        return false;
    }
    qp.answers.push_back({packet, true, 0});
    answer_soon(qp);
    return true;
}

/** An addition in fields, each of which ends at a set bit of the mask. */
kapi_u64 masked_add(kapi_u64 a, kapi_u64 b, kapi_u64 ends)
{
    kapi_u64 sum = 0;
    bool carry = false;
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned total = static_cast<unsigned>((a >> bit & 1) + (b >> bit & 1)) + carry;
        sum |= kapi_u64{total & 1} << bit;
        carry = total > 1 && !(ends >> bit & 1);
    }
    return sum;
}

kapi_u64 apply(const RdmaPacket &packet, kapi_u64 old)
{
    switch (packet.op) {
    case KAPI_WR_ATOMIC_ADD:
        return old + packet.add_or_swap;
    case KAPI_WR_ATOMIC_SWAP:
        return old == packet.compare ? packet.add_or_swap : old;
    case KAPI_WR_MASKED_ADD:
        return masked_add(old, packet.add_or_swap, packet.add_or_swap_mask);
    default:
        if ((old ^ packet.compare) & packet.compare_mask)
            return old;
        return (old & ~packet.add_or_swap_mask) | (packet.add_or_swap & packet.add_or_swap_mask);
    }
}

void answer_atomic(kapi_qp &qp, kapi_u64 psn)
{
    std::vector<unsigned char> bytes(sizeof(kapi_u64));
    std::memcpy(bytes.data(), &qp.atomics[psn], sizeof(kapi_u64));
    answer(qp, PacketKind::atomic_response, psn, std::move(bytes));
}

bool take_atomic(kapi_qp &qp, const RdmaPacket &packet)
{
    kapi_u64 value;
    if (packet.remote % sizeof(value)) {
        refuse(qp, PacketKind::nak_invalid, packet.psn);
        return false;
    }
    kapi_mr *mr = find_region(*qp.dev, qp.pd, packet.key, packet.remote, sizeof(value), KAPI_ACCESS_REMOTE_ATOMIC);
    if (!mr || !region_read(*mr, packet.remote, &value, sizeof(value))) {
        refuse(qp, PacketKind::nak_access, packet.psn);
        return false;
    }
    qp.atomics[packet.psn] = value;
    qp.atomics.erase(qp.atomics.begin(), qp.atomics.lower_bound(packet.psn - std::min<kapi_u64>(packet.psn, kRemembered)));
    value = apply(packet, value);
    if (!region_write(*mr, packet.remote, &value, sizeof(value))) {
        refuse(qp, PacketKind::nak_access, packet.psn);
        return false;
    }
    answer_atomic(qp, packet.psn);
    return true;
}

bool is_atomic(const RdmaPacket &packet)
{
    return packet.op >= KAPI_WR_ATOMIC_ADD && packet.op <= KAPI_WR_MASKED_SWAP;
}

/** What was executed before is answered again; a read is executed again, an atomic is not. */
void repeat(kapi_qp &qp, const RdmaPacket &packet)
{
    if (packet.op == KAPI_WR_READ) {
        std::erase_if(qp.answers, [&](const Answer &one) { // the peer asks again for all that follows, too
            kapi_u64 more = one.reads ? (one.packet.length + qp.mtu - 1) / qp.mtu : 1;
            return one.packet.psn + std::max<kapi_u64>(1, more) > packet.psn;
        });
        take_read(qp, packet);
    } else if (is_atomic(packet))
        answer_atomic(qp, packet.psn);
    else
        answer(qp, PacketKind::ack, qp.expected - 1);
}

} // namespace

void handle_request(kapi_qp &qp, const RdmaPacket &packet)
{
    if (qp.state != QpState::ready)
        return;
    cm_data_received(*qp.cm);
    if (packet.psn > qp.expected) {
        if (!qp.nak_sent)
            answer(qp, PacketKind::nak_sequence, qp.expected);
        qp.nak_sent = true;
        return;
    }
    qp.nak_sent = false;
    if (packet.psn < qp.expected)
        return repeat(qp, packet);
    kapi_u64 next = packet.psn + 1;
    bool taken;
    if (packet.op == KAPI_WR_READ) {
        next = packet.psn + std::max<kapi_u64>(1, (packet.length + qp.mtu - 1) / qp.mtu);
        taken = take_read(qp, packet);
    } else if (is_atomic(packet)) {
        taken = take_atomic(qp, packet);
    } else {
        bool sends = packet.op == KAPI_WR_SEND || packet.op == KAPI_WR_SEND_IMM || packet.op == KAPI_WR_SEND_INV;
        taken = sends ? take_send(qp, packet) : take_write(qp, packet);
        if (taken && (packet.last || packet.psn % kAckEach == 0))
            answer(qp, PacketKind::ack, packet.psn);
    }
    if (taken)
        qp.expected = next;
}

void send_packet(const kapi_qp &qp, RdmaPacket packet)
{
    if (qp.dev->stuck)
        return;
    expect_no_address(*qp.dev, packet.payload);
    packet.from = qp.qpn;
    packet.to = qp.peer;
    kapi_net *target = world().network().owner_of(qp.remote, qp.dev->net);
    if (!target || target->node->index() != qp.peer_node)
        return; // the address has moved
    std::uint64_t flow = std::uint64_t{qp.qpn} << 32 | qp.peer;
    std::size_t size = packet.payload.size();
    carry_from(qp.dev, *qp.node, *target->node, flow, size, [packet = std::move(packet)] { receive_packet(packet); });
}

void receive_packet(const RdmaPacket &packet)
{
    kapi_qp *qp = fabric().qp(packet.to);
    if (!qp || qp->peer != packet.from || qp->dev->stuck)
        return;
    if (packet.kind == PacketKind::request)
        handle_request(*qp, packet);
    else
        handle_answer(*qp, packet);
}

} // namespace sim
