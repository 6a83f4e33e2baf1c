// SPDX-License-Identifier: GPL-2.0
// A program that waits in poll(): what it waits for wakes it, on whichever queue that happens.
#include "rds_test.h"

#include <kapi/errno.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kMoment = 10 * sim::kMillisecond;

class Polled : public RdsTest {
protected:
    Polled() : from(host_a), to(host_b)
    {
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        });
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", 70)), 0);
        });
    }
    ~Polled() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }

    /** Waits in poll() for these events, which are not there yet, while something happens on node; then they are. */
    void expect_woken(RdsSocket &socket, sim::Node &node, unsigned events, sim::Node &where,
                      const std::function<void()> &happens)
    {
        auto waiter = world.spawn(node, "poll", [&] {
            sim::PollWatch watch;
            kapi_poll poll{&watch, events};
            socket.poll(); // takes the pending notifications of congestion
            EXPECT_EQ(rds_socket_poll(socket.core(), &poll) & events, 0u);
            run_on(where, happens);
            world.sleep(kMoment);
            EXPECT_TRUE(poll.woken) << "it was not woken";
            watch.end();
            EXPECT_NE(socket.poll() & events, 0u);
        });
        EXPECT_TRUE(world.run_until([&] { return waiter->is_done(); }, 60 * sim::kSecond));
    }
    /** From a task: has another one do this, and waits for its end. */
    void run_on(sim::Node &node, const std::function<void()> &body)
    {
        auto task = world.spawn(node, "other", body);
        while (!task->is_done())
            world.sleep(100 * sim::kMicrosecond);
    }
    /** Sends until the peer's port is full. */
    void fill()
    {
        to.sk().rcvbuf = 4096;
        run(a, [&] {
            EXPECT_EQ(send(from, "first", "10.0.0.2", 70), 5);
            long result = 0;
            for (int i = 0; i < 50 && result >= 0; i++) {
                result = send(from, std::string(1000, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
                world.sleep(10 * sim::kMillisecond);
            }
            EXPECT_EQ(result, -KAPI_ENOBUFS);
        });
    }
    void drain()
    {
        while (receive(to, RDS_ABI_MSG_DONTWAIT).find("error") == std::string::npos)
            ;
    }

    RdsSocket from, to;
};

TEST_F(Polled, a_message)
{
    run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 70), 1); });
    run(b, [&] {
        EXPECT_EQ(receive(to), "x");
        to.poll(); // the first map of the peer came
    });
    expect_woken(to, b, KAPI_IN, a, [&] { EXPECT_EQ(send(from, "y", "10.0.0.2", 70), 1); });
}

TEST_F(Polled, room_to_send)
{
    world.network().cut(a, b);
    from.sk().sndbuf = 16384; // counted twice
    std::string text(8192, 'x');
    run(a, [&] { EXPECT_EQ(send(from, text, "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), 8192); });
    expect_woken(from, a, KAPI_OUT, b, [&] {
        world.network().cut(a, b, false);
        EXPECT_EQ(receive(to).size(), 8192u);
    });
}

TEST_F(Polled, a_larger_send_buffer)
{
    from.sk().sndbuf = 8000;
    run(a, [&] { EXPECT_EQ(send(from, std::string(4000, 'x'), "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 4000); });
    expect_woken(from, a, KAPI_OUT, a, [&] {
        from.sk().sndbuf = 16'000;
        rds_socket_send_limit_changed(from.core());
    });
}

// A program without monitors: every map that arrives wakes each socket that met a full port.
TEST_F(Polled, a_full_port_that_has_room_again)
{
    fill();
    run(a, [&] { from.poll(); });
    run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    expect_woken(from, a, KAPI_WRBAND, b, [&] { drain(); });
}

TEST_F(Polled, a_monitor)
{
    int on = 1;
    run(a, [&] { EXPECT_EQ(from.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0); });
    fill();
    expect_woken(from, a, KAPI_IN, b, [&] { drain(); });
}

TEST_F(Polled, a_finished_zerocopy_send)
{
    from.sk().zerocopy = true;
    run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 70), 5); });
    std::string text(5000, 'x');
    world.network().cut(a, b);
    run(a, [&] {
        EXPECT_EQ(from.send_pinned(text.data(), text.size(), sim::address("10.0.0.2", 70), 7, RDS_ABI_MSG_DONTWAIT), 5000);
    });
    expect_woken(from, a, KAPI_IN, b, [&] {
        world.network().cut(a, b, false);
        EXPECT_EQ(receive(to), "first");
        EXPECT_EQ(receive(to).size(), 5000u);
    });
}

// ---- monitors

class Monitored : public Polled {
protected:
    Monitored()
    {
        int on = 1;
        run(a, [&] { EXPECT_EQ(from.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0); });
    }
    /** The next notice, without waiting: which ports have room again. */
    kapi_u64 notice()
    {
        kapi_u64 ports = 0;
        run(a, [&] {
            char byte;
            std::vector<std::uint32_t> cookies; // makes room for control data
            if (from.receive(&byte, 1, nullptr, RDS_ABI_MSG_DONTWAIT, nullptr, &cookies) != 0)
                return;
            ASSERT_EQ(from.control().size(), 1u);
            ASSERT_EQ(from.control()[0].type, RDS_ABI_CMSG_CONG_UPDATE);
            std::memcpy(&ports, from.control()[0].data.data(), sizeof(ports));
        });
        return ports;
    }
    void free_port()
    {
        run(b, [&] { drain(); });
        world.run_for(kMoment);
    }
    static constexpr kapi_u64 kPort = kapi_u64{1} << (70 % 64);
};

TEST_F(Monitored, a_port_is_told_once)
{
    fill();
    free_port();
    EXPECT_EQ(notice(), kPort);
    // Another port of that machine fills and empties, so that maps come which have this one's bit clear.
    RdsSocket other(host_b);
    run(b, [&] {
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.2", 71)), 0);
        other.sk().rcvbuf = 4096;
    });
    RdsSocket plain(host_a);
    run(a, [&] {
        ASSERT_EQ(plain.open(), 0);
        ASSERT_EQ(plain.bind(sim::address("10.0.0.1", 6)), 0);
        for (int i = 0; i < 10; i++)
            send(plain, std::string(1000, 'x'), "10.0.0.2", 71, RDS_ABI_MSG_DONTWAIT);
        world.sleep(kMoment);
        EXPECT_EQ(send(plain, "x", "10.0.0.2", 71, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        plain.close();
    });
    run(b, [&] { other.close(); });
    world.run_for(kMoment);
    EXPECT_EQ(notice(), 0u);
    run(a, [&] { EXPECT_EQ(from.poll() & KAPI_IN, 0u); });
}

TEST_F(Monitored, notice_that_could_not_be_copied_comes_again)
{
    fill();
    free_port();
    run(a, [&] {
        char byte;
        std::vector<std::uint32_t> cookies;
        from.trouble.control_faults = true;
        EXPECT_EQ(from.receive(&byte, 1, nullptr, RDS_ABI_MSG_DONTWAIT, nullptr, &cookies), -KAPI_EFAULT);
        EXPECT_TRUE(from.poll() & KAPI_IN);
    });
    EXPECT_EQ(notice(), kPort);
}

TEST_F(Monitored, switched_off_with_a_notice_pending)
{
    int off = 0, on = 1;
    fill();
    free_port();
    run(a, [&] {
        EXPECT_EQ(from.set_option(RDS_ABI_CONG_MONITOR, &off, 4), 0);
        EXPECT_EQ(from.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0);
        EXPECT_EQ(from.poll() & KAPI_IN, 0u);
    });
    EXPECT_EQ(notice(), 0u);
}

// The port may become free between the moment in which the sender sees it full and the one in which it is watched.
class MonitorRace : public Monitored, public ::testing::WithParamInterface<int> {};

TEST_P(MonitorRace, who_is_refused_is_told)
{
    for (int round = 0; round < GetParam(); round++) {
        fill();
        notice();
        auto drained = world.spawn(b, "drain", [&] {
            world.sleep(static_cast<std::uint64_t>(GetParam()) * 7 * sim::kMicrosecond);
            drain();
        });
        bool refused = false;
        run(a, [&] {
            long result = -KAPI_ENOBUFS;
            for (int i = 0; i < 2000 && result == -KAPI_ENOBUFS; i++) {
                result = send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
                if (result == -KAPI_ENOBUFS) {
                    refused = true;
                    world.sleep(sim::kMicrosecond);
                }
            }
        });
        EXPECT_TRUE(world.run_until([&] { return drained->is_done(); }, sim::kSecond));
        world.run_for(kMoment);
        EXPECT_TRUE(refused);
        EXPECT_EQ(notice(), kPort) << "round " << round;
        run(b, [&] { drain(); });
        world.run_for(kMoment);
        notice();
    }
}

// The same on one host, where the receiver makes room at any moment.
class LocalRace : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    LocalRace() : RdsTest(static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(LocalRace, who_is_refused_is_told)
{
    RdsSocket from(host_a), to(host_a);
    int on = GetParam() % 2; // the others poll
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(from.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0);
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 70)), 0);
        to.sk().rcvbuf = 4096;
    });
    for (int round = 0; round < 100; round++) {
        run(a, [&] {
            EXPECT_EQ(send(from, std::string(4000, 'x'), "10.0.0.1", 70), 4000);
            from.poll();
            long result = 0;
            auto sender = world.spawn(a, "sender", [&] {
                result = send(from, "y", "10.0.0.1", 70, RDS_ABI_MSG_DONTWAIT);
            });
            EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT).size(), 4000u);
            while (!sender->is_done())
                world.sleep(sim::kMicrosecond);
            if (result > 0) {
                EXPECT_EQ(receive(to), "y");
                return;
            }
            EXPECT_EQ(result, -KAPI_ENOBUFS);
            EXPECT_TRUE(from.wait(KAPI_IN, 10 * sim::kMillisecond)) << "round " << round;
            char byte;
            std::vector<std::uint32_t> cookies;
            if (on) {
                EXPECT_EQ(from.receive(&byte, 1, nullptr, RDS_ABI_MSG_DONTWAIT, nullptr, &cookies), 0);
            }
        });
    }
    run(a, [&] { from.close(), to.close(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, LocalRace, ::testing::Range(1, 21));

INSTANTIATE_TEST_SUITE_P(Rounds, MonitorRace, ::testing::Values(20, 21, 22));

} // namespace
