// SPDX-License-Identifier: GPL-2.0
// Time, chance, the log, modules and namespaces of a simulated machine.
#include <kapi/host.h>
#include <kapi/share.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "node.h"

using namespace sim;

namespace {
constexpr kapi_u64 kEpochNs = 1'700'000'000ULL * kSecond; // when simulated history begins
}

kapi_u64 kapi_now_ns(void) noexcept
{
    if (const Node *node = Node::current())
        return node->now_ns();
    return World::current() ? world().now_ns() : 0;
}

kapi_u64 kapi_real_ns(void) noexcept
{
    const Node *node = Node::current();
    kapi_u64 now = World::current() ? world().now_ns() : 0;
    return kEpochNs + now + static_cast<kapi_u64>(node ? node->real_offset_ns : 0);
}

kapi_u64 kapi_local_clock_ns(void) noexcept
{
    const Node *node = Node::current();
    return kapi_now_ns() - (node ? world().host_random().below(node->local_clock_spread_ns) : 0);
}

kapi_u32 kapi_cpu(void) noexcept
{
    int cpu = World::current_task()->cpu;
    if (cpu >= 0)
        return static_cast<kapi_u32>(cpu);
    return World::current() ? static_cast<kapi_u32>(world().host_random().below(kCpus)) : 0;
}

kapi_u32 kapi_cpus(void) noexcept { return kCpus; }

kapi_u32 kapi_random_u32(void) noexcept
{
    static Random without_world(1);
    return static_cast<kapi_u32>((World::current() ? world().host_random() : without_world).next());
}

void kapi_log(enum kapi_log_level level, const char *format, ...) noexcept
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (World *world = World::current())
        world->trace().text(world->now_ns(), World::current_task()->id, line);
    if (Node *node = Node::current())
        node->log.emplace_back(line);
    static const char *shown = std::getenv("SIM_LOG");
    if (shown && level <= std::atoi(shown)) {
        const Node *node = Node::current();
        std::fprintf(stderr, "[%s] %s\n", node ? node->name().c_str() : "-", line);
    }
}

void kapi_bug(const char *expression, const char *file, int line) noexcept
{
    broken("BUG: %s at %s:%d", expression, file, line);
}

void kapi_resched(void) noexcept
{
    enter_sleep("kapi_resched");
    World::current_task()->steps_since_pause = 0;
}

kapi_u64 kapi_user(void) noexcept
{
    enter_task("kapi_user");
    const Task &task = *World::current_task();
    kapi_u32 user = task.user;
    for (unsigned maker : task.makers)
        user = kapi_answers_for(user, maker);
    return user;
}

int kapi_in_program(void) noexcept
{
    enter_sleep("kapi_in_program");
    return World::current_task()->kind == TaskKind::process;
}

int kapi_module_get(struct kapi_module *module) noexcept
{
    enter_any("kapi_module_get");
    if (module->unloading)
        return 0;
    module->references++;
    return 1;
}

void kapi_module_put(struct kapi_module *module) noexcept
{
    if (!module->references)
        broken("module %s is put without a reference", module->name.c_str());
    module->references--;
}

void **kapi_module_slot(enum kapi_slot slot) noexcept
{
    static void *without_node[KAPI_SLOTS];
    Node *node = Node::current();
    return node ? &node->slots[slot] : &without_node[slot];
}

int kapi_net_is_local(struct kapi_net *net, const struct kapi_addr *addr) noexcept
{
    return net->holds(*addr);
}

kapi_u32 kapi_net_addr_generation(struct kapi_net *net) noexcept
{
    return net->addr_generation;
}

void kapi_net_port_range(struct kapi_net *net, kapi_u16 *low, kapi_u16 *high) noexcept
{
    *low = net->port_low;
    *high = net->port_high;
}

int kapi_net_port_is_reserved(struct kapi_net *net, kapi_u16 port) noexcept
{
    return port >= net->reserved_low && port <= net->reserved_high;
}

int kapi_net_is_initial(struct kapi_net *net) noexcept
{
    return net->initial;
}

void kapi_net_get(struct kapi_net *net) noexcept
{
    enter_any("kapi_net_get");
    if (!net->initial && !net->sockets)
        broken("a namespace is taken that nothing holds");
    net->sockets += !net->initial;
}

void kapi_net_put(struct kapi_net *net) noexcept
{
    enter_any("kapi_net_put");
    net->sockets -= !net->initial;
}

kapi_u32 kapi_net_owner(struct kapi_net *net) noexcept
{
    return net->owner;
}
