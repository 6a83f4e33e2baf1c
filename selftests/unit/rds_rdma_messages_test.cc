// SPDX-License-Identifier: GPL-2.0
// Messages over RDMA: contents of all sizes, order, exactly once whatever breaks.
#include "rds_rdma_test.h"

#include "net/rds/net.h"

namespace {

constexpr std::size_t kSizes[] = {0, 1, 4095, 4096, 4097, 8192, 65536, 1 << 20};

class RdsRdmaMessages : public RdmaTest {
protected:
    sim::TaskRef send_all(Program &program)
    {
        return spawn(program, [&] {
            unsigned number = 0;
            for (std::size_t size : kSizes)
                program.send(contents(size, number++));
        });
    }
    sim::TaskRef receive_all(Program &program)
    {
        return spawn(program, [&] {
            unsigned number = 0;
            for (std::size_t size : kSizes) {
                std::string bytes = program.receive();
                EXPECT_EQ(bytes.size(), size);
                EXPECT_TRUE(bytes == contents(size, number++)) << size;
            }
        });
    }
    static void raise_buffers(Program &program)
    {
        program.socket.sk().sndbuf = program.socket.sk().rcvbuf = 8 << 20;
    }

    /** Numbered messages of many sizes: none missing, doubled or overtaken. */
    sim::TaskRef send_numbers(Program &program, unsigned count)
    {
        return spawn(program, [this, &program, count] {
            for (unsigned i = 0; i < count; i++) {
                program.send(numbered(4 + i * 997 % 20000, i));
                if (i % 8 == 0)
                    world.sleep(2 * sim::kMillisecond);
            }
        });
    }
    sim::TaskRef receive_numbers(Program &program, unsigned count)
    {
        return spawn(program, [&program, count] {
            for (unsigned i = 0; i < count; i++) {
                std::string bytes = program.receive();
                ASSERT_TRUE(bytes == numbered(4 + i * 997 % 20000, i)) << i;
            }
        });
    }
};

TEST_P(RdsRdmaMessages, arrive__of_each_size__in_both_directions)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    raise_buffers(pa);
    raise_buffers(pb);
    EXPECT_TRUE(wait({send_all(pa), receive_all(pb)}));
    EXPECT_TRUE(wait({send_all(pb), receive_all(pa)}));
    EXPECT_TRUE(wait({send_all(pa), send_all(pb), receive_all(pa), receive_all(pb)}));
    close(pa);
    close(pb);
}

// A ring is not read by programs (net/rds/pull.h).
TEST_P(RdsRdmaMessages, arrive__and_are_not_left_to_a_program_that_waits)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    EXPECT_TRUE(wait({send_numbers(pa, 40), receive_numbers(pb, 40)}));
    EXPECT_EQ(reinterpret_cast<rds::Net *>(host_b.net().rds)->counted(rds::Stat::recv_left), 0u);
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaMessages, arrive__over_ipv6)
{
    a.initial_net().add(sim::address("2001:db8::1"));
    b.initial_net().add(sim::address("2001:db8::2"));
    load();
    auto pa = on_a("2001:db8::1", "2001:db8::2"), pb = on_b("2001:db8::2", "2001:db8::1");
    open(pa);
    open(pb);
    raise_buffers(pa);
    raise_buffers(pb);
    EXPECT_TRUE(wait({send_all(pa), receive_all(pb), send_all(pb), receive_all(pa)}));
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaMessages, arrive__over_a_link_local_address)
{
    a.initial_net().add(sim::address("fe80::1"));
    b.initial_net().add(sim::address("fe80::2"));
    load();
    RdsSocket from(host_a), to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("fe80::2", kPort, 2)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("fe80::1", kPort, 2)), 0);
        ASSERT_EQ(from.send("hello", 5, sim::address("fe80::2", kPort, 2)), 5);
    });
    run(b, [&] {
        char bytes[16];
        kapi_addr peer{};
        ASSERT_EQ(to.receive(bytes, sizeof(bytes), &peer), 5);
        EXPECT_EQ(peer.scope, 2u);
        ASSERT_EQ(to.send("back", 4, peer), 4);
    });
    run(a, [&] {
        char bytes[16];
        ASSERT_EQ(from.receive(bytes, sizeof(bytes), nullptr), 4);
        from.close();
    });
    run(b, [&] { to.close(); });
}

// The first message is there soon, whichever side begins, and when both do.
TEST_P(RdsRdmaMessages, arrive__soon)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    auto exchange = [&](Program &program) {
        return spawn(program, [&] {
            program.send("hello");
            EXPECT_EQ(program.receive(), "hello");
        });
    };
    EXPECT_TRUE(wait({exchange(pa), exchange(pb)}, 6 * sim::kSecond));
    auto began = world.now_ns();
    EXPECT_TRUE(wait({exchange(pa), exchange(pb)}));
    EXPECT_LT(world.now_ns() - began, 30 * sim::kMillisecond);
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaMessages, arrive_once_and_in_order__when_links_break)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    constexpr unsigned kCount = 400;
    auto breaker = world.spawn(a, "breaker", [&] {
        for (unsigned i = 0; i < 3; i++) {
            world.sleep((30 + 40 * i) * sim::kMillisecond);
            cut(true);
            world.sleep(5 * sim::kSecond);
            cut(false);
            world.sleep(2 * sim::kSecond);
        }
    });
    EXPECT_TRUE(wait({send_numbers(pa, kCount), receive_numbers(pb, kCount), send_numbers(pb, kCount),
                      receive_numbers(pa, kCount)}, 200 * sim::kSecond));
    EXPECT_TRUE(wait({breaker}));
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaMessages, arrive_once_and_in_order__when_devices_are_unplugged)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    constexpr unsigned kCount = 400;
    auto sends = std::vector{send_numbers(pa, kCount), receive_numbers(pb, kCount), send_numbers(pb, kCount),
                             receive_numbers(pa, kCount)};
    for (unsigned i = 0; i < 3; i++) {
        world.run_for((20 + 30 * i) * sim::kMillisecond);
        bool first = i % 2 == 0;
        auto began = world.now_ns();
        unplug(first ? dev_a : dev_b);
        EXPECT_LT(world.now_ns() - began, 2 * sim::kSecond) << "the removal waits for nobody";
        world.run_for(500 * sim::kMillisecond);
        (first ? dev_a : dev_b) = &sim::plug_rdma((first ? a : b).initial_net(), "again");
    }
    EXPECT_TRUE(wait(sends, 200 * sim::kSecond));
    close(pa);
    close(pb);
}

// What was sent is sent again to the next life of a host that is there again, and never twice to one.
TEST_P(RdsRdmaMessages, go_on__after_the_peer_has_crashed)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    run(a, [&] { pa.send("before"); });
    run(b, [&] { EXPECT_EQ(pb.receive(), "before"); });
    b.crash();
    pb.socket.forget();
    host_b.forget();
    run(a, [&] { pa.send("lost, or given up"); });
    world.run_for(5 * sim::kSecond);
    dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
    run(b, [&] {
        ASSERT_EQ(host_b.load_rds(), 0);
        ASSERT_EQ(host_b.load_rdma(), 0);
    });
    auto again = on_b();
    open(again);
    world.run_for(5 * sim::kSecond);
    run(a, [&] { pa.send("after"); });
    std::string last;
    run(b, [&] {
        last = again.receive();
        if (last != "after")
            last = again.receive();
    });
    EXPECT_EQ(last, "after");
    close(pa);
    close(again);
}

TEST_P(RdsRdmaMessages, are_no_reason_to_wait__when_the_module_goes)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    run(a, [&] { pa.send("arrives"); });
    run(b, [&] { EXPECT_EQ(pb.receive(), "arrives"); });
    cut(true);
    EXPECT_TRUE(wait({send_numbers(pa, 8)}));
    close(pa);
    std::uint64_t began = world.now_ns();
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
    EXPECT_LT(world.now_ns() - began, 2 * sim::kSecond);
    cut(false);
    close(pb);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaMessages, ::testing::Range(1, 13));

} // namespace
