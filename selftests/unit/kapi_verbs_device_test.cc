// SPDX-License-Identifier: GPL-2.0
// The simulated RDMA devices: plugged in, watched, removed at any moment; limits; every call that can fail is made to.
#include "kapi_verbs_test.h"

#include <algorithm>
#include <map>

namespace {

/** The calls of a watch, and a protection domain a device, as core has them. */
struct Watcher {
    kapi_rdma_watcher *watch = nullptr;
    std::map<kapi_rdma_dev *, kapi_pd *> domains;
    std::vector<std::string> heard;
    std::function<void(kapi_rdma_dev *)> before_removed{};

    static void added(void *context, kapi_rdma_dev *dev, const kapi_rdma_attrs *attrs)
    {
        auto &self = *static_cast<Watcher *>(context);
        self.heard.push_back(std::string("+") + attrs->name);
        kapi_pd *pd = nullptr;
        EXPECT_EQ(kapi_pd_create(dev, &pd), 0);
        self.domains[dev] = pd;
    }
    static void removed(void *context, kapi_rdma_dev *dev)
    {
        auto &self = *static_cast<Watcher *>(context);
        self.heard.push_back(std::string("-") + kapi_rdma_dev_attrs(dev)->name);
        if (self.before_removed)
            self.before_removed(dev);
        kapi_pd_free(self.domains[dev]);
        self.domains.erase(dev);
    }
    static constexpr kapi_rdma_watch_ops ops{added, removed};

    void start() { ASSERT_EQ(kapi_rdma_watch(&ops, this, &watch), 0); }
    void stop() { kapi_rdma_unwatch(std::exchange(watch, nullptr)); }
};

class VerbsDevice : public VerbsTest {
protected:
    sim::TaskRef unplug(kapi_rdma_dev *dev)
    {
        return world.spawn(*(dev == dev_a ? &a : &b), "unplug", [dev] { sim::unplug_rdma(*dev); }, sim::TaskKind::work);
    }
};

TEST_P(VerbsDevice, watch__hears_of_devices_that_are_there_and_that_come_and_go)
{
    Watcher watcher;
    dev_a = &sim::plug_rdma(a.initial_net(), "first");
    run(a, [&] { watcher.start(); });
    EXPECT_EQ(watcher.heard, std::vector<std::string>{"+first"});
    kapi_rdma_dev &second = sim::plug_rdma(a.initial_net(), "second", 3);
    ASSERT_TRUE(wait([&] { return watcher.heard.size() == 2; }));
    auto removal = unplug(dev_a);
    ASSERT_TRUE(wait([&] { return removal->is_done(); }));
    EXPECT_EQ(watcher.heard, (std::vector<std::string>{"+first", "+second", "-first"}));
    run(a, [&] { watcher.stop(); });
    EXPECT_EQ(watcher.heard.back(), "-second");
    sim::plug_rdma(a.initial_net(), "third", 4);
    world.run_for(sim::kSecond);
    EXPECT_EQ(watcher.heard.size(), 4u);
    static_cast<void>(second);
}

TEST_P(VerbsDevice, last_watch__is_called_first)
{
    Watcher one, two;
    std::vector<int> order;
    dev_a = &sim::plug_rdma(a.initial_net(), "rxe");
    run(a, [&] {
        one.start();
        two.start();
    });
    one.before_removed = [&](kapi_rdma_dev *) { order.push_back(1); };
    two.before_removed = [&](kapi_rdma_dev *) { order.push_back(2); };
    auto removal = unplug(dev_a);
    ASSERT_TRUE(wait([&] { return removal->is_done(); }));
    EXPECT_EQ(order, (std::vector<int>{2, 1}));
    run(a, [&] {
        two.stop();
        one.stop();
    });
}

TEST_P(VerbsDevice, address__belongs_to_a_device)
{
    plug();
    run(a, [&] {
        kapi_rdma_dev *dev = nullptr;
        kapi_addr own = sim::address("10.0.0.1"), loop = sim::address("127.0.0.1"), other = sim::address("10.0.0.2");
        ASSERT_EQ(kapi_rdma_dev_of(&a.initial_net(), &own, &dev), 0);
        EXPECT_EQ(dev, dev_a);
        EXPECT_EQ(kapi_rdma_dev_of(&a.initial_net(), &loop, &dev), -KAPI_ENODEV);
        EXPECT_EQ(kapi_rdma_dev_of(&a.initial_net(), &other, &dev), -KAPI_EADDRNOTAVAIL);
    });
}

TEST_P(VerbsDevice, exclusive_device__is_its_namespaces_own)
{
    plug();
    kapi_net &other = a.add_net();
    run(a, [&] {
        EXPECT_TRUE(kapi_rdma_usable(dev_a, &other));
        sim::make_exclusive(*dev_a);
        EXPECT_FALSE(kapi_rdma_usable(dev_a, &other));
        EXPECT_TRUE(kapi_rdma_usable(dev_a, &a.initial_net()));
    });
    a.remove_net(other);
}

TEST_P(VerbsDevice, namespace_that_is_going__is_held_by_nothing_new)
{
    plug();
    kapi_net &other = a.add_net();
    sim::share(*dev_a, other);
    other.add(sim::address("10.0.1.1"));
    other.going = true;
    run(a, [&] {
        kapi_cm_route route{KAPI_CM_IP, sim::address("10.0.1.1"), sim::address("10.0.0.2", 100), 1000, 0, 0};
        kapi_cm_ops ops{};
        kapi_cm_listener_ops listener_ops{};
        kapi_cm *cm = nullptr;
        kapi_cm_listener *listener = nullptr;
        kapi_rdma_dev *dev = nullptr;
        kapi_addr any = sim::address("::", 100);
        EXPECT_EQ(kapi_cm_connect(&other, &route, &ops, nullptr, &cm), -KAPI_ENETUNREACH);
        EXPECT_EQ(kapi_cm_listen(&other, KAPI_CM_IP, &any, 1, &listener_ops, nullptr, &listener), -KAPI_ENETUNREACH);
        EXPECT_EQ(kapi_rdma_dev_of(&other, &route.local, &dev), -KAPI_ENETUNREACH);
    });
    a.remove_net(other);
}

TEST_P(VerbsDevice, removal__waits_for_every_object)
{
    connect();
    auto removal = unplug(dev_b);
    ASSERT_TRUE(wait([&] { return server.end.has_value(); }));
    EXPECT_EQ(server.end->why, KAPI_CM_DEVICE_REMOVED);
    world.run_for(10 * sim::kSecond);
    EXPECT_FALSE(removal->is_done());
    run(b, [&] { server.drop_queues(); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(removal->is_done());
    run(b, [&] { server.drop(); });
    EXPECT_TRUE(wait([&] { return removal->is_done(); }));
    run(a, [&] { EXPECT_EQ(client.send("anybody there?"), 0); });
    retry = 7;
    EXPECT_TRUE(wait([&] { return client.sent.size() == 1 && client.sent[0].status != KAPI_WC_OK; }, 100 * sim::kSecond));
    run(a, [&] { client.drop(); });
    close_listener();
}

TEST_P(VerbsDevice, nothing_more__is_made_of_a_device_that_goes)
{
    Watcher watcher;
    dev_a = &sim::plug_rdma(a.initial_net(), "rxe");
    run(a, [&] { watcher.start(); });
    int pd_error = 0, cq_error = 0;
    watcher.before_removed = [&](kapi_rdma_dev *dev) {
        kapi_pd *pd = nullptr;
        kapi_cq *cq = nullptr;
        pd_error = kapi_pd_create(dev, &pd);
        cq_error = kapi_cq_create(dev, 8, 0, KAPI_CQ_DIRECT, Peer::sent_some, nullptr, &cq);
    };
    auto removal = unplug(dev_a);
    ASSERT_TRUE(wait([&] { return removal->is_done(); }));
    EXPECT_EQ(pd_error, -KAPI_ENODEV);
    EXPECT_EQ(cq_error, -KAPI_ENODEV);
    run(a, [&] { watcher.stop(); });
}

TEST_P(VerbsDevice, removal__at_any_moment_of_a_connection)
{
    plug();
    listen();
    // Core of either side: what it hears of decides what it does, at the times the seed picks.
    auto act_a = world.spawn(a, "client", [&] {
        kapi_cm_route to = route();
        if (kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm))
            return;
        while (!client.resolved && !client.end)
            world.sleep(100 * sim::kMicrosecond);
        if (!client.end) {
            client.make_queues(true);
            kapi_cm_options asks = options("");
            if (client.qp)
                kapi_cm_request(client.cm, &asks);
        }
        while (!client.end)
            world.sleep(100 * sim::kMicrosecond);
        client.drop();
    });
    auto act_b = world.spawn(b, "server", [&] {
        while (!server.cm && !act_a->is_done())
            world.sleep(100 * sim::kMicrosecond);
        if (!server.cm)
            return;
        kapi_cm_info info;
        kapi_cm_describe(server.cm, &info);
        server.dev = info.dev;
        if (!server.end) {
            server.make_queues(true);
            kapi_cm_options accepts = options("");
            if (server.qp)
                kapi_cm_accept(server.cm, &accepts);
        }
        while (!server.end && !act_a->is_done())
            world.sleep(100 * sim::kMicrosecond);
        server.drop();
    });
    world.run_for(world.random().below(4 * sim::kMillisecond));
    auto removal = unplug(dev_a);
    EXPECT_TRUE(wait([&] { return removal->is_done() && act_a->is_done() && act_b->is_done(); }, 100 * sim::kSecond));
    close_listener();
    world.run_for(100 * sim::kSecond);
}

TEST_P(VerbsDevice, forgotten_object__is_named)
{
    plug();
    kapi_pd *pd = nullptr;
    run(a, [&] { ASSERT_EQ(kapi_pd_create(dev_a, &pd), 0); });
    EXPECT_DEATH(
        {
            unplug(dev_a);
            world.run_for(200 * sim::kSecond);
        },
        "unplug hangs: waits for the removal of rxe_a: 1 protection domain");
    run(a, [&] { kapi_pd_free(pd); });
}

TEST_P(VerbsDevice, limits__are_kept)
{
    dev_a = &sim::plug_rdma(a.initial_net(), "small", 2, [](kapi_rdma_attrs &attrs) {
        attrs.max_wr = 8;
        attrs.max_cqe = 16;
        attrs.max_mr = 2;
    });
    dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
    resolve();
    run(a, [&] {
        kapi_pd *pd = nullptr;
        kapi_cq *cq = nullptr;
        kapi_qp *qp = nullptr;
        kapi_mr *mrs[3] = {};
        ASSERT_EQ(kapi_pd_create(dev_a, &pd), 0);
        EXPECT_EQ(kapi_cq_create(dev_a, 17, 0, KAPI_CQ_SOFTIRQ, Peer::sent_some, &client, &cq), -KAPI_EINVAL);
        ASSERT_EQ(kapi_cq_create(dev_a, 16, 0, KAPI_CQ_SOFTIRQ, Peer::sent_some, &client, &cq), 0);
        kapi_qp_caps caps{9, 6, 1, 1, 0};
        EXPECT_EQ(kapi_qp_create(client.cm, pd, &caps, cq, cq, &client, &qp), -KAPI_EINVAL);
        caps.max_send = 8;
        ASSERT_EQ(kapi_qp_create(client.cm, pd, &caps, cq, cq, &client, &qp), 0);
        EXPECT_EQ(kapi_mr_alloc(pd, 1, 0, &mrs[0]), 0);
        EXPECT_EQ(kapi_mr_alloc(pd, 1, 0, &mrs[1]), 0);
        EXPECT_EQ(kapi_mr_alloc(pd, 1, 0, &mrs[2]), -KAPI_ENOMEM);
        for (kapi_mr *mr : mrs)
            kapi_mr_free(mr);
        kapi_qp_free(qp);
        kapi_cm_destroy(std::exchange(client.cm, nullptr));
        kapi_cq_free(cq);
        kapi_pd_free(pd);
    });
}

/** What may be outstanding, and two for the drain, have places in it. */
TEST_P(VerbsDevice, completion_queue__that_is_too_small_is_reported)
{
    plug();
    resolve();
    run(a, [&] {
        kapi_pd *pd = nullptr;
        kapi_cq *whole = nullptr, *half = nullptr;
        kapi_qp *qp = nullptr;
        ASSERT_EQ(kapi_pd_create(dev_a, &pd), 0);
        ASSERT_EQ(kapi_cq_create(dev_a, 11, 0, KAPI_CQ_SOFTIRQ, Peer::sent_some, &client, &whole), 0);
        ASSERT_EQ(kapi_cq_create(dev_a, 6, 0, KAPI_CQ_SOFTIRQ, Peer::sent_some, &client, &half), 0);
        auto make = [&](kapi_u32 sends, kapi_u32 receives, kapi_cq *send, kapi_cq *recv) {
            kapi_qp_caps caps{sends, receives, 1, 1, 0};
            EXPECT_EQ(kapi_qp_create(client.cm, pd, &caps, send, recv, &client, &qp), 0);
        };
        EXPECT_DEATH(make(5, 5, whole, whole), "a completion queue of 11 is too small: its queue pairs need 12");
        EXPECT_DEATH(make(5, 9, half, whole), "a completion queue of 6 is too small: its queue pairs need 7");
        EXPECT_DEATH(make(9, 5, whole, half), "a completion queue of 6 is too small: its queue pairs need 7");
        for (unsigned i = 0; i < 2; i++) { // what one had, the next one may have
            i ? make(9, 4, whole, half) : make(5, 4, whole, whole);
            kapi_qp_free(std::exchange(qp, nullptr));
        }
        kapi_cm_destroy(std::exchange(client.cm, nullptr));
        kapi_cq_free(whole);
        kapi_cq_free(half);
        kapi_pd_free(pd);
    });
}

void free_bytes(unsigned char *bytes)
{
    kapi_free(bytes);
}

/** All that one end of a connection consists of; destroyed in reverse. */
struct Parts {
    hw::ProtectionDomain pd;
    hw::Own<unsigned char, free_bytes> memory;
    hw::Mapping mapping;
    hw::Region region;
    hw::CompletionQueue cq;
    hw::CmEnd cm;
    hw::QueuePair qp;

    hw::Result<> make(kapi_net &net, const kapi_cm_route &to, const kapi_cm_options &asks, Peer &heard)
    {
        kapi_cm *new_cm = nullptr;
        TRY(hw::check(kapi_cm_connect(&net, &to, &Peer::ops, &heard, &new_cm)));
        cm = hw::CmEnd(new_cm);
        while (!heard.resolved)
            sim::world().sleep(sim::kMillisecond);
        kapi_pd *new_pd = nullptr;
        TRY(hw::check(kapi_pd_create(heard.dev, &new_pd)));
        pd = hw::ProtectionDomain(new_pd);
        kapi_cq *new_cq = nullptr;
        TRY(hw::check(kapi_cq_create(heard.dev, 32, 0, KAPI_CQ_SOFTIRQ, Peer::sent_some, &heard, &new_cq)));
        cq = hw::CompletionQueue(new_cq);
        kapi_qp_caps caps{8, 8, 1, 1, 0};
        kapi_qp *new_qp = nullptr;
        TRY(hw::check(kapi_qp_create(new_cm, new_pd, &caps, new_cq, new_cq, &heard, &new_qp)));
        qp = hw::QueuePair(new_qp);
        memory.reset(static_cast<unsigned char *>(kapi_alloc_contiguous(4096)));
        if (!memory)
            return hw::fail(KAPI_ENOMEM);
        kapi_segment segment{memory.get(), nullptr, 0, 4096};
        TRY(mapping.begin([&](kapi_map *map) {
            return kapi_map_segments(map, heard.dev, &segment, 1, KAPI_MAP_BOTH, KAPI_ATOMIC);
        }));
        kapi_mr *new_mr = nullptr;
        TRY(hw::check(kapi_mr_alloc(new_pd, 1, 0, &new_mr)));
        region = hw::Region(new_mr);
        TRY(hw::check(kapi_mr_map(new_mr, mapping.c())));
        return hw::check(kapi_cm_request(new_cm, &asks));
    }
};

TEST_P(VerbsDevice, every_call_that_may_fail__fails_and_nothing_is_left)
{
    plug();
    unsigned failures = 0;
    for (std::uint64_t nth = 1;; nth++) {
        a.faults().count = 0;
        a.faults().fail_at = nth;
        Peer heard;
        bool made = false;
        run(a, [&] {
            Parts parts;
            made = parts.make(a.initial_net(), route(), options(""), heard).has_value();
        });
        ASSERT_TRUE(a.live_rdma.empty() && a.memory().blocks() == 0);
        if (made)
            break; // there is no such call any more
        failures++;
    }
    EXPECT_EQ(failures, a.faults().failed);
    EXPECT_GE(failures, 8u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsDevice, ::testing::Range(1, 9));

} // namespace
