// SPDX-License-Identifier: GPL-2.0
// Queue pairs as core sees them: made, posted to, drained, freed.
#include <kapi/errno.h>

#include <algorithm>
#include <cstring>

#include "rdma.h"
#include "rdma_cm.h"

namespace sim {

namespace {

constexpr unsigned kDrainEntries = 2; // in a completion queue, of each of its queue pairs
constexpr std::uint64_t kDrainLimitNs = 10 * kSecond, kDrainAgainNs = kSecond;

Completion flushed(kapi_u64 cookie, bool recv, Borrowed borrowed)
{
    Completion completion;
    completion.wc.cookie = cookie;
    completion.wc.status = KAPI_WC_FLUSHED;
    completion.recv = recv;
    completion.borrowed = std::move(borrowed);
    return completion;
}

/** Ends what is left in both queues; the device does that when it comes to it. */
void flush(kapi_qp &qp)
{
    if (qp.dev->stuck)
        return;
    while (!qp.send.empty()) {
        SendEntry &entry = qp.send.front();
        if (entry.reported || (entry.done && !(entry.wr.flags & KAPI_WR_SIGNALED))) {
            qp.unreported.add(std::move(entry.borrowed));
        } else {
            Borrowed borrowed = std::move(qp.unreported);
            qp.unreported = {};
            borrowed.add(std::move(entry.borrowed));
            Completion completion = flushed(entry.wr.cookie, false, std::move(borrowed));
            if (entry.done)
                completion.wc.status = KAPI_WC_OK, completion.wc.op = KAPI_WC_SEND;
            complete(qp, std::move(completion));
        }
        qp.send.pop_front();
    }
    while (!qp.recv.empty()) {
        complete(qp, flushed(qp.recv.front().cookie, true, std::move(qp.recv.front().borrowed)));
        qp.recv.pop_front();
    }
    if (!qp.draining || qp.marked)
        return;
    qp.marked = true;
    for (bool recv : {false, true}) {
        Completion marker;
        marker.marker = true;
        marker.recv = recv;
        if (!recv)
            marker.borrowed = std::move(qp.unreported);
        complete(qp, std::move(marker));
    }
    qp.unreported = {};
}

void flush_soon(kapi_qp &qp)
{
    hardware_after(*qp.node, some_time(50 * kMicrosecond, 3 * kMillisecond), [qpn = qp.qpn] {
        if (kapi_qp *again = fabric().qp(qpn))
            flush(*again);
    });
}

kapi_u32 pieces_length(const kapi_sge *sges, kapi_u32 n)
{
    kapi_u32 length = 0;
    for (kapi_u32 i = 0; i < n; i++)
        length += sges[i].length;
    return length;
}

bool possible(const kapi_qp &qp, const kapi_wr &wr)
{
    kapi_u32 flags = qp.dev->attrs.flags;
    bool atomic = wr.op >= KAPI_WR_ATOMIC_ADD && wr.op <= KAPI_WR_MASKED_SWAP;
    if (wr.op < KAPI_WR_SEND || wr.op > KAPI_WR_INVALIDATE)
        return false;
    if ((wr.op == KAPI_WR_ATOMIC_ADD || wr.op == KAPI_WR_ATOMIC_SWAP) && !(flags & KAPI_RDMA_ATOMICS))
        return false;
    if ((wr.op == KAPI_WR_MASKED_ADD || wr.op == KAPI_WR_MASKED_SWAP) && !(flags & KAPI_RDMA_MASKED_ATOMICS))
        return false;
    if (wr.op == KAPI_WR_WRITE_IMM && flags & KAPI_RDMA_IWARP)
        return false;
    if (atomic && (wr.n_sges != 1 || wr.sges[0].length != 8))
        return false;
    kapi_u32 most = wr.op == KAPI_WR_READ ? std::min(qp.caps.max_send_sge, qp.dev->attrs.max_read_sge) : qp.caps.max_send_sge;
    if (wr.flags & KAPI_WR_INLINE && (wr.op > KAPI_WR_WRITE_IMM || pieces_length(wr.sges, wr.n_sges) > qp.caps.max_inline))
        return false;
    return wr.n_sges <= most;
}

void check_local_keys(const kapi_qp &qp, const kapi_sge *sges, kapi_u32 n)
{
    for (kapi_u32 i = 0; i < n; i++) {
        const kapi_mr *mr = region_of(*qp.dev, sges[i].key);
        bool known = mr ? mr->key == sges[i].key && mr->pd == qp.pd : qp.dev->on_demand_ended.count(sges[i].key) != 0;
        if (sges[i].length && sges[i].key != qp.pd->key && !known)
            broken("a request is posted with a local key of another protection domain");
    }
}

void expect_postable(const kapi_qp &qp, kapi_u64 cookie)
{
    if (cookie >= KAPI_COOKIES)
        broken("a request is posted with a cookie of the host's");
    if (qp.draining)
        broken("a request is posted to a queue pair that is drained");
}

SendEntry make_entry(kapi_qp &qp, const kapi_wr &wr)
{
    SendEntry entry;
    entry.wr = wr;
    entry.wr.next = nullptr;
    entry.length = pieces_length(wr.sges, wr.n_sges);
    entry.borrowed.slots = 1;
    if (wr.flags & KAPI_WR_INLINE) {
        for (kapi_u32 i = 0; i < wr.n_sges; i++) {
            const auto *bytes = reinterpret_cast<const unsigned char *>(static_cast<std::uintptr_t>(wr.sges[i].address));
            entry.inline_bytes.insert(entry.inline_bytes.end(), bytes, bytes + wr.sges[i].length);
        }
    } else {
        check_local_keys(qp, wr.sges, wr.n_sges);
        entry.sges.assign(wr.sges, wr.sges + wr.n_sges);
        borrow(qp, entry.borrowed, entry.sges);
    }
    kapi_mr *mr = wr.op == KAPI_WR_REGISTER ? wr.mr : wr.op == KAPI_WR_INVALIDATE ? region_of(*qp.dev, wr.key) : nullptr;
    if (!mr && entry.is_local())
        broken("a request is posted for a region that is gone");
    if (!mr)
        return entry;
    if (wr.op == KAPI_WR_REGISTER && !qp.dev->mappings.contains(mr->mapping))
        broken("a region is registered whose memory is not mapped any more");
    entry.mr_index = mr->index;
    entry.mr_key = mr->key;
    mr->posted++;
    entry.borrowed.regions.push_back(mr->index);
    if (auto mapping = qp.dev->mappings.find(mr->mapping); mapping != qp.dev->mappings.end()) {
        mapping->second->posted++;
        entry.borrowed.mappings.push_back(mr->mapping);
    }
    return entry;
}

/** Where a request goes in the queue. With KAPI_WR_EARLY it passes some of those that have not begun. */
std::deque<SendEntry>::iterator place_of(kapi_qp &qp, const kapi_wr &wr)
{
    auto place = qp.send.end();
    constexpr unsigned kKept = KAPI_WR_SIGNALED | KAPI_WR_FENCE;
    if (wr.op != KAPI_WR_REGISTER || (wr.flags & (kKept | KAPI_WR_EARLY)) != KAPI_WR_EARLY)
        return place;
    while (place != qp.send.begin() && !world().host_random().one_in(4)) {
        const SendEntry &before = *std::prev(place);
        if (before.started || before.done || before.wr.op == KAPI_WR_INVALIDATE)
            break;
        --place;
    }
    return place;
}

/** Each of the two queues has places for what may be outstanding, and for the drain. */
void take_places(kapi_cq &send, kapi_cq &recv, const kapi_qp_caps &caps)
{
    send.taken += caps.max_send + kDrainEntries;
    recv.taken += caps.max_recv + (&send == &recv ? 0 : kDrainEntries);
    for (const kapi_cq *cq : {&send, &recv})
        if (cq->taken > cq->entries)
            broken("a completion queue of %u is too small: its queue pairs need %u", cq->entries, cq->taken);
}

void give_places(kapi_cq &send, kapi_cq &recv, const kapi_qp_caps &caps)
{
    send.taken -= caps.max_send + kDrainEntries;
    recv.taken -= caps.max_recv + (&send == &recv ? 0 : kDrainEntries);
}

int limits(const kapi_rdma_attrs &attrs, const kapi_qp_caps &caps)
{
    bool fits = caps.max_send <= attrs.max_wr && caps.max_recv <= attrs.max_wr && caps.max_send_sge <= attrs.max_sge &&
                caps.max_recv_sge <= attrs.max_sge;
    return fits ? 0 : -KAPI_EINVAL;
}

/** A drain ends in vain when nothing has completed for so long, and nothing does when it polls the queues itself. */
class Patience {
public:
    explicit Patience(kapi_qp &qp) : qp_(qp), limit_ns_(qp.dev->was_stuck ? kDrainAgainNs : kDrainLimitNs) {}

    bool may_wait()
    {
        poll();
        if (!finishes_ && world().now_ns() - since_ns_ >= limit_ns_) {
            finishes_ = true;
            poll();
        }
        return world().now_ns() - since_ns_ < limit_ns_;
    }

private:
    void poll()
    {
        for (kapi_cq *cq : {qp_.send_cq, qp_.recv_cq}) {
            if (finishes_)
                finish(*cq);
            else if (cq->mode == KAPI_CQ_DIRECT)
                kapi_cq_poll(cq, ~0u);
        }
        unsigned given = qp_.send_cq->given + qp_.recv_cq->given;
        if (std::exchange(given_, given) != given)
            since_ns_ = world().now_ns();
    }

    kapi_qp &qp_;
    const std::uint64_t limit_ns_;
    std::uint64_t since_ns_ = world().now_ns();
    unsigned given_ = 0;
    bool finishes_ = false;
};

} // namespace

void fail_qp(kapi_qp &qp)
{
    if (qp.state == QpState::error)
        return;
    world().note("queue pair fails", qp.qpn);
    qp.state = QpState::error;
    qp.answers.clear();
    flush_soon(qp);
}

void connect_qp(kapi_qp &qp, kapi_u32 peer, unsigned peer_node)
{
    if (qp.state != QpState::initial)
        return;
    qp.peer = peer;
    qp.peer_node = peer_node;
    qp.state = QpState::ready;
}

} // namespace sim

using namespace sim;

int kapi_qp_create(struct kapi_cm *cm, struct kapi_pd *pd, struct kapi_qp_caps *caps, struct kapi_cq *send_cq,
                   struct kapi_cq *recv_cq, void *context, struct kapi_qp **result) noexcept
{
    enter_sleep("kapi_qp_create");
    if (!cm->dev || cm->qp)
        broken("a queue pair is made of a connection that %s", cm->qp ? "has one" : "is not resolved");
    if (pd->dev != cm->dev || send_cq->dev != cm->dev || recv_cq->dev != cm->dev)
        broken("a queue pair is made of parts of different devices");
    if (cm->is_over() || limits(cm->dev->attrs, *caps))
        return -KAPI_EINVAL;
    if (fault("kapi_qp_create"))
        return -KAPI_ENOMEM;
    if (caps->max_inline > cm->dev->attrs.max_inline)
        caps->max_inline = 0;
    cm->dev->made("queue pair");
    auto *qp = new kapi_qp{.qpn = static_cast<kapi_u32>(fabric().next_id++), .dev = cm->dev, .node = cm->node, .pd = pd, .cm = cm,
                           .send_cq = send_cq, .recv_cq = recv_cq, .context = context, .caps = *caps};
    qp->local = cm->local;
    qp->remote = cm->remote;
    qp->mtu = world().host_random().one_in(2) ? 1024 : 4096;
    take_places(*send_cq, *recv_cq, *caps);
    pd->users++;
    send_cq->qps++;
    recv_cq->qps++;
    cm->qp = qp;
    fabric().qps[qp->qpn] = qp;
    account(*qp->node, "queue pair", qp, [](void *object) { delete static_cast<kapi_qp *>(object); });
    *result = qp;
    return 0;
}

void kapi_qp_free(struct kapi_qp *qp) noexcept
{
    if (!qp)
        return;
    enter_sleep("kapi_qp_free");
    expect_not_in_done("kapi_qp_free");
    if (qp->undrained) {
        stop(*qp->send_cq);
        stop(*qp->recv_cq);
        for (const SendEntry &entry : qp->send) // their memory is never given back
            give_back_regions(*qp->dev, entry.borrowed);
        give_back_regions(*qp->dev, qp->unreported);
    } else if (qp->send_outstanding || qp->recv_outstanding)
        broken("a queue pair ends with %u sends and %u receives that have not completed", qp->send_outstanding,
               qp->recv_outstanding);
    give_places(*qp->send_cq, *qp->recv_cq, qp->caps);
    qp->cm->qp = nullptr;
    qp->pd->users--;
    qp->send_cq->qps--;
    qp->recv_cq->qps--;
    fabric().qps.erase(qp->qpn);
    qp->dev->gone("queue pair");
    settle(*qp->node, "queue pair", qp);
    delete qp;
}

int kapi_qp_drain(struct kapi_qp *qp) noexcept
{
    enter_sleep("kapi_qp_drain");
    expect_not_in_done("kapi_qp_drain");
    if (qp->draining)
        broken("a queue pair is drained twice");
    fail_qp(*qp);
    qp->draining = true;
    flush_soon(*qp);
    Patience patience(*qp);
    while (qp->marks < 2) {
        if (!patience.may_wait()) {
            qp->undrained = qp->dev->was_stuck = true;
            return -KAPI_ETIMEDOUT;
        }
        if (qp->marks < 2)
            world().sleep(qp->dev->stuck ? 10 * kMillisecond : 100 * kMicrosecond);
    }
    qp->dev->was_stuck = false;
    return 0;
}

int kapi_qp_send(struct kapi_qp *qp, struct kapi_wr *first, struct kapi_wr **bad) noexcept
{
    enter_any("kapi_qp_send");
    if (qp->dev->posts_late && !World::current_task()->is_atomic())
        world().sleep(20 * kMillisecond);
    for (kapi_wr *wr = first; wr; wr = wr->next) {
        expect_postable(*qp, wr->cookie);
        *bad = wr;
        if (qp->state == QpState::initial || !possible(*qp, *wr))
            return -KAPI_EINVAL;
        bool refused = qp->dev->refused && --qp->dev->refused == 0;
        if (refused || fault("kapi_qp_send") || qp->send_outstanding >= qp->caps.max_send)
            return -KAPI_ENOMEM;
        qp->send.insert(place_of(*qp, *wr), make_entry(*qp, *wr));
        qp->send_outstanding++;
        world().note("post send", wr->cookie, wr->op);
        qp->state == QpState::error ? flush_soon(*qp) : step_soon(*qp);
    }
    *bad = nullptr;
    enter_any("kapi_qp_send");
    if (qp->dev->returns_late && !World::current_task()->is_atomic())
        world().sleep(20 * kMillisecond);
    return 0;
}

int kapi_qp_recv(struct kapi_qp *qp, struct kapi_recv_wr *first, struct kapi_recv_wr **bad) noexcept
{
    enter_any("kapi_qp_recv");
    for (kapi_recv_wr *wr = first; wr; wr = wr->next) {
        expect_postable(*qp, wr->cookie);
        *bad = wr;
        if (wr->n_sges > qp->caps.max_recv_sge)
            return -KAPI_EINVAL;
        if (fault("kapi_qp_recv") || qp->recv_outstanding >= qp->caps.max_recv)
            return -KAPI_ENOMEM;
        check_local_keys(*qp, wr->sges, wr->n_sges);
        RecvEntry entry{.cookie = wr->cookie, .sges = {wr->sges, wr->sges + wr->n_sges}};
        entry.length = pieces_length(wr->sges, wr->n_sges);
        borrow(*qp, entry.borrowed, entry.sges);
        qp->recv.push_back(std::move(entry));
        qp->recv_outstanding++;
        if (qp->state == QpState::error) {
            qp->dev->posted_late++;
            flush_soon(*qp);
        }
    }
    *bad = nullptr;
    enter_any("kapi_qp_recv");
    return 0;
}
