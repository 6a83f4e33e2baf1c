// SPDX-License-Identifier: GPL-2.0
// Waiting: a waiter remembers a wake-up that comes before it parks, so none is lost.
#include <kapi/errno.h>
#include <kapi/wait.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "node.h"
#include "user.h"
#include "wake.h"


namespace sim {

namespace {

struct Waiter;

struct Queue {
    Waiter *first;
};
static_assert(sizeof(Queue) <= KAPI_SIZE_WAITQ);

/** On the stack of the task that waits, or in the poll that watches. */
struct Waiter {
    Queue *queue;
    Waiter *next;
    Task *task;
    kapi_poll *poll;
    bool woken;
    bool exclusive = false; // behind all that are not, as in the kernel
    bool sleeps() const { return !woken && task->state == TaskState::parked; }
};
static_assert(sizeof(Waiter) <= KAPI_SIZE_WAITER);

Queue &inside(kapi_waitq *queue)
{
    return *reinterpret_cast<Queue *>(queue->opaque);
}

Waiter &inside(kapi_waiter *waiter)
{
    return *reinterpret_cast<Waiter *>(waiter->opaque);
}

void unlink(Waiter &waiter)
{
    for (Waiter **place = &waiter.queue->first; *place; place = &(*place)->next) {
        if (*place == &waiter) {
            *place = waiter.next;
            return;
        }
    }
    broken("a waiter is not on its queue");
}

thread_local std::size_t most_woken = 0, all_woken = 0;

/** Of a task, which may have disappeared with its machine. */
struct Expected {
    std::weak_ptr<Task> task;
    ExpectWakeups::IsDue is_due;
};
thread_local std::map<const Task *, Expected> expected;

constexpr std::uint64_t kGraceNs = 20 * kMillisecond;

/** The waiter was not woken in time. Who makes its condition true may be about to wake it. */
bool is_forgotten(const Waiter &waiter)
{
    auto found = expected.find(waiter.task);
    if (found == expected.end() || found->second.task.lock().get() != waiter.task)
        return false;
    auto is_due = found->second.is_due;
    for (std::uint64_t end_ns = world().now_ns() + kGraceNs; world().now_ns() < end_ns && !waiter.woken;) {
        if (!is_due(*reinterpret_cast<kapi_waitq *>(waiter.queue)))
            return false;
        world().park(std::min(end_ns, world().now_ns() + kMillisecond));
    }
    return !waiter.woken;
}

} // namespace

ExpectWakeups::ExpectWakeups(IsDue is_due)
{
    Task *task = World::current_task();
    expected[task] = {task->weak_from_this(), std::move(is_due)};
}

ExpectWakeups::~ExpectWakeups()
{
    expected.erase(World::current_task());
}

std::size_t most_woken_at_once()
{
    return std::exchange(most_woken, 0);
}

std::size_t threads_woken()
{
    return std::exchange(all_woken, 0);
}

void PollWatch::end()
{
    for (kapi_waiter *watch : watches_) {
        unlink(inside(watch));
        delete watch;
    }
    watches_.clear();
}

Poller::Poller(Ask ask, unsigned wanted, Kind kind) : ask_(std::move(ask)), kind_(kind)
{
    poll_.wanted = wanted | KAPI_ERR | KAPI_HUP;
    poll_.exclusive = kind_ == Kind::epoll_exclusive;
    if (kind_ != Kind::poll)
        poll_.woken = this->ask(&watch_) != 0;
}

unsigned Poller::ask(PollWatch *watch)
{
    poll_.watch = watch;
    poll_.queues = 0;
    return ask_(&poll_) & poll_.wanted;
}

unsigned Poller::wait(std::uint64_t timeout_ns)
{
    const Node &node = *Node::current();
    std::uint64_t deadline_ns = timeout_ns == KAPI_FOREVER ? KAPI_FOREVER : node.now_ns() + timeout_ns;
    bool first = kind_ == Kind::poll; // poll() calls the operation at once, epoll_wait() only after a wake-up
    for (;;) {
        unsigned events = 0;
        if (std::exchange(poll_.woken, false) || first)
            events = ask(first ? &watch_ : nullptr);
        first = false;
        if (!events && node.now_ns() < deadline_ns) {
            poll_.sleeps = true;
            if (!poll_.woken)
                world().park(deadline_ns == KAPI_FOREVER ? KAPI_FOREVER : node.world_time(deadline_ns));
            poll_.sleeps = false;
            continue;
        }
        if (kind_ == Kind::poll)
            watch_.end();
        if ((kind_ == Kind::epoll || kind_ == Kind::epoll_exclusive) && events)
            poll_.woken = true; // stays on epoll's list until it is found without events
        return events;
    }
}

} // namespace sim

using namespace sim;

void kapi_waitq_init(struct kapi_waitq *queue) noexcept
{
    inside(queue).first = nullptr;
}

void kapi_wake(struct kapi_waitq *queue, unsigned int events) noexcept
{
    enter_any("kapi_wake");
    bool enough = false; // of exclusive ones one that sleeps, but at the end
    std::size_t looked_at = 0;
    for (Waiter *waiter = inside(queue).first; waiter; waiter = waiter->next) {
        most_woken = std::max(most_woken, ++looked_at);
        if (kapi_poll *poll = waiter->poll) {
            if (!(events & poll->wanted) || (poll->exclusive && enough))
                continue;
            enough = enough || (poll->exclusive && poll->sleeps && !poll->woken && !(events & KAPI_HUP));
            poll->woken = true;
        }
        bool last = waiter->exclusive && waiter->sleeps() && !(events & KAPI_HUP);
        all_woken += waiter->sleeps();
        waiter->woken = true;
        world().make_ready(*waiter->task);
        if (last)
            return;
    }
}

int kapi_waitq_active(struct kapi_waitq *queue) noexcept
{
    enter_any("kapi_waitq_active");
    return inside(queue).first != nullptr;
}

void kapi_wait_begin(struct kapi_waitq *queue, struct kapi_waiter *waiter) noexcept
{
    enter_sleep("kapi_wait_begin");
    Queue &list = inside(queue);
    list.first = new (waiter->opaque) Waiter{&list, list.first, World::current_task(), nullptr, false};
    enter_any("kapi_wait_begin");
}

void kapi_wait_begin_exclusive(struct kapi_waitq *queue, struct kapi_waiter *waiter) noexcept
{
    enter_sleep("kapi_wait_begin_exclusive");
    Waiter **place = &inside(queue).first;
    while (*place)
        place = &(*place)->next;
    *place = new (waiter->opaque) Waiter{&inside(queue), nullptr, World::current_task(), nullptr, false, true};
    enter_any("kapi_wait_begin_exclusive");
}

void kapi_wait_end(struct kapi_waitq *queue, struct kapi_waiter *waiter) noexcept
{
    if (inside(waiter).queue != &inside(queue))
        broken("kapi_wait_end with another queue than kapi_wait_begin");
    unlink(inside(waiter));
}

namespace {

/** A wait that a signal interrupts more often than this loops instead of giving up. */
constexpr unsigned kMaxInterrupted = 100;

int park(kapi_waiter *waiter, kapi_u64 deadline_ns, bool interruptible)
{
    Waiter &self = inside(waiter);
    Task &task = *World::current_task();
    World &w = world();
    for (;;) {
        if (self.woken) {
            self.woken = false;
            return 0;
        }
        if (interruptible && task.signal_pending) {
            if (++task.interrupted_parks > kMaxInterrupted)
                broken("task %s spins: a signal is pending, and it parks again and again", task.name.c_str());
            return -KAPI_EINTR;
        }
        if (task.node->now_ns() >= deadline_ns) {
            if (is_forgotten(self))
                w.fail("a wait ended by time, though what it waits for is there: no wake-up came");
            if (!self.woken)
                return -KAPI_ETIMEDOUT;
            continue;
        }
        if (w.options().spurious_wakeups && w.host_random().one_in(64))
            return 0; // another waiter's condition: the kernel wakes all
        w.park(deadline_ns == KAPI_FOREVER ? KAPI_FOREVER : task.node->world_time(deadline_ns));
    }
}

} // namespace

int kapi_park(struct kapi_waiter *waiter, kapi_u64 deadline_ns) noexcept
{
    enter_sleep("kapi_park");
    return park(waiter, deadline_ns, true);
}

int kapi_park_uninterruptible(struct kapi_waiter *waiter, kapi_u64 deadline_ns) noexcept
{
    enter_sleep("kapi_park_uninterruptible");
    return park(waiter, deadline_ns, false);
}

// Each signal of the simulator ends its program.
int kapi_fatal_signal_pending(void) noexcept
{
    enter_task("kapi_fatal_signal_pending");
    return World::current_task()->signal_pending;
}

void kapi_poll_wait(struct kapi_poll *poll, struct kapi_waitq *queue) noexcept
{
    enter_any("kapi_poll_wait");
    if (!poll)
        return;
    // io_uring gives up at the third queue, and one is the glue's: the kernel reports a socket's errors by it.
    if (++poll->queues > 1)
        broken("a poll is to watch more queues than io_uring takes");
    if (!poll->watch)
        return; // a poll that does not wait
    Queue &list = inside(queue);
    auto *storage = new kapi_waiter;
    list.first = new (storage->opaque) Waiter{&list, list.first, World::current_task(), poll, false};
    poll->watch->add(storage);
}
