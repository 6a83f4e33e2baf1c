// SPDX-License-Identifier: GPL-2.0
#include "node.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "network.h"
#include "sysfs.h"

using sim::same_ip;

bool kapi_net::holds(const kapi_addr &addr) const
{
    return std::any_of(addresses.begin(), addresses.end(), [&](const Address &own) {
        return same_ip(own.addr, addr) && (!addr.scope || addr.scope == own.ifindex);
    });
}

kapi_u32 kapi_net::ifindex_of(const kapi_addr &addr) const
{
    auto own = std::find_if(addresses.begin(), addresses.end(), [&](const Address &a) { return same_ip(a.addr, addr); });
    return own == addresses.end() ? 0 : own->ifindex;
}

void kapi_net::add(const kapi_addr &addr, kapi_u32 ifindex)
{
    kapi_addr own = addr;
    own.port = 0;
    own.scope = 0;
    addresses.push_back({own, ifindex});
    addr_generation++;
}

void kapi_net::remove(const kapi_addr &addr)
{
    std::erase_if(addresses, [&](const Address &own) { return same_ip(own.addr, addr); });
    addr_generation++;
}

namespace sim {

kapi_addr address(const char *text, kapi_u16 port, kapi_u32 scope)
{
    kapi_addr result{};
    if (std::strchr(text, ':')) {
        if (inet_pton(AF_INET6, text, result.ip) != 1)
            broken("no address: %s", text);
    } else {
        result.ip[10] = result.ip[11] = 0xff;
        if (inet_pton(AF_INET, text, result.ip + 12) != 1)
            broken("no address: %s", text);
    }
    result.port = port;
    result.scope = scope;
    return result;
}

bool same_ip(const kapi_addr &a, const kapi_addr &b)
{
    return std::memcmp(a.ip, b.ip, sizeof(a.ip)) == 0;
}

Node::Node(World &world, const std::string &name, unsigned index) : world_(world), name_(name), index_(index)
{
    make_net(true);
}

Node::~Node() = default;

Node *Node::current()
{
    return World::current_task()->node;
}

kapi_net &Node::make_net(bool initial)
{
    nets_.push_back(std::make_unique<kapi_net>(
        kapi_net{.node = this, .initial = initial, .id = world_.next_net(), .addresses = {}}));
    nets_.back()->add(address("127.0.0.1"), 1);
    nets_.back()->add(address("::1"), 1);
    return *nets_.back();
}

kapi_net &Node::add_net()
{
    return make_net(false);
}

void Node::remove_net(kapi_net &net)
{
    if (net.sockets)
        world_.fail("a namespace goes with %u sockets", net.sockets);
    world_.network().drop_net(net);
    std::erase_if(nets_, [&](const auto &own) { return own.get() == &net; });
}

kapi_module &Node::load_module(const std::string &name)
{
    modules_.push_back(std::make_unique<kapi_module>(kapi_module{.node = this, .name = name}));
    return *modules_.back();
}

bool Node::start_unload(kapi_module &module)
{
    if (module.references)
        return false;
    module.unloading = true;
    return true;
}

void Node::unload_done(kapi_module &module)
{
    if (module.references)
        world_.fail("module %s goes with %u references", module.name.c_str(), module.references);
    std::erase_if(modules_, [&](const auto &own) { return own.get() == &module; });
}

void Node::pause(std::uint64_t duration_ns, bool sleeps)
{
    if (is_paused())
        return;
    world_.note(sleeps ? "sleeps" : "stands still", index_, duration_ns);
    asleep_since_ns_ = sleeps ? now_ns() : 0;
    resumes_at_ns_ = world_.now_ns() + duration_ns;
    world_.at(resumes_at_ns_, [this, life = generation_] {
        if (life == generation_)
            resume();
    });
}

void Node::resume()
{
    world_.note("goes on", index_);
    if (asleep_since_ns_)
        clock_lag_ns_ = world_.now_ns() - asleep_since_ns_;
    resumes_at_ns_ = asleep_since_ns_ = 0;
    world_.continue_tasks(std::exchange(held_, {}));
}

std::uint64_t Node::now_ns() const
{
    return asleep_since_ns_ ? asleep_since_ns_ : world_.now_ns() - clock_lag_ns_;
}

std::uint64_t Node::world_time(std::uint64_t local_ns) const
{
    std::uint64_t from = asleep_since_ns_ ? resumes_at_ns_ : world_.now_ns();
    return local_ns > now_ns() ? from + (local_ns - now_ns()) : from;
}

void Node::crash()
{
    world_.note("crash", index_);
    generation_++;
    held_.clear();
    resumes_at_ns_ = asleep_since_ns_ = 0;
    for (auto &[work, pending] : pending_works)
        world_.cancel(pending.timer);
    pending_works.clear();
    running_works.clear();
    cancelled_works.clear();
    work_done.clear();
    held_locks.clear();
    dying_.clear();
    released_.clear();
    world_.forget_tasks(*this);
    world_.network().drop_node(*this);
    for (const auto &[object, destroy] : std::exchange(host_objects_, {}))
        destroy(object);
    modules_.clear();
    std::fill(std::begin(slots), std::end(slots), nullptr);
    reports = {};
    memory_.forget();
    for (auto &net : nets_)
        net->sockets = 0;
    live_streams = live_listeners = live_sockets = live_pages = live_queues = live_filters = 0;
    forget_sysfs(*this);
    live_rdma.clear();
    pinned_pages = 0;
    dax_files.clear();
    kept = kept_by_core = 0;
    descriptors.forget();
}

void Node::end()
{
    NodeScope scope(*this);
    if (!pending_works.empty() || !running_works.empty())
        world_.fail("%s: %zu works pending, %zu running at the end", name_.c_str(), pending_works.size(),
                    running_works.size());
    while (!dying_.empty())
        release_now(dying_.begin()->first);
    const struct {
        const char *what;
        std::size_t left;
    } counts[] = {{"streams", live_streams}, {"listeners", live_listeners}, {"sockets", live_sockets},
                  {"page lists", live_pages}, {"work queues", live_queues}, {"filters", live_filters},
                  {"descriptors", descriptors.size()}, {"bytes charged for streams", kept},
                  {"folders in /sys", sysfs_folders(*this)}};
    for (const auto &count : counts)
        if (count.left)
            world_.fail("%s leaks %zu %s", name_.c_str(), count.left, count.what);
    for (const auto &[what, left] : live_rdma)
        world_.fail("%s leaks %u RDMA objects: %s", name_.c_str(), left, what.c_str());
    memory_.expect_empty(name_.c_str());
}

void Node::free_rcu(kapi_rcu *head, void (*release)(kapi_rcu *))
{
    Dying dying{head, release, {}};
    for (const auto &task : world_.tasks())
        if (task->node == this && task->is_atomic() && !task->is_done())
            dying.readers.emplace_back(task, task->quiet_states);
    std::uint64_t key = next_dying_++;
    dying_.emplace(key, std::move(dying));
    std::uint64_t delay_ns = world_.host_random().one_in(4) ? world_.host_random().below(50 * kMillisecond)
                                                            : world_.host_random().below(100 * kMicrosecond);
    world_.after(delay_ns, [this, key, life = generation_] {
        if (life == generation_)
            try_release(key);
    });
}

void Node::try_release(std::uint64_t key)
{
    auto found = dying_.find(key);
    if (found == dying_.end())
        return;
    bool quiet = std::none_of(found->second.readers.begin(), found->second.readers.end(), [](const auto &reader) {
        auto task = reader.first.lock();
        return task && !task->is_done() && task->quiet_states == reader.second;
    });
    if (!quiet) {
        world_.after(20 * kMicrosecond, [this, key, life = generation_] {
            if (life == generation_)
                try_release(key);
        });
        return;
    }
    world_.spawn(*this, "grace period", [this, key] { release_now(key); }, TaskKind::softirq);
}

void Node::release_now(std::uint64_t key)
{
    auto found = dying_.find(key);
    if (found == dying_.end())
        return;
    Dying dying = std::move(found->second);
    {
        AtomicScope atomic;
        dying.release(dying.head);
    }
    dying_.erase(key);
    world_.wake(released_);
}

void Node::rcu_barrier()
{
    std::uint64_t before = next_dying_;
    while (!dying_.empty() && dying_.begin()->first < before)
        world_.wait(released_, "a grace period");
}

} // namespace sim
