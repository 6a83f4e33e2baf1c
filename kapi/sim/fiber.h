// SPDX-License-Identifier: GPL-2.0
// Stackful coroutines: each simulated task runs on its own stack, so that core code may block in the middle of a call.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace sim {

class Fiber {
public:
    using Entry = void (*)(void *argument);

    Fiber() = default; // the stack on which the program already runs, after the first jump
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    /** Prepares to run entry(argument) on a stack of its own. entry must end with a jump with `ends` set. */
    void start(Entry entry, void *argument);
    /** Gives the stack back. */
    void discard();
    /** What is on the stack is forgotten without being destroyed (a crashed machine). */
    void abandon();
    /** Whether place is on its stack. */
    bool holds(const void *place) const;
    /** Leaves `from` and continues `to`. With `ends`, `from` is never continued. */
    static void jump(Fiber &from, Fiber &to, bool ends = false);

private:
    static void first_steps();

#if defined(__x86_64__)
    void *stack_pointer_ = nullptr; // where its registers are saved
#else
    ucontext_t context_{};
#endif
    Entry entry_ = nullptr;
    void *argument_ = nullptr;
    void *stack_ = nullptr;
    // What AddressSanitizer needs about the stack that is continued.
    const void *bottom_ = nullptr;
    std::size_t size_ = 0;
    void *fake_stack_ = nullptr;
};

} // namespace sim
