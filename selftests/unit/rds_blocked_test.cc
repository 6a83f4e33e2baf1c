// SPDX-License-Identifier: GPL-2.0
// Threads that wait in sendmsg() for congested ports: a program has any number of them.
#include "rds_congestion_test.h"

#include <kapi/sim/lock.h>
#include <kapi/sim/wake.h>

#include <string>

namespace {

constexpr unsigned kThreads = 500, kAtOnce = 64;

/** Ports of b's address, as a map from b shows them, and threads of a that wait for them. */
class Blocked : public RdsTest {
protected:
    explicit Blocked(std::uint64_t seed = 1) : RdsTest(seed)
    {
        run(a, [&] {
            client_.emplace(host_a);
            ASSERT_EQ(client_->open(), 0);
            ASSERT_EQ(client_->bind(sim::address("10.0.0.1", kPort)), 0);
            auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
            const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
            auto made = net.connections.get(net, *tcp, at("10.0.0.1"), at("10.0.0.2"), 0, 0, rds::Alloc::charged);
            ASSERT_TRUE(made);
            connection_ = std::move(*made);
            rds::Module::drop_transport(tcp);
        });
    }
    ~Blocked() override
    {
        run(a, [&] {
            connection_ = nullptr;
            client_.reset();
        });
    }
    static rds::Endpoint at(const char *address) { return {rds::Ip::from(sim::address(address).ip), 0, 0}; }
    rds::CongestionMap &map() { return connection_->remote_map(); }
    /** The map that b sends. */
    void show(std::initializer_list<kapi_u16> ports)
    {
        std::vector<std::byte> bits(rds::map_bytes);
        for (kapi_u16 port : ports)
            bits[port / 8] |= static_cast<std::byte>(1 << port % 8);
        map().replace(bits.data());
    }
    /** A thread that waits until port is free, for which nobody looks but those who make it free. */
    void wait_for(kapi_u16 port, unsigned count = 1)
    {
        for (unsigned i = 0; i < count; i++)
            threads_.push_back(world.spawn(a, "thread", [this, port] {
                auto is_free = [&] { return looks_++, !map().congested(port); };
                EXPECT_TRUE(map().block(port, *connection_, KAPI_FOREVER, is_free));
            }));
    }
    unsigned waiting() const
    {
        unsigned count = 0;
        for (auto &thread : threads_)
            count += !thread->is_done();
        return count;
    }

    std::optional<RdsSocket> client_;
    rds::Ref<rds::Connection> connection_;
    std::vector<sim::TaskRef> threads_;
    unsigned looks_ = 0;
};

// Interrupts are off while a queue is woken, and other tasks of the processor wait while the map's lock is held.
TEST_F(Blocked, many_threads__are_woken_in_small_steps)
{
    run(a, [&] {
        show({100});
        wait_for(100, kThreads);
        world.sleep(sim::kMillisecond);
        EXPECT_EQ(waiting(), kThreads);
        sim::forget_steps();
        sim::most_woken_at_once();
        show({});
        EXPECT_GE(waiting(), kThreads - kAtOnce) << "nobody else has run";
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(waiting(), 0u) << "each of them";
        EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
        EXPECT_LE(sim::most_steps_under("rds map"), 2 * kAtOnce) << "a step along the list, and one off it";
    });
}

// The same through the calls of programs, over TCP.
TEST_F(Blocked, many_senders__are_woken_in_small_steps_and_all_of_them_send)
{
    RdsSocket full(host_b);
    unsigned sent = 0;
    run(b, [&] {
        ASSERT_EQ(full.open(), 0);
        full.sk().rcvbuf = 4096;
        ASSERT_EQ(full.bind(sim::address("10.0.0.2", 70)), 0);
    });
    run(a, [&] {
        for (int i = 0; i < 50 && send(*client_, std::string(1000, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0; i++)
            world.sleep(10 * sim::kMillisecond);
        for (unsigned i = 0; i < kThreads; i++)
            threads_.push_back(world.spawn(a, "thread", [&] { sent += send(*client_, "x", "10.0.0.2", 70) == 1; }));
        world.sleep(sim::kMillisecond);
        EXPECT_EQ(waiting(), kThreads);
        sim::most_woken_at_once();
    });
    run(b, [&] {
        full.sk().rcvtimeo_ns = sim::kSecond;
        while (receive(full).find("error") == std::string::npos)
            ;
    });
    EXPECT_EQ(sent, kThreads);
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    run(b, [&] { full.close(); });
}

// Whose port remains full is not woken, and no reason for others to wait.
TEST_F(Blocked, threads_of_another_port__sleep_on_and_hold_up_nobody)
{
    run(a, [&] {
        show({100, 200});
        wait_for(100, kThreads);
        wait_for(200);
        world.sleep(sim::kMillisecond);
        looks_ = 0;
        show({100});
        world.sleep(sim::kMillisecond);
        EXPECT_EQ(waiting(), kThreads) << "all but the last one";
        EXPECT_LE(looks_, 2u);
        show({});
        world.sleep(100 * sim::kMillisecond);
    });
}

// However often ports become free, the work takes a small part of a processor for those that sleep on.
TEST_F(Blocked, threads_of_another_port__are_looked_at_a_limited_number_of_times)
{
    run(a, [&] {
        show({100});
        wait_for(100, kThreads);
        world.sleep(sim::kMillisecond);
        std::uint64_t before = a.works_run;
        for (unsigned i = 0; i < 1000; i++) {
            show({100});
            world.sleep(20 * sim::kMicrosecond);
        }
        EXPECT_LE(a.works_run - before, 20'000 / kThreads + 10) << "1 us for each";
        show({});
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(waiting(), 0u);
    });
}

// As those in poll() (rds_congested_test.cc): each time all of them try again, and all but the first are refused again.
TEST_F(Blocked, threads_of_a_port_that_is_full_and_free_all_the_time__try_again_a_limited_number_of_times)
{
    run(a, [&] {
        bool ends = false;
        unsigned tries = 0;
        show({100});
        for (unsigned i = 0; i < kThreads; i++)
            threads_.push_back(world.spawn(a, "thread", [&] {
                while (!ends) {
                    auto woken = [&, first = true]() mutable { return !std::exchange(first, false); };
                    EXPECT_TRUE(map().block(100, *connection_, KAPI_FOREVER, woken));
                    tries++;
                }
            }));
        world.sleep(sim::kMillisecond);
        show({});
        world.sleep(500 * sim::kMillisecond);
        tries = 0;
        for (unsigned i = 0; i < 100; i++) {
            show({});
            world.sleep(sim::kMillisecond);
        }
        EXPECT_LE(tries, 100 * kAtOnce + 50 * 110) << "by who makes it free, and 50 in a millisecond by the work";
        EXPECT_GE(tries, 100 * kAtOnce);
        ends = true;
        show({});
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(waiting(), 0u);
    });
}

TEST_F(Blocked, connection_that_ends__wakes_its_threads)
{
    run(a, [&] {
        show({100});
        for (unsigned i = 0; i < kThreads; i++)
            threads_.push_back(world.spawn(a, "thread", [&] {
                EXPECT_TRUE(map().block(100, *connection_, KAPI_FOREVER, [&] { return connection_->dying(); }));
            }));
        world.sleep(sim::kMillisecond);
        EXPECT_TRUE(connection_->net.connections.remove(*connection_));
        connection_->kill();
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(waiting(), 0u);
    });
}

class BlockedStorm : public Blocked, public ::testing::WithParamInterface<unsigned> {
protected:
    BlockedStorm() : Blocked(GetParam()) {}
};

// Threads come, give up by a time-out, and wait again, while ports become full and free: when a port is free for good, nobody
// waits for it, though nobody looks by himself.
TEST_P(BlockedStorm, nobody_is_forgotten)
{
    run(a, [&] {
        sim::Random &random = world.random();
        bool ends = false;
        for (unsigned i = 0; i < 200; i++)
            threads_.push_back(world.spawn(a, "thread", [&, port = static_cast<kapi_u16>(100 + i % 3)] {
                while (!ends) {
                    std::uint64_t patience = random.one_in(3) ? random.below(3 * sim::kMillisecond) : KAPI_FOREVER;
                    kapi_u64 deadline = patience == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + patience;
                    auto is_free = [&] { return !map().congested(port); };
                    static_cast<void>(map().block(port, *connection_, deadline, is_free));
                    world.sleep(random.below(200 * sim::kMicrosecond));
                }
            }));
        for (unsigned i = 0; i < 300; i++) {
            switch (random.below(4)) {
            case 0: show({100, 101, 102}); break;
            case 1: show({100}); break;
            case 2: show({101, 102}); break;
            case 3: show({}); break;
            }
            world.sleep(random.below(sim::kMillisecond));
        }
        ends = true;
        show({});
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(waiting(), 0u);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockedStorm, ::testing::Range(1u, 21u));

} // namespace
