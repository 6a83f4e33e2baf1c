// SPDX-License-Identifier: GPL-2.0
// Memory with an owner. Each allocation is one of malloc's, so that AddressSanitizer sees every byte of it.
#include <kapi/memory.h>
#include <kapi/objects.h>

#include <cstdlib>
#include <cstring>

#include "node.h"
#include "rdma.h"
#include "tcp.h"

namespace sim {

/** A program in its call, or one whose stream offers what came. */
bool somebody_pays()
{
    const Task &task = *World::current_task();
    return task.callback_of ? task.callback_of->of_program : task.kind == TaskKind::process;
}

namespace {

Memory memory_of_no_node;
Faults faults_of_no_node;

constexpr std::size_t kLargestAllocation = 4u << 20; // what a kernel can give in one piece

} // namespace

Memory &current_memory()
{
    Node *node = Node::current();
    return node ? node->memory() : memory_of_no_node;
}

bool fault(const char *call)
{
    Node *node = Node::current();
    return (node ? node->faults() : faults_of_no_node).next(call);
}

bool Faults::next(const char *call)
{
    count++;
    World *world = World::current();
    bool fails = count == fail_at || (one_in && world && world->host_random().one_in(one_in));
    if (fails) {
        failed++;
        if (world) {
            world->note("fails for a test:", count);
            world->note(call, count);
        }
    }
    return fails;
}

void *Memory::allocate(std::size_t size, bool zeroed, bool charged)
{
    void *memory = std::aligned_alloc(16, (size + 15) & ~std::size_t{15});
    if (!memory)
        broken("the machine that simulates is out of memory");
    std::memset(memory, zeroed ? 0 : 0xa5, size);
    blocks_[reinterpret_cast<std::uintptr_t>(memory)] = {size, ++serial_, charged};
    bytes_ += size;
    charged_bytes_ += charged ? size : 0;
    static const char *wanted = std::getenv("SIM_TRAP_ALLOC"); // the serial number that a leak report gave
    if (wanted && std::strtoull(wanted, nullptr, 10) == serial_)
        broken("allocation %s is made here", wanted);
    return memory;
}

void Memory::release(void *memory)
{
    auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (block == blocks_.end())
        broken("freed twice, or on another node, or never allocated: %p", memory);
    std::size_t size = block->second.size;
    if (Node *node = Node::current()) {
        auto work = node->pending_works.lower_bound(static_cast<kapi_work *>(memory));
        if (work != node->pending_works.end() &&
            reinterpret_cast<std::uintptr_t>(work->first) < reinterpret_cast<std::uintptr_t>(memory) + size)
            broken("memory is freed with a pending work in it");
        for (const auto *lock : node->held_locks) {
            auto place = reinterpret_cast<std::uintptr_t>(lock);
            if (place >= block->first && place < block->first + size)
                broken("memory is freed with a held lock in it");
        }
    }
    expect_unmapped(memory, size);
    bytes_ -= size;
    charged_bytes_ -= block->second.charged ? size : 0;
    blocks_.erase(block);
    std::memset(memory, 0x6b, size);
    std::free(memory);
}

bool Memory::holds(const void *memory, std::size_t size, std::size_t &place) const
{
    auto at = reinterpret_cast<std::uintptr_t>(memory);
    auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin())
        return false;
    const auto &[start, block] = *std::prev(next);
    place = at - start;
    return place <= block.size && size <= block.size - place;
}

void Memory::expect_empty(const char *owner) const
{
    if (blocks_.empty())
        return;
    unsigned shown = 0;
    std::map<std::uint64_t, std::size_t> by_age;
    for (const auto &[place, block] : blocks_)
        by_age[block.serial] = block.size;
    for (const auto &[serial, size] : by_age) {
        if (shown++ == 10)
            break;
        std::fprintf(stderr, "leak: allocation %llu of %zu bytes (SIM_TRAP_ALLOC=%llu shows where)\n",
                     static_cast<unsigned long long>(serial), size, static_cast<unsigned long long>(serial));
    }
    broken("%s leaks %zu allocations, %zu bytes", owner, blocks_.size(), bytes_);
}

void Memory::forget()
{
    for (const auto &[place, block] : blocks_)
        std::free(reinterpret_cast<void *>(place));
    blocks_.clear();
    bytes_ = charged_bytes_ = 0;
}

} // namespace sim

using namespace sim;

static void *allocate(kapi_size size, enum kapi_alloc_mode mode, bool zeroed, const char *call)
{
    switch (mode) {
    case KAPI_SLEEP:
        enter_sleep(call);
        break;
    case KAPI_SLEEP_CHARGED:
        enter_task(call);
        break;
    default:
        enter_any(call);
    }
    bool charged = mode == KAPI_SLEEP_CHARGED || (mode == KAPI_ATOMIC_CHARGED && somebody_pays());
    return size > kLargestAllocation || fault(call) ? nullptr : current_memory().allocate(size, zeroed, charged);
}

void *kapi_zalloc(kapi_size size, enum kapi_alloc_mode mode) noexcept
{
    return allocate(size, mode, true, "kapi_zalloc");
}

void *kapi_alloc(kapi_size size, enum kapi_alloc_mode mode) noexcept
{
    return allocate(size, mode, false, "kapi_alloc");
}

void *kapi_alloc_object(kapi_size size, enum kapi_alloc_mode mode) noexcept
{
    return allocate(size, mode, false, "kapi_alloc_object");
}

kapi_size kapi_object_true_size(kapi_size size) noexcept
{
    // A word of each class up to a page is not the object's.
    constexpr kapi_size smallest = 256, largest = 4096, word = 8;
    return size > largest - word ? kapi_alloc_true_size(size) : kapi_alloc_true_size(std::max(size + word, smallest));
}

void kapi_free(void *memory) noexcept
{
    if (memory)
        current_memory().release(memory);
}

kapi_u64 kapi_memory_total(void) noexcept
{
    const Node *node = Node::current();
    return node ? node->total_memory : std::size_t{8} << 30;
}

kapi_size kapi_alloc_true_size(kapi_size size) noexcept
{
    // The kernel's classes: powers of two with 96 and 192 between them, whole pages when large.
    if (size > 8192)
        return (size + 4095) & ~kapi_size{4095};
    for (kapi_size cls : {8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096})
        if (size <= cls)
            return cls;
    return 8192;
}

struct kapi_counters {
    unsigned int count;
    kapi_u64 values[];
};

struct kapi_counters *kapi_counters_create(unsigned int count) noexcept
{
    enter_sleep("kapi_counters_create");
    if (fault("kapi_counters_create"))
        return nullptr;
    void *memory = current_memory().allocate(sizeof(kapi_counters) + count * sizeof(kapi_u64), true);
    auto *counters = static_cast<kapi_counters *>(memory);
    counters->count = count;
    return counters;
}

void kapi_counters_destroy(struct kapi_counters *counters) noexcept
{
    if (counters)
        current_memory().release(counters);
}

void kapi_counters_add(struct kapi_counters *counters, unsigned int index, kapi_u64 n) noexcept
{
    if (index >= counters->count)
        broken("counter %u of %u", index, counters->count);
    counters->values[index] += n;
}

kapi_u64 kapi_counters_read(const struct kapi_counters *counters, unsigned int index) noexcept
{
    if (index >= counters->count)
        broken("counter %u of %u", index, counters->count);
    return counters->values[index];
}

void kapi_free_rcu(struct kapi_rcu *head, void (*release)(struct kapi_rcu *head)) noexcept
{
    enter_any("kapi_free_rcu");
    Node *node = Node::current();
    if (!node) {
        release(head); // without a world there is no other reader
        return;
    }
    node->free_rcu(head, release);
}

void kapi_rcu_barrier(void) noexcept
{
    enter_init("kapi_rcu_barrier");
    if (Node *node = Node::current())
        node->rcu_barrier();
}
