// SPDX-License-Identifier: GPL-2.0
// RDS over RDMA at the edge of what happens: what a device refuses, what it does not say, and requests while a namespace ends.
#include <kapi/sim/threads.h>
#include <kapi/work.h>

#include <deque>

#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "net/rds/rdma/link.h"
#include "net/rds/rdma/net.h"
#include "rds_rdma_memory_test.h"
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaEdges : public RdmaMemoryTest {
protected:
    /** A message from one address of b to one of a, each with this scope. */
    bool arrives(const char *from, const char *to, kapi_u32 scope)
    {
        RdsSocket sender(host_b), receiver(host_a);
        run(a, [&] {
            ASSERT_EQ(receiver.open(), 0);
            ASSERT_EQ(receiver.bind(sim::address(to, kPort, scope)), 0);
        });
        run(b, [&] {
            ASSERT_EQ(sender.open(), 0);
            ASSERT_EQ(sender.bind(sim::address(from, kPort, scope)), 0);
            ASSERT_EQ(sender.send("hello", 5, sim::address(to, kPort, scope)), 5);
        });
        world.run_for(3 * sim::kSecond);
        bool arrived = false;
        run(a, [&] {
            char bytes[8];
            arrived = receiver.receive(bytes, sizeof(bytes), nullptr, RDS_ABI_MSG_DONTWAIT) == 5;
            receiver.close();
        });
        run(b, [&] { sender.close(); });
        return arrived;
    }
    /** A connection, and another program of b that asks for one. */
    void connect_and_ask()
    {
        open_both();
        run(b, [&] { pb.send("hello"); });
        run(a, [&] { EXPECT_EQ(pa.receive(), "hello"); });
        resolve(stranger);
        ask_as(stranger);
    }
    void resolve(Peer &one)
    {
        run(b, [&] {
            kapi_cm_route to{KAPI_CM_IP, sim::address("10.0.0.2"), sim::address("10.0.0.1", kCm), 5000, 0, 0};
            ASSERT_EQ(kapi_cm_connect(&b.initial_net(), &to, &Peer::ops, &one, &one.cm), 0);
        });
        ASSERT_TRUE(world.run_until([&] { return one.resolved; }, 10 * sim::kSecond));
    }
    void ask_as(Peer &one)
    {
        std::string data = says("10.0.0.2", "10.0.0.1", 3, 1);
        run(b, [&] {
            one.make_queues();
            kapi_cm_options with{};
            with.data = data.data();
            with.size = data.size();
            ASSERT_EQ(kapi_cm_request(one.cm, &with), 0);
        });
    }
    Peer stranger;
};

// It has no pages of programs in its queue.
TEST_P(RdsRdmaEdges, zerocopy_is_refused)
{
    open(pa);
    run(a, [&] {
        pa.socket.sk().zerocopy = true;
        EXPECT_EQ(send_with(pa, Cmsg(RDS_ABI_CMSG_ZCOPY_COOKIE, kapi_u32{7}), "x", RDS_ABI_MSG_ZEROCOPY), -KAPI_EOPNOTSUPP);
    });
    close(pa);
}

// A link-local address without its link is nobody's; others need none.
TEST_P(RdsRdmaEdges, a_request_to_a_link_local_address__is_rejected_without_its_link)
{
    sim::hide_links(*dev_a);
    struct Pair {
        const char *own, *peer;
        bool is_link_local;
    };
    for (auto [own, peer, is_link_local] : {Pair{"fe80::1", "fe80::2", true}, {"febf::1", "febf::2", true},
                                            {"2080::1", "2080::2", false}, {"fec0::1", "fec0::2", false}}) {
        a.initial_net().add(sim::address(own));
        b.initial_net().add(sim::address(peer));
        EXPECT_EQ(arrives(peer, own, is_link_local ? 2 : 0), !is_link_local) << own;
        open(pa);
        auto known = rows<rds_abi_info6_rdma_connection>(pa, RDS_ABI_INFO6_IB_CONNECTIONS);
        kapi_addr local = sim::address(own);
        EXPECT_EQ(std::any_of(known.begin(), known.end(),
                              [&](const auto &row) { return std::memcmp(row.src_addr, local.ip, sizeof(local.ip)) == 0; }),
                  !is_link_local) << own;
        close(pa);
    }
}

// A device is used if its queues have room for what a connection posts, and its requests for a header and a fragment.
TEST_P(RdsRdmaEdges, a_device_is_used__if_it_suffices)
{
    using Change = std::function<void(kapi_rdma_attrs &)>;
    const std::pair<bool, Change> kDevices[] = {
        {false, [](auto &attrs) { attrs.max_wr = 578; }},  {true, [](auto &attrs) { attrs.max_wr = 579; }},
        {false, [](auto &attrs) { attrs.max_sge = 5; }},   {true, [](auto &attrs) { attrs.max_sge = 6; }},
        {false, [](auto &attrs) { attrs.max_cqe = 580; }}, {true, [](auto &attrs) { attrs.max_cqe = 581; }},
    };
    kapi_u32 link = 3;
    for (const auto &[suffices, change] : kDevices) {
        std::string own = "10.1." + std::to_string(link) + ".1", theirs = "10.1." + std::to_string(link) + ".2";
        a.initial_net().add(sim::address(own.c_str()), link);
        b.initial_net().add(sim::address(theirs.c_str()), link);
        sim::plug_rdma(a.initial_net(), "edge", link, change);
        sim::plug_rdma(b.initial_net(), "edge", link, change);
        world.run_for(sim::kMillisecond);
        for (auto *settings : {rds_rdma_net_sysctl(host_a.net().rdma), rds_rdma_net_sysctl(host_b.net().rdma)})
            settings->max_send_wr = 0xffffffff;
        auto to_b = on_a(own.c_str(), theirs.c_str()), at_b = on_b(theirs.c_str(), own.c_str());
        run(a, [&] {
            ASSERT_EQ(to_b.socket.open(), 0);
            EXPECT_EQ(to_b.socket.bind(sim::address(own.c_str(), kPort)), suffices ? 0 : -KAPI_EADDRNOTAVAIL) << link;
        });
        if (suffices) {
            open(at_b);
            at_b.socket.sk().rcvbuf = to_b.socket.sk().sndbuf = 8 << 20;
            run(a, [&] { to_b.send(contents(1 << 20, 1)); });
            run(b, [&] { EXPECT_TRUE(at_b.receive() == contents(1 << 20, 1)); });
            close(at_b);
        }
        close(to_b);
        link++;
    }
    EXPECT_EQ(std::ranges::count(a.log, "rds_rdma: device edge is not used, for its queues are too small"), 3);
    a.initial_net().add(sim::address("10.2.0.1"), link);
    a.faults().fail_at = a.faults().count + 1;
    sim::plug_rdma(a.initial_net(), "poor", link);
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(std::ranges::count(a.log, "rds_rdma: no memory for device poor, which is not used"), 1);
    auto over_poor = on_a("10.2.0.1", "10.2.0.2");
    run(a, [&] {
        ASSERT_EQ(over_poor.socket.open(), 0);
        EXPECT_EQ(over_poor.socket.bind(sim::address("10.2.0.1", kPort)), -KAPI_EADDRNOTAVAIL);
    });
    close(over_poor);
}

// Either host may be the one that has few, and the one that accepts: more than the peer has is refused by the simulated host.
TEST_P(RdsRdmaEdges, reads_at_a_time__are_not_more_than_the_peer_has)
{
    using Change = std::function<void(kapi_rdma_attrs &)>;
    const Change kFew[] = {[](auto &attrs) { attrs.max_reads_in = 3; }, [](auto &attrs) { attrs.max_reads_out = 3; }};
    kapi_u32 link = 3;
    for (const Change &few : kFew)
        for (bool a_has_few : {true, false}) {
            std::string own = "10.1." + std::to_string(link) + ".1", theirs = "10.1." + std::to_string(link) + ".2";
            a.initial_net().add(sim::address(own.c_str()), link);
            b.initial_net().add(sim::address(theirs.c_str()), link);
            sim::plug_rdma(a.initial_net(), "few", link, a_has_few ? few : Change());
            sim::plug_rdma(b.initial_net(), "few", link, a_has_few ? Change() : few);
            world.run_for(sim::kMillisecond);
            auto at_a = on_a(own.c_str(), theirs.c_str()), at_b = on_b(theirs.c_str(), own.c_str());
            open(at_a);
            open(at_b);
            run(b, [&] { at_b.send("hello"); });
            run(a, [&] { EXPECT_EQ(at_a.receive(), "hello"); });
            run(a, [&] { at_a.send("again"); });
            run(b, [&] { EXPECT_EQ(at_b.receive(), "again"); });
            close(at_a);
            close(at_b);
            link++;
        }
}

// Any program of the peer's host may ask, while the peer itself answers.
TEST_P(RdsRdmaEdges, a_request_that_nobody_accepts__is_kept_for_ten_seconds)
{
    connect_and_ask();
    std::uint64_t began_ns = world.now_ns();
    world.run_until([&] { return stranger.end.has_value(); }, 60 * sim::kSecond);
    ASSERT_TRUE(stranger.end);
    EXPECT_EQ(stranger.end->why, KAPI_CM_REJECTED);
    EXPECT_GE(world.now_ns() - began_ns, 10 * sim::kSecond);
    EXPECT_LE(world.now_ns() - began_ns, 12 * sim::kSecond);
    run(b, [&] { pb.send("again"); });
    run(a, [&] { EXPECT_EQ(pa.receive(), "again"); });
    run(b, [&] { stranger.drop(); });
    close_both();
}

// What it holds is free as soon as it is withdrawn.
TEST_P(RdsRdmaEdges, a_request_that_is_withdrawn__ends_at_once)
{
    connect_and_ask();
    world.run_for(100 * sim::kMillisecond);
    unsigned waiting = a.live_rdma["connection"];
    run(b, [&] { stranger.drop(); });
    // What withdraws it may be lost, and is sent again.
    EXPECT_TRUE(world.run_until([&] { return a.live_rdma["connection"] < waiting; }, 200 * sim::kMillisecond));
    run(b, [&] { pb.send("again"); });
    run(a, [&] { EXPECT_EQ(pa.receive(), "again"); });
    close_both();
}

// The pieces of an operation lie in so many pages at most, and what is refused is not kept.
TEST_P(RdsRdmaEdges, an_operation_has_the_pages_that_fit_into_a_queue)
{
    open_both();
    Bytes remote(1024 * 2, 0xee), memory(4 * 4096);
    kapi_u64 page = (place_of(memory.data()) + 4095) & ~4095ULL, cookie = region_on_b(remote.data(), remote.size());
    auto with_crossing = [&](unsigned crossing) {
        std::vector<rds_abi_iovec> vectors(crossing, {page + 4095, 2});
        vectors.resize(1024, {page, 2});
        long result = 0;
        run(a, [&] { result = operate(pa, {cookie, 0, vectors}); });
        return result;
    };
    EXPECT_EQ(with_crossing(257), -KAPI_EMSGSIZE);
    EXPECT_EQ(a.pinned_pages, 0u);
    EXPECT_EQ(with_crossing(256), 4);
    expect_message(pb, "done");
    expect_success(pa);
    EXPECT_FALSE(remote == Bytes(remote.size(), 0xee));
    close_both();
}

// Its connection breaks while one registration is posted and others wait for it: they go on with the next connection.
TEST_P(RdsRdmaEdges, registrations_that_wait__outlive_their_connection)
{
    open_both();
    Bytes memory(16 * 4096);
    for (unsigned round = 0; round < 4; round++) {
        cut(true);
        run(b, [&] { pb.send("breaks the connection"); });
        world.run_for(round * 300 * sim::kMillisecond);
        std::vector<sim::TaskRef> tasks;
        for (unsigned i = 0; i < 6; i++)
            tasks.push_back(spawn(pb, [&, i] {
                kapi_u64 cookie = 0;
                int got = get_mr(pb, memory.data() + 4096 * i, 4096, cookie);
                EXPECT_TRUE(got == 0 || got == -KAPI_EAGAIN || got == -KAPI_ETIMEDOUT) << got;
                if (got == 0) {
                    EXPECT_EQ(free_mr(pb, cookie), 0);
                }
            }));
        world.run_for(2 * sim::kSecond);
        cut(false);
        EXPECT_TRUE(wait(tasks, 30 * sim::kSecond));
        expect_message(pa, "breaks the connection");
    }
    close_both();
}

// The map of congested ports has two fragments: a port of the one is not taken for that of the other.
TEST_P(RdsRdmaEdges, a_port_of_either_half_of_the_map__is_seen_congested)
{
    open_both();
    for (auto [full, free] : {std::pair<kapi_u16, kapi_u16>{40'000, 40'000 - 32'768}, {7232, 7232 + 32'768}}) {
        auto slow = on_b();
        open(slow, full);
        slow.socket.sk().rcvbuf = 4096;
        std::string bytes = contents(1000, 1);
        auto sent = [&](kapi_u16 port) {
            long result = 0;
            run(a, [&] {
                result = pa.socket.send(bytes.data(), bytes.size(), sim::address("10.0.0.2", port), RDS_ABI_MSG_DONTWAIT);
            });
            world.run_for(20 * sim::kMillisecond);
            return result;
        };
        unsigned count = 0;
        while (count < 50 && sent(full) == 1000)
            count++;
        EXPECT_EQ(sent(full), -KAPI_ENOBUFS) << full;
        EXPECT_EQ(sent(free), 1000) << free;
        run(b, [&] {
            for (; count; count--)
                EXPECT_TRUE(slow.receive() == bytes);
        });
        world.run_for(100 * sim::kMillisecond);
        EXPECT_EQ(sent(full), 1000) << full;
        close(slow);
    }
    close_both();
}

// Requests of one family come at every moment of the module's end, which takes a while for a connection of the other.
TEST_P(RdsRdmaEdges, the_module_goes__while_peers_ask)
{
    a.initial_net().add(sim::address("2001:db8::1"));
    b.initial_net().add(sim::address("2001:db8::2"));
    auto pb6 = on_b("2001:db8::2", "2001:db8::1");
    open(pb);
    open(pb6);
    for (unsigned i = 0; i < 24; i++) {
        Program &has = i % 2 ? pb : pb6, &asks = i % 2 ? pb6 : pb;
        run(b, [&] { has.send("x"); });
        world.run_for(3 * sim::kSecond);
        auto sends = spawn(asks, [&] { asks.send("x"); });
        world.run_for((static_cast<unsigned>(GetParam()) * 5 + i / 2 * 40) * sim::kMicrosecond);
        run(a, [&] {
            EXPECT_TRUE(host_a.unload_soon());
            ASSERT_EQ(host_a.load_rds(), 0);
            ASSERT_EQ(host_a.load_rdma(), 0);
        });
        EXPECT_TRUE(wait({sends}));
        world.run_for(3 * sim::kSecond);
    }
    close(pb6);
    close(pb);
}

/** A work that occupies a thread. */
void sleep_in_work(kapi_work *)
{
    sim::World::current()->sleep(sim::kSecond);
}

// The work that is to place a request has not come yet when the module goes.
TEST_P(RdsRdmaEdges, the_module_goes__while_a_request_waits_for_a_work)
{
    open(pb);
    kapi_work slow;
    run(a, [&] {
        kapi_workqueue *queue = rds_rdma::Module::get().workqueue;
        sim::leave_one_thread(*queue);
        kapi_work_init(&slow, sleep_in_work);
        kapi_work_queue(queue, &slow, 0);
    });
    run(b, [&] { pb.send("x"); });
    world.run_for(500 * sim::kMillisecond);
    EXPECT_TRUE(a.live_rdma.contains("connection")) << "the request";
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
    EXPECT_FALSE(a.live_rdma.contains("connection"));
    close(pb);
}

// A host that asks for any number of connections makes the other one hold few.
TEST_P(RdsRdmaEdges, requests_that_wait_for_a_work__have_a_limit)
{
    constexpr unsigned kLimit = 64, kMore = 3;
    open(pb);
    std::deque<Peer> strangers(kLimit + kMore);
    for (Peer &one : strangers)
        resolve(one);
    kapi_work slow;
    run(a, [&] {
        kapi_workqueue *queue = rds_rdma::Module::get().workqueue;
        sim::leave_one_thread(*queue);
        kapi_work_init(&slow, sleep_in_work);
        kapi_work_queue(queue, &slow, 0);
    });
    for (Peer &one : strangers)
        ask_as(one);
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(std::count_if(strangers.begin(), strangers.end(), [](const Peer &one) { return one.end.has_value(); }), kMore);
    run(b, [&] {
        for (Peer &one : strangers)
            one.drop();
    });
    close(pb);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaEdges, ::testing::Range(1, 9));

/** The other end is verbs alone. */
class RdsRdmaRefusals : public RdsRdmaPeer {};

// Without a reset the peer would wait for it for ever.
TEST_P(RdsRdmaRefusals, an_acknowledgement_that_the_device_refuses__ends_the_connection)
{
    connect();
    world.run_for(sim::kSecond);
    sim::refuse_send(*dev_a, 0);
    post(sealed(data_header(5), "hello"));
    EXPECT_EQ(received(), "hello");
    EXPECT_TRUE(wait_for([&] { return peer.end.has_value(); }));
    EXPECT_EQ(counter(program, "ib_ack_send_failure"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaRefusals, ::testing::Range(1, 7));

} // namespace
