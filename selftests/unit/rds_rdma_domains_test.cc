// SPDX-License-Identifier: GPL-2.0
// RDS over RDMA in two namespaces of a machine with one device: keys and connections are of one of them.
#include "rds_rdma_memory_test.h"

#include <kapi/sim/wake.h>

#include <memory>

namespace {

constexpr const char *kInside = "10.0.1.1";

// Two namespaces with one device, in shared mode.
class RdsRdmaDomains : public RdmaMemoryTest {
protected:
    RdsRdmaDomains() : inside(&a.add_net())
    {
        inside->add(sim::address(kInside));
        sim::share(*dev_a, *inside);
    }
    ~RdsRdmaDomains() override
    {
        if (host_a.is_loaded())
            run(a, [&] { EXPECT_TRUE(host_a.delete_nets({inside})); }, 30 * sim::kSecond);
    }

    void SetUp() override
    {
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] {
                ASSERT_EQ(host->load(), 0); // namespaces end with rds_tcp
                ASSERT_EQ(host->load_rdma(), 0);
            });
    }

    kapi_net *inside;
};

TEST_P(RdsRdmaDomains, keep_keys_to_their_namespace)
{
    auto pi = on_a(kInside), to_inside = on_b("10.0.0.2", kInside);
    run(a, [&] {
        ASSERT_EQ(pi.socket.open(*inside), 0);
        ASSERT_EQ(pi.socket.bind(sim::address(kInside, kPort)), 0);
    });
    open_both();
    open(to_inside, kPort + 1);
    run(b, [&] { to_inside.send("hello"); });
    run(a, [&] {
        EXPECT_EQ(pi.receive(), "hello");
        pi.send("hello");
    });
    expect_message(pb, "hello");
    Bytes memory = pattern(5000, 1), written = pattern(5000, 2), stolen = pattern(5000, 3);
    kapi_u64 cookie = 0;
    run(a, [&] { ASSERT_EQ(get_mr(pi, memory.data(), memory.size(), cookie), 0); });
    run(b, [&] { EXPECT_EQ(operate(to_inside, {cookie, 0, {{place_of(written.data()), written.size()}}}), 4); });
    expect_success(to_inside);
    expect_message(pi, "done");
    EXPECT_TRUE(memory == written);
    run(b, [&] { EXPECT_EQ(operate(pb, {cookie, 0, {{place_of(stolen.data()), stolen.size()}}}), 4); });
    expect_refusal(pb);
    EXPECT_TRUE(memory == written);
    close(pi);
    close(to_inside);
    close_both();
}

// A call that does not wait for a connection wants one for some seconds, which nobody else does when its socket is closed.
TEST_P(RdsRdmaDomains, do_not_connect__for_a_socket_that_is_closed)
{
    auto pi = on_a(kInside);
    run(a, [&] {
        ASSERT_EQ(pi.socket.open(*inside), 0);
        ASSERT_EQ(pi.socket.bind(sim::address(kInside, kPort)), 0);
    });
    Bytes memory = pattern(5000, 1);
    kapi_u64 cookie = 0;
    run(a, [&] {
        Cmsg map(RDS_ABI_CMSG_RDMA_MAP, rds_abi_get_mr_args{{place_of(memory.data()), memory.size()}, place_of(&cookie), 0});
        EXPECT_EQ(send_with(pi, map, "use it", RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        pi.socket.close();
    });
    world.run_for(3 * sim::kSecond);
    open(pb);
    EXPECT_EQ(rows<rds_abi_info_rdma_connection>(pb, RDS_ABI_INFO_IB_CONNECTIONS).size(), 0u);
    close(pb);
}

// Any user can have threads that bind and close sockets there; a queue is woken with interrupts off.
TEST_P(RdsRdmaDomains, threads_that_wait_to_bind__are_woken_one_by_one)
{
    constexpr unsigned threads = 200;
    std::vector<std::unique_ptr<RdsSocket>> sockets;
    std::vector<sim::TaskRef> tasks;
    unsigned bound = 0;
    for (unsigned i = 0; i < threads; i++)
        sockets.push_back(std::make_unique<RdsSocket>(host_a));
    auto all = [&](auto &&action) {
        for (unsigned i = 0; i < threads; i++)
            tasks.push_back(world.spawn(a, "thread", [&, action, i] { action(*sockets[i], i); }));
        EXPECT_TRUE(wait(std::exchange(tasks, {}), 4 * sim::kSecond));
    };
    sim::most_woken_at_once();
    all([&](RdsSocket &socket, unsigned i) {
        bound += socket.open(*inside) == 0 && socket.bind(sim::address(kInside, static_cast<kapi_u16>(kPort + i))) == 0;
    });
    EXPECT_EQ(bound, threads);
    all([](RdsSocket &socket, unsigned) { socket.close(); });
    std::size_t at_once = sim::most_woken_at_once();
    EXPECT_GT(at_once, 0u) << "none had to wait";
    EXPECT_LE(at_once, threads / 3) << "one that sleeps, and those before it that are not yet asleep";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaDomains, ::testing::Range(1, 7));

} // namespace
