// SPDX-License-Identifier: GPL-2.0
// RDMA devices: their coming and going, those who watch it, protection domains.
#include <kapi/errno.h>

#include <algorithm>

#include "rdma.h"
#include "rdma_control.h"

using namespace sim;

bool kapi_rdma_dev::holds(const kapi_net *of, const kapi_addr &addr) const
{
    if (of != net && std::find(also.begin(), also.end(), of) == also.end())
        return false;
    return std::any_of(of->addresses.begin(), of->addresses.end(), [&](const kapi_net::Address &own) {
        return own.ifindex == ifindex && same_ip(own.addr, addr);
    });
}

void kapi_rdma_dev::made(const char *what)
{
    if (going && objects.empty())
        broken("a %s is made of %s, which is gone", what, attrs.name);
    objects[what]++;
}

void kapi_rdma_dev::gone(const char *what)
{
    auto found = objects.find(what);
    if (found == objects.end())
        broken("%s had no %s", attrs.name, what);
    if (--found->second == 0)
        objects.erase(found);
    world().wake(released);
}

namespace sim {

Fabric &fabric()
{
    auto &rdma = world().network().rdma;
    if (!rdma)
        rdma = std::make_shared<Fabric>();
    return *rdma;
}

kapi_qp *Fabric::qp(kapi_u32 qpn) const
{
    auto found = qps.find(qpn);
    return found == qps.end() ? nullptr : found->second;
}

kapi_cq *Fabric::cq(kapi_u64 id) const
{
    auto found = cqs.find(id);
    return found == cqs.end() ? nullptr : found->second;
}

kapi_cm *Fabric::cm(kapi_u64 id) const
{
    auto found = cms.find(id);
    return found == cms.end() ? nullptr : found->second;
}

void account(Node &node, const char *what, void *object, void (*destroy)(void *))
{
    node.live_rdma[what]++;
    node.adopt(object, destroy);
}

void settle(Node &node, const char *what, void *object)
{
    auto found = node.live_rdma.find(what);
    if (found == node.live_rdma.end())
        broken("a %s of %s ends that is none", what, node.name().c_str());
    if (--found->second == 0)
        node.live_rdma.erase(found);
    node.disown(object);
}

void hardware_after(Node &node, std::uint64_t delay_ns, std::function<void()> act)
{
    world().after(delay_ns, [&node, life = node.life(), act = std::move(act)] {
        if (life != node.life())
            return;
        if (node.is_paused())
            hardware_after(node, node.resumes_at_ns() - world().now_ns(), act);
        else
            act();
    });
}

std::uint64_t some_time(std::uint64_t usual_ns, std::uint64_t seldom_ns)
{
    Random &random = world().host_random();
    return random.below(random.one_in(16) ? seldom_ns : usual_ns);
}

namespace {

/** Devices come and go one after the other. */
class Watching {
public:
    explicit Watching(const Node &node) : lock_(fabric().watching[node.index()])
    {
        lock_.lock("another device's coming or going");
    }
    ~Watching() { lock_.unlock(); }
    Watching(const Watching &) = delete;
    Watching &operator=(const Watching &) = delete;

private:
    HostMutex &lock_;
};

void call_added(kapi_rdma_watcher &watch, kapi_rdma_dev &dev)
{
    if (std::find(watch.added.begin(), watch.added.end(), &dev) != watch.added.end())
        return;
    watch.added.push_back(&dev);
    watch.ops.added(watch.context, &dev, &dev.attrs);
}

void call_removed(kapi_rdma_watcher &watch, kapi_rdma_dev &dev)
{
    if (std::erase(watch.added, &dev))
        watch.ops.removed(watch.context, &dev);
}

/** A host does not know of mappings, and those that a device did not end stay. */
bool is_awaited(const kapi_rdma_dev &dev)
{
    return std::any_of(dev.objects.begin(), dev.objects.end(),
                       [&](const auto &object) { return !(dev.stuck || dev.keeps_regions) || object.first != "mapping"; });
}

} // namespace

kapi_rdma_dev &plug_rdma(kapi_net &net, const std::string &name, kapi_u32 ifindex,
                         const std::function<void(kapi_rdma_attrs &)> &change)
{
    Fabric &all = fabric();
    auto dev = std::make_unique<kapi_rdma_dev>(
        kapi_rdma_dev{.node = net.node, .net = &net, .ifindex = ifindex, .id = all.next_device++});
    kapi_rdma_attrs &attrs = dev->attrs;
    name.copy(attrs.name, sizeof(attrs.name) - 1);
    attrs.guid = 0x505400fffe000000ULL + dev->id;
    attrs.flags = KAPI_RDMA_ATOMICS | KAPI_RDMA_FENCE_HANGS; // as rxe of 6.1 and 6.12, which has larger limits, too
    attrs.max_wr = 1 << 15;
    attrs.max_sge = attrs.max_read_sge = 32;
    attrs.max_cqe = 32767;
    attrs.max_mr = 4096;
    attrs.max_mr_pages = 512;
    attrs.max_reads_in = attrs.max_reads_out = 128;
    attrs.max_inline = 512;
    attrs.vectors = 1;
    attrs.node = -1;
    if (change)
        change(attrs);
    kapi_rdma_dev &result = *dev;
    all.devices.push_back(std::move(dev));
    bool watched = std::any_of(all.watches.begin(), all.watches.end(),
                               [&](const kapi_rdma_watcher *watch) { return watch->node == net.node; });
    result.coming = watched;
    if (watched)
        world().spawn(*net.node, "device added", [&result] {
            Watching watching(*result.node);
            Fabric &now = fabric();
            for (std::size_t i = 0; i < now.watches.size() && !result.going; i++)
                if (now.watches[i]->node == result.node)
                    call_added(*now.watches[i], result);
            result.coming = false;
            world().wake(result.released);
        }, TaskKind::work);
    return result;
}

void unplug_rdma(kapi_rdma_dev &dev)
{
    enter_init("unplug_rdma");
    Fabric &all = fabric();
    world().note("device goes", dev.id);
    dev.going = true;
    // A surprise: all queue pairs fail at once. Else they go on until their owners end them.
    if (world().host_random().one_in(2))
        for (auto &[qpn, qp] : all.qps)
            if (qp->dev == &dev)
                fail_qp(*qp);
    while (dev.coming)
        world().wait(dev.released, "a device that has just come");
    {
        Watching watching(*dev.node);
        for (std::size_t i = all.watches.size(); i-- > 0;)
            if (all.watches[i]->node == dev.node)
                call_removed(*all.watches[i], dev);
    }
    cm_remove_device(dev);
    while (is_awaited(dev)) {
        dev.awaited = std::string("the removal of ") + dev.attrs.name + ":";
        for (const auto &[what, count] : dev.objects)
            dev.awaited += " " + std::to_string(count) + " " + what;
        world().wait(dev.released, dev.awaited.c_str());
    }
    world().note("device is gone", dev.id);
    if (!dev.objects.empty())
        return;
    std::erase_if(all.devices, [&](const auto &own) { return own.get() == &dev; });
}

void make_exclusive(kapi_rdma_dev &dev, const kapi_net *only)
{
    dev.only = only ? only : dev.net;
}

void share(kapi_rdma_dev &dev, const kapi_net &net)
{
    dev.also.push_back(&net);
}

void make_bounce(kapi_rdma_dev &dev, std::size_t room)
{
    if (!dev.mappings.empty())
        broken("a device changes with mappings in use");
    dev.bounces = true;
    dev.bounce_room = room;
}

void shift_bounces(kapi_rdma_dev &dev)
{
    dev.bounces_shift = true;
}

void make_stuck(kapi_rdma_dev &dev)
{
    dev.stuck = true;
}

void make_slow(kapi_rdma_dev &dev, std::uint64_t time_ns)
{
    dev.slow_ns = time_ns;
}

void keep_regions(kapi_rdma_dev &dev)
{
    dev.keeps_regions = true;
}

void hold_packets(kapi_rdma_dev &dev, std::uint64_t time_ns)
{
    dev.held_until_ns = world().now_ns() + time_ns;
}

void carry_from(const kapi_rdma_dev *dev, const Node &from, Node &to, std::uint64_t flow, std::size_t size,
                std::function<void()> act)
{
    std::uint64_t until_ns = dev ? dev->held_until_ns : 0;
    if (until_ns > world().now_ns())
        act = [until_ns, &to, act = std::move(act)] {
            std::uint64_t now = world().now_ns();
            until_ns > now ? hardware_after(to, until_ns - now, act) : act();
        };
    world().network().carry(from, to, flow, size, std::move(act));
}

void repeat_keys(kapi_rdma_dev &dev)
{
    dev.repeats_keys = true;
}

void hide_links(kapi_rdma_dev &dev)
{
    dev.hides_links = true;
}

void refuse_send(kapi_rdma_dev &dev, unsigned after)
{
    dev.refused = after + 1;
}

void fail_read(kapi_rdma_dev &dev, unsigned after)
{
    dev.failing = after + 1;
}

void count_not_ready(kapi_rdma_dev &dev)
{
    dev.counts_not_ready = true;
}

void fail_routes(kapi_rdma_dev &dev, int error)
{
    dev.route_error = error;
}

unsigned posted_late(const kapi_rdma_dev &dev)
{
    return dev.posted_late;
}

} // namespace sim

int kapi_rdma_watch(const struct kapi_rdma_watch_ops *ops, void *context, struct kapi_rdma_watcher **result) noexcept
{
    enter_init("kapi_rdma_watch");
    if (fault("kapi_rdma_watch"))
        return -KAPI_ENOMEM;
    Fabric &all = fabric();
    auto *watch = new kapi_rdma_watcher{Node::current(), *ops, context};
    account(*watch->node, "watch", watch, [](void *object) { delete static_cast<kapi_rdma_watcher *>(object); });
    *result = watch;
    Watching watching(*watch->node);
    all.watches.push_back(watch);
    for (std::size_t i = 0; i < all.devices.size(); i++)
        if (all.devices[i]->node == watch->node && !all.devices[i]->going)
            call_added(*watch, *all.devices[i]);
    return 0;
}

void kapi_rdma_unwatch(struct kapi_rdma_watcher *watch) noexcept
{
    enter_init("kapi_rdma_unwatch");
    {
        Watching watching(*watch->node);
        while (!watch->added.empty())
            call_removed(*watch, *watch->added.back());
        std::erase(fabric().watches, watch);
    }
    settle(*watch->node, "watch", watch);
    delete watch;
}

const struct kapi_rdma_attrs *kapi_rdma_dev_attrs(const struct kapi_rdma_dev *dev) noexcept
{
    enter_any("kapi_rdma_dev_attrs");
    return &dev->attrs;
}

int kapi_rdma_usable(const struct kapi_rdma_dev *dev, const struct kapi_net *net) noexcept
{
    enter_any("kapi_rdma_usable");
    return dev->is_usable(net);
}

int kapi_rdma_dev_of(struct kapi_net *net, const struct kapi_addr *addr, struct kapi_rdma_dev **result) noexcept
{
    enter_sleep("kapi_rdma_dev_of");
    if (net->going)
        return -KAPI_ENETUNREACH;
    if (fault("kapi_rdma_dev_of"))
        return -KAPI_ENOMEM;
    if (!net->holds(*addr))
        return -KAPI_EADDRNOTAVAIL;
    for (const auto &dev : fabric().devices) {
        if (!dev->holds(net, *addr) || dev->going)
            continue;
        *result = dev.get();
        return 0;
    }
    return -KAPI_ENODEV;
}

int kapi_pd_create(struct kapi_rdma_dev *dev, struct kapi_pd **result) noexcept
{
    enter_sleep("kapi_pd_create");
    if (dev->going)
        return -KAPI_ENODEV;
    if (fault("kapi_pd_create"))
        return -KAPI_ENOMEM;
    dev->made("protection domain");
    auto *pd = new kapi_pd{dev, static_cast<kapi_u32>(world().host_random().next()) | 1};
    account(*dev->node, "protection domain", pd, [](void *object) { delete static_cast<kapi_pd *>(object); });
    *result = pd;
    return 0;
}

void kapi_pd_free(struct kapi_pd *pd) noexcept
{
    if (!pd)
        return;
    enter_sleep("kapi_pd_free");
    if (pd->users)
        broken("a protection domain ends with %u regions and queue pairs", pd->users);
    pd->dev->gone("protection domain");
    settle(*pd->dev->node, "protection domain", pd);
    delete pd;
}
