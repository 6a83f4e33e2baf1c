// SPDX-License-Identifier: GPL-2.0
// Completion queues: when the end of a request is reported to the machine. Until then the request's memory is the device's.
#include <kapi/errno.h>

#include <algorithm>

#include "rdma.h"
#include "rdma_control.h"
#include "turn.h"

namespace sim {

void Borrowed::add(Borrowed &&other)
{
    slots += other.slots;
    mappings.insert(mappings.end(), other.mappings.begin(), other.mappings.end());
    regions.insert(regions.end(), other.regions.begin(), other.regions.end());
    other = {};
}

/** Also one that has ended: its key is never another's. */
static bool is_on_demand(kapi_rdma_dev &dev, kapi_u32 key)
{
    const kapi_mr *mr = region_of(dev, key);
    return mr ? mr->on_demand : dev.on_demand_ended.count(key) != 0;
}

/** Of a region, or under the local key of all that is mapped. Null: none. */
static Mapping *mapping_of(kapi_qp &qp, const kapi_sge &sge)
{
    if (sge.key == qp.pd->key)
        return mapping_at(*qp.dev, sge.address);
    const kapi_mr *mr = region_of(*qp.dev, sge.key);
    auto found = qp.dev->mappings.find(mr ? mr->mapping : 0);
    return found == qp.dev->mappings.end() ? nullptr : found->second.get();
}

void borrow(kapi_qp &qp, Borrowed &borrowed, const std::vector<kapi_sge> &sges)
{
    borrowed.slots = 1;
    for (const kapi_sge &sge : sges) {
        if (!sge.length || is_on_demand(*qp.dev, sge.key))
            continue;
        Mapping *mapping = mapping_of(qp, sge);
        if (!mapping)
            broken("a request is posted with memory that is not mapped");
        mapping->posted++;
        borrowed.mappings.push_back(mapping->id);
    }
}

void give_back(kapi_rdma_dev &dev, const Borrowed &borrowed)
{
    for (kapi_u64 id : borrowed.mappings)
        dev.mappings.at(id)->posted--;
    give_back_regions(dev, borrowed);
}

void give_back_regions(kapi_rdma_dev &dev, const Borrowed &borrowed)
{
    for (kapi_u32 index : borrowed.regions)
        dev.regions.at(index)->posted--;
}

void expect_not_in_done(const char *call)
{
    if (World::current_task()->in_done)
        broken("%s waits for a queue, and is called from one's done()", call);
}

namespace {

/** In an error most of a completion is garbage. */
void spoil(kapi_wc &wc)
{
    Random &random = world().host_random();
    wc.op = static_cast<kapi_wc_op>(1 + random.below(5));
    wc.flags = static_cast<kapi_u32>(random.below(4));
    wc.length = static_cast<kapi_u32>(random.next());
    wc.imm = static_cast<kapi_u32>(random.next());
    wc.key = static_cast<kapi_u32>(random.next());
    wc.vendor = static_cast<kapi_u32>(random.below(256));
}

/** Takes up to `most` from the queue; the request of each is its owner's again. */
unsigned take(kapi_cq &cq, kapi_wc *wcs, unsigned most, std::vector<kapi_qp *> &drained)
{
    unsigned taken = 0;
    while (!cq.queue.empty() && taken < most) {
        Completion completion = std::move(cq.queue.front());
        cq.queue.pop_front();
        kapi_qp *qp = fabric().qp(completion.qpn);
        if (!qp)
            broken("a completion of a queue pair that is gone");
        give_back(*cq.dev, completion.borrowed);
        (completion.recv ? qp->recv_outstanding : qp->send_outstanding) -= completion.borrowed.slots;
        if (completion.marker) {
            drained.push_back(qp);
            break; // what came before is given to done() first
        }
        wcs[taken++] = completion.wc;
    }
    return taken;
}

/** One call of done(), if there is anything. Returns how many completions it was given. */
unsigned process(kapi_cq &cq, unsigned most)
{
    kapi_wc wcs[KAPI_CQ_BATCH];
    std::vector<kapi_qp *> drained;
    unsigned n = take(cq, wcs, std::min<unsigned>(most, KAPI_CQ_BATCH), drained);
    if (n) {
        Task &task = *World::current_task();
        if (cq.mode == KAPI_CQ_WORK) {
            task.in_done++;
            cq.done(cq.context, wcs, n);
            task.in_done--;
        } else {
            AtomicScope atomic;
            TurnScope turn;
            task.in_done++;
            cq.done(cq.context, wcs, n);
            task.in_done--;
        }
    }
    for (kapi_qp *qp : drained) {
        qp->marks++;
        world().wake(qp->drained);
    }
    cq.given += n + static_cast<unsigned>(drained.size());
    return n;
}

void serve(kapi_cq &cq);

void begin(kapi_cq &cq)
{
    TaskKind kind = cq.mode == KAPI_CQ_WORK ? TaskKind::work : TaskKind::softirq;
    world().spawn(*cq.node, "completions", [&cq] { serve(cq); }, kind);
}

void serve(kapi_cq &cq)
{
    while (!cq.queue.empty() && !cq.stopped) {
        unsigned n = process(cq, 1 + static_cast<unsigned>(world().host_random().below(KAPI_CQ_BATCH)));
        enter_any("completions");
        if (cq.dev->slow_ns && n) // it is busy as long, so nobody frees it
            return hardware_after(*cq.node, n * cq.dev->slow_ns, [&cq] { begin(cq); });
    }
    cq.busy = false;
    world().wake(cq.idle);
}

void wake_up(kapi_cq &cq)
{
    if (cq.busy || cq.stopped || cq.queue.empty() || cq.mode == KAPI_CQ_DIRECT)
        return;
    cq.busy = true;
    begin(cq);
}

void push(kapi_qp &qp, Completion completion)
{
    kapi_cq &cq = completion.recv ? *qp.recv_cq : *qp.send_cq;
    bool wakes = !cq.solicited_only || completion.solicited;
    world().note(completion.wc.status ? "completion, error" : "completion", completion.wc.cookie, completion.wc.status);
    cq.queue.push_back(std::move(completion));
    if (wakes)
        hardware_after(*cq.node, some_time(20 * kMicrosecond, 2 * kMillisecond), [id = cq.id] {
            if (kapi_cq *again = fabric().cq(id))
                wake_up(*again);
        });
}

} // namespace

void complete(kapi_qp &qp, Completion completion)
{
    completion.qpn = qp.qpn;
    completion.wc.qp_context = qp.context;
    if (completion.wc.status)
        spoil(completion.wc);
    // Late now and then, long after the answer to the request; but in order.
    std::uint64_t &last = completion.recv ? qp.last_recv_cqe_ns : qp.last_send_cqe_ns;
    std::uint64_t when = world().now_ns() + some_time(5 * kMicrosecond, 5 * kMillisecond);
    last = when = std::max(when, last + 1);
    hardware_after(*qp.node, when - world().now_ns(), [qpn = qp.qpn, completion = std::move(completion)] {
        if (kapi_qp *again = fabric().qp(qpn))
            push(*again, completion);
    });
}

void stop(kapi_cq &cq)
{
    cq.stopped = true;
    while (cq.busy)
        world().wait(cq.idle, "a completion queue's done()");
}

void finish(kapi_cq &cq)
{
    stop(cq);
    while (!cq.queue.empty())
        process(cq, KAPI_CQ_BATCH);
}

void arm_solicited(kapi_cq &cq, bool solicited)
{
    cq.solicited_only = solicited;
    if (!solicited)
        wake_up(cq);
}

} // namespace sim

using namespace sim;

int kapi_cq_create(struct kapi_rdma_dev *dev, kapi_u32 entries, kapi_u32, enum kapi_cq_mode mode,
                   void (*done)(void *context, const struct kapi_wc *wcs, unsigned int n), void *context,
                   struct kapi_cq **result) noexcept
{
    enter_sleep("kapi_cq_create");
    if (!entries || entries > dev->attrs.max_cqe)
        return -KAPI_EINVAL;
    if (dev->going)
        return -KAPI_ENODEV;
    if (fault("kapi_cq_create"))
        return -KAPI_ENOMEM;
    dev->made("completion queue");
    auto *cq = new kapi_cq{fabric().next_id++, dev, dev->node, entries, mode, done, context};
    fabric().cqs[cq->id] = cq;
    account(*cq->node, "completion queue", cq, [](void *object) { delete static_cast<kapi_cq *>(object); });
    *result = cq;
    return 0;
}

void kapi_cq_free(struct kapi_cq *cq) noexcept
{
    if (!cq)
        return;
    enter_sleep("kapi_cq_free");
    expect_not_in_done("kapi_cq_free");
    if (cq->qps)
        broken("a completion queue ends with %u queue pairs", cq->qps);
    while (cq->busy)
        world().wait(cq->idle, "a completion queue's done()");
    fabric().cqs.erase(cq->id);
    cq->dev->gone("completion queue");
    settle(*cq->node, "completion queue", cq);
    delete cq;
}

unsigned int kapi_cq_poll(struct kapi_cq *cq, unsigned int budget) noexcept
{
    enter_any("kapi_cq_poll");
    if (cq->mode != KAPI_CQ_DIRECT)
        broken("a completion queue is polled that is not a direct one");
    if (World::current_task()->in_done)
        broken("kapi_cq_poll is called from done()");
    if (cq->busy || cq->stopped)
        return 0;
    cq->busy = true;
    unsigned total = 0;
    while (total < budget && !cq->queue.empty() && !cq->stopped)
        total += process(*cq, budget - total);
    cq->busy = false;
    world().wake(cq->idle);
    return total;
}
