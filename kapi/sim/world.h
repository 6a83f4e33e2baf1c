// SPDX-License-Identifier: GPL-2.0
// One simulated world: a seed, a clock, tasks and timers. One world lives at a time; the program's own thread runs it.
//
// Everything happens in run_*(): due timers fire, then one ready task, chosen by the seed, runs until it waits or until
// a switching point (any kapi call that matters for ordering) lets the seed choose again. So a seed is an interleaving.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "random.h"
#include "task.h"
#include "trace.h"

namespace sim {

class Network;
class Node;

constexpr std::uint64_t kMicrosecond = 1000;
constexpr std::uint64_t kMillisecond = 1000 * kMicrosecond;
constexpr std::uint64_t kSecond = 1000 * kMillisecond;

struct Options {
    std::uint64_t max_steps = 50'000'000;        // more is taken for a livelock
    std::uint64_t hung_task_ns = 120 * kSecond;  // a task blocked (not parked) so long is taken for a deadlock
    unsigned switch_one_in = 0;                  // how often a switching point switches; 0: the seed decides
    bool spurious_wakeups = true;
};

struct TimerId {
    std::uint64_t time_ns = 0, serial = 0;
    bool armed() const { return serial != 0; }
    auto operator<=>(const TimerId &) const = default;
};

class World {
public:
    explicit World(std::uint64_t seed, const Options &options = {});
    /** Fails when a task is still waiting or a node has leaked. */
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    static World *current();
    static Task *current_task(); // never null: the thread that runs the world counts as a task

    Node &add_node(const std::string &name);
    const std::vector<std::unique_ptr<Node>> &nodes() const { return nodes_; }
    Network &network() { return *network_; }

    unsigned next_net() { return next_net_++; } // a number for a namespace

    std::uint64_t seed() const { return seed_; }
    std::uint64_t now_ns() const { return now_ns_; }
    const Options &options() const { return options_; }
    Trace &trace() { return trace_; }
    Random &random() { return random_; }         // for tests: workload and faults
    Random &host_random() { return host_random_; } // for the simulated host's own choices

    TaskRef spawn(Node &node, const std::string &name, std::function<void()> body,
                  TaskKind kind = TaskKind::process);
    /** Runs tasks and timers until done() (true), or limit_ns passes or nothing is left to run (false). */
    bool run_until(const std::function<bool()> &done, std::uint64_t limit_ns);
    void run_for(std::uint64_t duration_ns);
    /** Until no task is ready and no timer armed. */
    void run_idle();
    /** Until no softirq is at work. Timers run: to be called while all that they use still exists. */
    void end_softirqs();

    TimerId at(std::uint64_t time_ns, std::function<void()> fire);
    TimerId after(std::uint64_t delay_ns, std::function<void()> fire) {
        return at(now_ns_ + delay_ns, std::move(fire));
    }
    void cancel(TimerId &timer);

    // From a task.
    void point(const char *what);                             // here the seed may switch
    void wait(WaitList &list, const char *why);               // until woken; the caller checks its condition again
    void wake(WaitList &list);                                // all
    void sleep(std::uint64_t duration_ns);                    // a pause of a simulated program
    void park(std::uint64_t until_ns);                        // until make_ready or the time
    void make_ready(Task &task);
    void continue_tasks(const std::vector<TaskRef> &tasks);   // that were ready when their machine was paused
    void signal(Task &task);                                  // a signal for its program
    void forget_tasks(const Node &node);                      // they stop where they are: a crash

    void note(const char *what, std::uint64_t a = 0, std::uint64_t b = 0);
    /** The run has failed: prints why, the seed and the last events, and aborts. */
    [[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void print_tasks();

    const std::vector<TaskRef> &tasks() const { return tasks_; }

private:
    static void task_entry(void *task);
    void run_one_task();
    void fire_due_timers();
    bool advance();
    void check_hung();
    void leave(TaskState state, const char *why);
    void drop_done_tasks();

    std::uint64_t seed_;
    Options options_;
    Random schedule_random_, host_random_, random_;
    Trace trace_;
    unsigned switch_one_in_;
    std::uint64_t now_ns_ = kSecond;
    std::uint64_t steps_ = 0;
    std::uint64_t last_hung_check_ns_ = 0;
    std::uint64_t next_serial_ = 1;
    std::uint32_t next_task_ = 1;
    unsigned next_net_ = 1;
    std::map<TimerId, std::function<void()>> timers_;
    std::vector<TaskRef> tasks_;  // all that are not done
    std::vector<TaskRef> ready_;
    unsigned done_tasks_ = 0;
    Fiber scheduler_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::unique_ptr<Network> network_;
};

/** The current world; there must be one. */
World &world();

/** Makes `node` the one on whose behalf the calling thread (or task) acts. */
class NodeScope {
public:
    explicit NodeScope(Node &node);
    ~NodeScope();
    NodeScope(const NodeScope &) = delete;
    NodeScope &operator=(const NodeScope &) = delete;

private:
    Node *before_;
};

/** Between these the calling task may not sleep; `stream` is the one whose callback it runs, or null. */
class AtomicScope {
public:
    explicit AtomicScope(const Tcb *stream = nullptr);
    ~AtomicScope();
    AtomicScope(const AtomicScope &) = delete;
    AtomicScope &operator=(const AtomicScope &) = delete;

private:
    const Tcb *before_;
};

/** A sleeping lock of the simulated host itself (a stream's owner lock). */
class HostMutex {
public:
    void lock(const char *why);
    void unlock();
    bool is_locked() const { return owner_ != nullptr; }

private:
    const Task *owner_ = nullptr;
    WaitList waiters_;
};

/** Fails the run when the running task may not sleep. */
void expect_sleepable(const char *call);
// What the tags of kapi mean; each fails the run when its rule is broken, and is a switching point.
void enter_any(const char *call);
/** What is [any] and switches bottom halves off and on again: it may not be called while interrupts are off. */
void enter_bottom_halves(const char *call);
void enter_sleep(const char *call);
void enter_task(const char *call);
void enter_init(const char *call);

/** Fails the run when there is a world, aborts when there is none. */
[[noreturn]] void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace sim
