// SPDX-License-Identifier: GPL-2.0
// A simulated thread of execution: a system call, a work, or something that runs with bottom halves off.
#pragma once

#include <kapi/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"

namespace sim {

class Node;
struct Spin;
struct Tcb;
class TurnScope;

enum class TaskKind { process, work, softirq };
enum class TaskState { ready, running, parked, blocked, done };

struct Task : std::enable_shared_from_this<Task> {
    std::uint32_t id = 0;
    std::string name;
    Node *node = nullptr;
    TaskKind kind = TaskKind::process;
    std::function<void()> body;
    Fiber fiber;
    TaskState state = TaskState::ready;
    const char *waits_for = "";
    std::uint64_t waits_since_ns = 0;

    unsigned pins = 0;                  // of memory on its stack
    std::vector<Spin *> locks;          // core locks held, oldest first
    std::uint64_t steps = 0;            // HW_STEP()s since it took the first of them
    std::uint64_t steps_since_pause = 0; // since kapi_resched()
    unsigned atomic_depth = 0;          // callbacks and releases it is in: it must not sleep
    const Tcb *callback_of = nullptr;   // the stream whose callback it is in
    const TurnScope *turn = nullptr;    // of the callback it is in
    std::uint64_t points = 0;           // calls of kapi and atomic operations
    unsigned in_done = 0;               // callbacks of completion queues that it is in
    std::uint64_t quiet_states = 0;     // times it left its last lock or callback: grace periods wait for that
    bool signal_pending = false;
    unsigned interrupted_parks = 0;     // that a signal ended
    unsigned user = 0;                  // of a system call
    std::vector<unsigned> makers;       // of the user namespaces that he is in, from the innermost to the outermost
    int cpu = -1;                       // it runs on; -1: the host moves it about

    bool is_atomic() const { return !locks.empty() || atomic_depth > 0; }
    bool is_done() const { return state == TaskState::done; }
};

using TaskRef = std::shared_ptr<Task>;

constexpr unsigned kCpus = 4; // of each machine

/** Tasks that wait for one thing inside the simulator. */
using WaitList = std::vector<TaskRef>;

} // namespace sim
