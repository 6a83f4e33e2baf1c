// SPDX-License-Identifier: GPL-2.0
#include "world.h"

#include <kapi/wait.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "network.h"
#include "node.h"

namespace sim {

namespace {

World *current_world;
Task outside;                    // the thread that runs the world
Task *running_task = &outside;

} // namespace

World *World::current()
{
    return current_world;
}

Task *World::current_task()
{
    return running_task;
}

World &world()
{
    if (!current_world)
        broken("this needs a simulated world");
    return *current_world;
}

World::World(std::uint64_t seed, const Options &options)
    : seed_(seed), options_(options), schedule_random_(seed * 3 + 1), host_random_(seed * 3 + 2),
      random_(seed * 3 + 3), trace_(std::getenv("SIM_TRACE") != nullptr),
      network_(std::make_unique<Network>(*this))
{
    if (current_world)
        broken("a second world");
    current_world = this;
    running_task = &outside;
    outside.kind = TaskKind::process;
    outside.node = nullptr;
    // Few switches find bugs that need long stretches, many find those that need tight races: the seed picks one.
    static constexpr unsigned kRates[] = {2, 4, 8, 16, 64, 256};
    switch_one_in_ = options.switch_one_in ? options.switch_one_in : kRates[schedule_random_.below(6)];
}

void World::end_softirqs()
{
    auto no_softirqs = [this] {
        return std::all_of(tasks_.begin(), tasks_.end(),
                           [](const TaskRef &task) { return task->is_done() || task->kind != TaskKind::softirq; });
    };
    run_until(no_softirqs, kSecond);
}

World::~World()
{
    // A connection that nobody owns any more may have a packet in this very moment; that is no task of a module's.
    end_softirqs();
    drop_done_tasks();
    if (!tasks_.empty()) {
        print_tasks();
        fail("%zu tasks are still waiting at the end of the world", tasks_.size());
    }
    timers_.clear();
    network_->end();
    for (auto &node : nodes_)
        node->end();
    network_.reset();
    nodes_.clear();
    outside.node = nullptr;
    current_world = nullptr;
}

Node &World::add_node(const std::string &name)
{
    nodes_.push_back(std::make_unique<Node>(*this, name, static_cast<unsigned>(nodes_.size())));
    return *nodes_.back();
}

TaskRef World::spawn(Node &node, const std::string &name, std::function<void()> body, TaskKind kind)
{
    auto task = std::make_shared<Task>();
    task->id = next_task_++;
    task->name = name;
    task->node = &node;
    task->kind = kind;
    task->body = std::move(body);
    task->fiber.start(&World::task_entry, task.get());
    tasks_.push_back(task);
    ready_.push_back(task);
    return task;
}

void World::task_entry(void *argument)
{
    Task &task = *static_cast<Task *>(argument);
    World &self = *current_world;
    task.body();
    task.body = nullptr;
    if (task.is_atomic())
        self.fail("task %s ends with a lock held or inside a callback", task.name.c_str());
    if (task.pins)
        self.fail("task %s ends while a device may use its stack, which another task will have", task.name.c_str());
    task.state = TaskState::done;
    self.done_tasks_++;
    running_task = &outside;
    Fiber::jump(task.fiber, self.scheduler_, true);
}

void World::run_one_task()
{
    std::size_t pick = schedule_random_.below(ready_.size());
    TaskRef task = std::move(ready_[pick]);
    ready_[pick] = std::move(ready_.back());
    ready_.pop_back();
    if (task->state != TaskState::ready)
        return; // its machine crashed
    if (task->node->is_paused())
        return task->node->hold(std::move(task));
    now_ns_ += schedule_random_.below(1000);
    if (++steps_ > options_.max_steps)
        fail("%llu steps: a livelock", static_cast<unsigned long long>(steps_));
    task->state = TaskState::running;
    trace_.add({now_ns_, task->id, "run", 0, 0});
    running_task = task.get();
    Fiber::jump(scheduler_, task->fiber);
    running_task = &outside;
    if (task->is_done())
        task->fiber.discard();
    if (done_tasks_ > 64)
        drop_done_tasks();
}

void World::drop_done_tasks()
{
    std::erase_if(tasks_, [](const TaskRef &task) { return task->is_done(); });
    done_tasks_ = 0;
}

void World::fire_due_timers()
{
    while (!timers_.empty() && timers_.begin()->first.time_ns <= now_ns_) {
        auto timer = timers_.extract(timers_.begin());
        timer.mapped()();
    }
}

void World::check_hung()
{
    if (now_ns_ - last_hung_check_ns_ < 10 * kSecond)
        return;
    last_hung_check_ns_ = now_ns_;
    for (const auto &task : tasks_) {
        if (task->state == TaskState::blocked && now_ns_ - task->waits_since_ns > options_.hung_task_ns) {
            print_tasks();
            fail("task %s hangs: waits for %s", task->name.c_str(), task->waits_for);
        }
    }
}

/** One step; false when there is nothing to do. */
bool World::advance()
{
    fire_due_timers();
    if (!ready_.empty()) {
        run_one_task();
        return true;
    }
    if (timers_.empty())
        return false;
    now_ns_ = std::max(now_ns_, timers_.begin()->first.time_ns);
    check_hung();
    return true;
}

bool World::run_until(const std::function<bool()> &done, std::uint64_t limit_ns)
{
    if (running_task != &outside)
        fail("the world is run from inside of it");
    std::uint64_t end_ns = limit_ns > ~0ULL - now_ns_ ? ~0ULL : now_ns_ + limit_ns;
    while (!done()) {
        if (ready_.empty() && !timers_.empty() && timers_.begin()->first.time_ns > end_ns) {
            now_ns_ = end_ns;
            return false;
        }
        if (now_ns_ > end_ns || !advance())
            return false;
    }
    return true;
}

void World::run_for(std::uint64_t duration_ns)
{
    std::uint64_t end_ns = now_ns_ + duration_ns;
    at(end_ns, [] {});
    run_until([&] { return now_ns_ >= end_ns; }, duration_ns);
}

void World::run_idle()
{
    run_until([] { return false; }, ~0ULL);
}

TimerId World::at(std::uint64_t time_ns, std::function<void()> fire)
{
    TimerId id{std::max(time_ns, now_ns_), next_serial_++};
    timers_.emplace(id, std::move(fire));
    return id;
}

void World::cancel(TimerId &timer)
{
    if (timer.armed())
        timers_.erase(timer);
    timer = {};
}

void World::leave(TaskState state, const char *why)
{
    Task &task = *running_task;
    if (&task == &outside)
        fail("the test's own thread would have to wait: %s", why);
    task.state = state;
    task.waits_for = why;
    task.waits_since_ns = now_ns_;
    Fiber::jump(task.fiber, scheduler_);
}

void World::point(const char *what)
{
    Task &task = *running_task;
    task.points++;
    if (&task == &outside || !schedule_random_.one_in(switch_one_in_))
        return;
    note("switch at", 0, std::strlen(what));
    ready_.push_back(task.shared_from_this());
    leave(TaskState::ready, what);
}

void World::wait(WaitList &list, const char *why)
{
    if (running_task != &outside)
        list.push_back(running_task->shared_from_this());
    leave(TaskState::blocked, why);
}

void World::wake(WaitList &list)
{
    WaitList woken = std::move(list);
    list.clear();
    for (auto &task : woken)
        make_ready(*task);
}

void World::make_ready(Task &task)
{
    if (task.state != TaskState::parked && task.state != TaskState::blocked)
        return;
    task.state = TaskState::ready;
    ready_.push_back(task.shared_from_this());
}

void World::continue_tasks(const std::vector<TaskRef> &tasks)
{
    ready_.insert(ready_.end(), tasks.begin(), tasks.end());
}

void World::park(std::uint64_t until_ns)
{
    expect_sleepable("a pause");
    TimerId timer;
    if (until_ns != KAPI_FOREVER)
        timer = at(until_ns, [this, weak = running_task->weak_from_this()] {
            if (auto task = weak.lock())
                make_ready(*task);
        });
    leave(TaskState::parked, "a wake-up");
    cancel(timer);
}

void World::sleep(std::uint64_t duration_ns)
{
    std::uint64_t end_ns = now_ns_ + duration_ns;
    while (now_ns_ < end_ns)
        park(end_ns);
}

void World::signal(Task &task)
{
    task.signal_pending = true;
    note("signal", task.id);
    if (task.state == TaskState::parked)
        make_ready(task);
}

void World::forget_tasks(const Node &node)
{
    if (running_task->node == &node && running_task != &outside)
        fail("a machine cannot crash itself");
    for (auto &task : tasks_) {
        if (task->node != &node || task->is_done())
            continue;
        task->state = TaskState::done;
        task->locks.clear();
        task->fiber.abandon();
    }
    std::erase_if(ready_, [&](const TaskRef &task) { return task->is_done(); });
    drop_done_tasks();
}

void World::note(const char *what, std::uint64_t a, std::uint64_t b)
{
    trace_.add({now_ns_, running_task->id, what, a, b});
}

void World::print_tasks()
{
    for (const auto &task : tasks_) {
        std::fprintf(stderr, "  task %u %s on %s: %s", task->id, task->name.c_str(), task->node->name().c_str(),
                     task->state == TaskState::ready ? "ready at " : "waits for ");
        std::fprintf(stderr, "%s for %.3f ms%s\n", task->waits_for,
                     static_cast<double>(now_ns_ - task->waits_since_ns) / 1e6,
                     task->is_atomic() ? ", holds locks or is in a callback" : "");
    }
}

void World::fail(const char *format, ...)
{
    std::fprintf(stderr, "\n--- last events\n");
    const char *wanted = std::getenv("SIM_LAST");
    trace_.print_last(stderr, wanted ? std::strtoul(wanted, nullptr, 10) : 40);
    std::fprintf(stderr, "--- simulation failed at %.6f ms in task %u %s%s%s: ",
                 static_cast<double>(now_ns_) / 1e6, running_task->id, running_task->name.c_str(),
                 running_task->node ? " on " : "", running_task->node ? running_task->node->name().c_str() : "");
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "\n--- seed %llu, trace hash %016llx after %llu events\n",
                 static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(trace_.hash()),
                 static_cast<unsigned long long>(trace_.count()));
#if defined(__SANITIZE_ADDRESS__)
    if (std::getenv("SIM_STACK"))
        __builtin_trap(); // the sanitizer prints the stack
#endif
    std::abort();
}

void broken(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (current_world)
        current_world->fail("%s", text);
    std::fprintf(stderr, "sim: %s\n", text);
    std::abort();
}

} // namespace sim
