// SPDX-License-Identifier: GPL-2.0
#include "fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

#if defined(__x86_64__)
// swapcontext() makes a system call each time and is no friend of AddressSanitizer; all that must be kept across a call
// is six registers.
extern "C" void sim_switch_stack(void **save, void *restore);
asm(".text\n"
    ".type sim_switch_stack, @function\n"
    "sim_switch_stack:\n"
    "    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
    "    ret\n"
    ".size sim_switch_stack, . - sim_switch_stack\n");
#endif

namespace sim {

namespace {

constexpr std::size_t kStackBytes = 256 * 1024; // sanitized frames are several times larger than the kernel's
constexpr std::size_t kGuardBytes = 4096;

std::vector<void *> &free_stacks()
{
    static std::vector<void *> stacks;
    return stacks;
}

// The fiber that is being jumped to and the one that was left: the arguments of a new stack.
Fiber *arriving;
Fiber *leaving;

void *take_stack()
{
    auto &stacks = free_stacks();
    if (!stacks.empty()) {
        void *stack = stacks.back();
        stacks.pop_back();
        return stack;
    }
    void *memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
        std::perror("sim: no stack");
        std::abort();
    }
    char *stack = static_cast<char *>(memory) + kGuardBytes;
#ifdef SIM_ASAN
    __lsan_register_root_region(stack, kStackBytes); // a task that waits owns what its stack points to
#endif
    return stack;
}

} // namespace

Fiber::~Fiber()
{
    discard();
}

void Fiber::start(Entry entry, void *argument)
{
    entry_ = entry;
    argument_ = argument;
    stack_ = take_stack();
    bottom_ = stack_;
    size_ = kStackBytes;
    fake_stack_ = nullptr;
#if defined(__x86_64__)
    // What sim_switch_stack() pops: six registers and the address to return to. The stack is then as if
    // first_steps() had been called.
    auto **top = reinterpret_cast<void **>(static_cast<char *>(stack_) + kStackBytes) - 1;
    *--top = reinterpret_cast<void *>(&Fiber::first_steps);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    stack_pointer_ = top;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::first_steps, 0);
#endif
}

void Fiber::discard()
{
    if (!stack_)
        return;
#ifdef SIM_ASAN
    __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
    free_stacks().push_back(stack_);
    stack_ = nullptr;
}

void Fiber::abandon()
{
#ifdef SIM_ASAN
    stack_ = nullptr; // never used again: the leak checker still finds what is on it and was not destroyed
#else
    discard();
#endif
}

bool Fiber::holds(const void *place) const
{
    auto *at = static_cast<const char *>(place), *bottom = static_cast<const char *>(stack_);
    return stack_ && at >= bottom && at < bottom + kStackBytes;
}

void Fiber::first_steps()
{
    Fiber *self = arriving;
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &leaving->bottom_, &leaving->size_);
#endif
    self->entry_(self->argument_);
    std::abort(); // entry jumps away and is not continued
}

void Fiber::jump(Fiber &from, Fiber &to, bool ends)
{
    arriving = &to;
    leaving = &from;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack_, to.bottom_, to.size_);
#endif
    (void)ends;
#if defined(__x86_64__)
    sim_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#else
    swapcontext(&from.context_, &to.context_);
#endif
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack_, &leaving->bottom_, &leaving->size_);
#endif
}

} // namespace sim
