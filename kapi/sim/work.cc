// SPDX-License-Identifier: GPL-2.0
// Deferred work. The state of a work is kept outside of it, because a work may free its own memory.
#include <kapi/work.h>

#include <algorithm>
#include <string>
#include <vector>

#include "node.h"
#include "threads.h"

struct kapi_workqueue {
    std::string name;
    unsigned active = 0;                    // works that run
    unsigned bound;                         // how many may run at once
    std::vector<kapi_work *> waiting;       // due, without a thread yet
    bool draining = false;
};

namespace sim {

namespace {

struct Work {
    kapi_work_fn fn;
    Node *node;
};
static_assert(sizeof(Work) <= KAPI_SIZE_WORK);

Work &inside(kapi_work *work)
{
    return *reinterpret_cast<Work *>(work->opaque);
}

void start_some(Node &node, kapi_workqueue &queue);

void run(Node &node, kapi_workqueue &queue, kapi_work *work)
{
    node.works_run++;
    inside(work).fn(work);
    auto running = node.running_works.find(work);
    if (running != node.running_works.end() && running->second.get() == World::current_task())
        node.running_works.erase(running);
    queue.active--;
    node.world().wake(node.work_done);
    start_some(node, queue);
}

/** Gives threads to works that are due and not still running from an earlier time. */
void start_some(Node &node, kapi_workqueue &queue)
{
    for (std::size_t i = 0; i < queue.waiting.size() && queue.active < queue.bound;) {
        kapi_work *work = queue.waiting[i];
        if (node.running_works.contains(work)) {
            i++;
            continue;
        }
        queue.waiting.erase(queue.waiting.begin() + static_cast<std::ptrdiff_t>(i));
        node.pending_works.erase(work);
        queue.active++;
        node.running_works[work] = node.world().spawn(
            node, "work of " + queue.name, [&node, &queue, work] { run(node, queue, work); }, TaskKind::work);
    }
}

void start_timer(Node &node, kapi_workqueue &queue, kapi_work *work, kapi_u64 due_ns)
{
    node.pending_works[work].timer = node.world().at(node.world_time(due_ns), [&node, &queue, work, due_ns] {
        if (node.now_ns() < due_ns)
            return start_timer(node, queue, work, due_ns); // the machine slept meanwhile
        node.pending_works[work].timer = {};
        queue.waiting.push_back(work);
        start_some(node, queue);
    });
}

void arm(Node &node, kapi_workqueue &queue, kapi_work *work, kapi_u64 delay_ns)
{
    PendingWork &pending = node.pending_works[work];
    pending.queue = &queue;
    node.world().cancel(pending.timer);
    std::erase(queue.waiting, work);
    if (!delay_ns) {
        queue.waiting.push_back(work);
        start_some(node, queue);
        return;
    }
    // Timers of the host are late by up to a tick, never early.
    kapi_u64 late_ns = node.world().host_random().below(kMillisecond);
    start_timer(node, queue, work, node.now_ns() + delay_ns + late_ns);
}

Node &node_of(kapi_work *work)
{
    Node *node = inside(work).node;
    if (!node)
        broken("a work that was never initialised, or outside of any node");
    return *node;
}

/** Takes it off its timer and out of its queue; false when it is on neither. */
bool unqueue(Node &node, kapi_work *work)
{
    auto pending = node.pending_works.find(work);
    if (pending == node.pending_works.end())
        return false;
    node.world().cancel(pending->second.timer);
    std::erase(pending->second.queue->waiting, work);
    node.pending_works.erase(pending);
    return true;
}

} // namespace

void leave_one_thread(kapi_workqueue &queue)
{
    queue.bound = 1;
}

} // namespace sim

using namespace sim;

struct kapi_workqueue *kapi_workqueue_create(const char *name, unsigned int most) noexcept
{
    enter_sleep("kapi_workqueue_create");
    if (fault("kapi_workqueue_create"))
        return nullptr;
    Node *node = Node::current();
    node->live_queues++;
    // A small bound finds works that wait for one another.
    auto bound = most ? most : 256u;
    if (node->world().host_random().one_in(4))
        bound = std::min(bound, 4u);
    auto *queue = new kapi_workqueue{.name = name, .bound = bound, .waiting = {}};
    node->adopt(queue, [](void *object) { delete static_cast<kapi_workqueue *>(object); });
    return queue;
}

// Threads cost nothing here, and are there without memory.
struct kapi_workqueue *kapi_workqueue_create_cheap(const char *name, unsigned int most) noexcept
{
    return kapi_workqueue_create(name, most);
}

void kapi_workqueue_destroy(struct kapi_workqueue *queue) noexcept
{
    if (!queue)
        return;
    enter_sleep("kapi_workqueue_destroy");
    Node &node = *Node::current();
    for (const auto &[work, pending] : node.pending_works)
        if (pending.queue == queue && pending.timer.armed())
            broken("work queue %s is destroyed with a delayed work pending", queue->name.c_str());
    while (queue->active || !queue->waiting.empty())
        node.world().wait(node.work_done, "a work queue to drain");
    node.live_queues--;
    node.disown(queue);
    delete queue;
}

void kapi_work_init(struct kapi_work *work, kapi_work_fn fn) noexcept
{
    // A work that freed itself may still be returning, and another be made in the same memory, or not: that is the host's choice,
    // and a seed must not depend on it.
    Node *node = Node::current();
    if (node)
        node->running_works.erase(work);
    inside(work) = Work{fn, node};
}

int kapi_work_queue(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns) noexcept
{
    enter_any("kapi_work_queue");
    Node &node = node_of(work);
    node.work_requests++;
    if (node.pending_works.contains(work) || node.cancelled_works.contains(work))
        return 0;
    arm(node, *queue, work, delay_ns);
    enter_any("kapi_work_queue");
    return 1;
}

int kapi_work_mod(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns) noexcept
{
    enter_any("kapi_work_mod");
    Node &node = node_of(work);
    if (node.cancelled_works.contains(work))
        return node.world().host_random().one_in(2); // not queued; the result differs between kernel versions
    int was_pending = node.pending_works.contains(work);
    arm(node, *queue, work, delay_ns);
    enter_any("kapi_work_mod");
    return was_pending;
}

int kapi_work_cancel(struct kapi_work *work) noexcept
{
    enter_any("kapi_work_cancel");
    return unqueue(node_of(work), work);
}

int kapi_work_cancel_sync(struct kapi_work *work) noexcept
{
    enter_sleep("kapi_work_cancel_sync");
    int was_pending = 0;
    Node &node = node_of(work);
    auto cancelled = node.cancelled_works.insert(work);
    for (;;) {
        was_pending |= unqueue(node, work);
        auto running = node.running_works.find(work);
        if (running == node.running_works.end()) {
            node.cancelled_works.erase(cancelled);
            return was_pending;
        }
        if (running->second.get() == World::current_task())
            broken("a work cancels itself and waits for that: a deadlock");
        node.world().wait(node.work_done, "a work that is cancelled");
    }
}
