// SPDX-License-Identifier: GPL-2.0
// Who is woken, and how soon: programs in poll() and epoll, and those who sleep beside one that gives up.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace {

using sim::kMillisecond;
using sim::kSecond;
using sim::Poller;

constexpr unsigned kDontWait = RDS_ABI_MSG_DONTWAIT;

/** One socket on each machine, whose connection is up, and the first map of the peer has been handled. */
class Wake : public RdsTest {
protected:
    Wake() : here(host_a), there(host_b)
    {
        run(b, [&] {
            ASSERT_EQ(there.open(), 0);
            ASSERT_EQ(there.bind(sim::address("10.0.0.2", 70)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(here.open(), 0);
            ASSERT_EQ(here.bind(sim::address("10.0.0.1", 5)), 0);
            EXPECT_EQ(send(here, "up", "10.0.0.2", 70), 2);
        });
        run(b, [&] { EXPECT_EQ(receive(there), "up"); });
        world.run_for(kSecond);
        run(a, [&] { EXPECT_EQ(here.poll() & ~(KAPI_OUT | KAPI_WRNORM), unsigned{KAPI_IN | KAPI_RDNORM | KAPI_WRBAND}); });
    }
    ~Wake() override
    {
        run(a, [&] { here.close(); });
        run(b, [&] { there.close(); });
    }
    /** Until its map shows it: nothing is sent to the receiver of b. */
    void fill()
    {
        run(b, [&] { there.sk().rcvbuf = 4096; });
        run(a, [&] {
            long result = 0;
            for (int i = 0; i < 50 && result >= 0; i++) {
                result = send(here, std::string(1000, 'x'), "10.0.0.2", 70, kDontWait);
                world.sleep(10 * kMillisecond);
            }
            EXPECT_EQ(result, -KAPI_ENOBUFS);
        });
    }
    void drain()
    {
        run(b, [&] {
            while (receive(there, kDontWait).find("error") == std::string::npos)
                ;
        });
    }

    /** The same, on this host. */
    void fill_local(RdsSocket &local)
    {
        run(a, [&] {
            ASSERT_EQ(local.open(), 0);
            ASSERT_EQ(local.bind(sim::address("10.0.0.1", 6)), 0);
            local.sk().rcvbuf = 4096;
            EXPECT_EQ(send(here, std::string(4000, 'x'), "10.0.0.1", 6, kDontWait), 4000);
            EXPECT_EQ(send(here, "x", "10.0.0.1", 6, kDontWait), -KAPI_ENOBUFS);
        });
    }
    void drain_local(RdsSocket &local)
    {
        run(a, [&] { EXPECT_EQ(receive(local, kDontWait).size(), 4000u); });
    }

    RdsSocket here, there;
};

// Each socket that fills and empties would else wake all programs of the host.
TEST_F(Wake, a_local_port_that_refused_nobody_is_no_news)
{
    RdsSocket local(host_a);
    fill_local(local);
    drain_local(local);
    world.run_for(20 * kMillisecond); // a work notifies
    run(a, [&] {
        EXPECT_TRUE(here.poll() & KAPI_WRBAND);
        EXPECT_EQ(send(here, std::string(4000, 'x'), "10.0.0.1", 6, kDontWait), 4000);
    });
    drain_local(local);
    run(a, [&] {
        EXPECT_FALSE(here.poll() & KAPI_WRBAND);
        local.close();
    });
}

class WakePoll : public Wake, public ::testing::WithParamInterface<Poller::Kind> {
protected:
    /** A program of a waits on its socket while cause() happens: what it is woken with in time, or 0. */
    unsigned woken(unsigned wanted, const std::function<void()> &cause, std::uint64_t soon_ns = 100 * kMillisecond)
    {
        unsigned events = 0;
        bool waits = false, done = false;
        auto program = world.spawn(a, "program", [&] {
            auto poller = here.poller(wanted, GetParam());
            waits = true;
            events = poller.wait(60 * kSecond);
            done = true;
        });
        world.run_for(kMillisecond);
        EXPECT_TRUE(waits);
        EXPECT_FALSE(done) << "events " << events << " are there already";
        cause();
        bool soon = world.run_until([&] { return done; }, soon_ns);
        if (!soon)
            world.run_until([&] { return done; }, 100 * kSecond);
        EXPECT_TRUE(soon);
        return events;
    }
};

TEST_P(WakePoll, a_message)
{
    EXPECT_TRUE(woken(KAPI_IN, [&] {
                    run(b, [&] { EXPECT_EQ(send(there, "hello", "10.0.0.1", 5), 5); });
                }));
}

TEST_P(WakePoll, room_to_send)
{
    world.network().cut(a, b);
    run(a, [&] {
        here.sk().sndbuf = 8192;
        while (here.poll() & KAPI_OUT) // so no call has failed: the result of poll() is enough
            EXPECT_EQ(send(here, std::string(1000, 'x'), "10.0.0.2", 70, kDontWait), 1000);
    });
    EXPECT_TRUE(woken(KAPI_OUT, [&] { world.network().cut(a, b, false); }, 3 * kSecond));
    drain();
}

TEST_P(WakePoll, room_on_a_port_that_was_full)
{
    fill();
    run(a, [&] { here.poll(); }); // the change of the map has been handled
    EXPECT_TRUE(woken(KAPI_WRBAND, [&] { drain(); }));
    run(a, [&] { EXPECT_EQ(send(here, "again", "10.0.0.2", 70, kDontWait), 5); });
}

// The receiver is on this host: no map comes from anywhere.
TEST_P(WakePoll, room_on_a_local_port_that_was_full)
{
    RdsSocket local(host_a);
    fill_local(local);
    run(a, [&] { here.poll(); });
    EXPECT_TRUE(woken(KAPI_WRBAND, [&] { drain_local(local); }));
    run(a, [&] {
        EXPECT_EQ(send(here, "again", "10.0.0.1", 6, kDontWait), 5);
        local.close();
    });
}

TEST_P(WakePoll, a_monitored_local_port_has_room)
{
    int on = 1;
    run(a, [&] { EXPECT_EQ(here.set_option(RDS_ABI_CONG_MONITOR, &on, sizeof(on)), 0); });
    RdsSocket local(host_a);
    fill_local(local);
    EXPECT_TRUE(woken(KAPI_IN, [&] { drain_local(local); }));
    run(a, [&] { local.close(); });
}

TEST_P(WakePoll, a_monitored_port_has_room)
{
    int on = 1;
    run(a, [&] { EXPECT_EQ(here.set_option(RDS_ABI_CONG_MONITOR, &on, sizeof(on)), 0); });
    fill();
    EXPECT_TRUE(woken(KAPI_IN, [&] { drain(); }));
}

TEST_P(WakePoll, a_zerocopy_notice)
{
    static const std::string data(5000, 'z');
    EXPECT_TRUE(woken(KAPI_IN, [&] {
                    run(a, [&] {
                        here.sk().zerocopy = true;
                        EXPECT_EQ(here.send_pinned(data.data(), data.size(), sim::address("10.0.0.2", 70), 1), 5000);
                    });
                }));
    drain();
}

INSTANTIATE_TEST_SUITE_P(Kinds, WakePoll,
                         ::testing::Values(Poller::Kind::poll, Poller::Kind::epoll, Poller::Kind::epoll_edge));

// Edge-triggered epoll calls poll() when the socket is added, and then only after a wake-up: between ENOBUFS and the port's
// freedom there is no call.
TEST_F(Wake, edge_triggered__full_port_met_after_the_socket_was_added)
{
    unsigned events = 0;
    bool full = false, done = false;
    auto program = world.spawn(a, "program", [&] {
        auto poller = here.poller(KAPI_IN, Poller::Kind::epoll_edge);
        EXPECT_EQ(poller.wait(10 * kMillisecond), 0u);
        while (!full)
            world.sleep(kMillisecond);
        events = poller.wait(60 * kSecond);
        done = true;
    });
    world.run_for(100 * kMillisecond);
    fill();
    full = true;
    world.run_for(10 * kMillisecond);
    EXPECT_FALSE(done);
    drain();
    EXPECT_TRUE(world.run_until([&] { return done; }, 100 * kMillisecond));
    world.run_until([&] { return done; }, 100 * kSecond);
    EXPECT_TRUE(events & KAPI_IN);
}

// ---- beside one that gives up

TEST_F(Wake, reader_that_faults__passes_its_message_on)
{
    run(a, [&] { EXPECT_EQ(send(here, "message", "10.0.0.2", 70), 7); });
    world.run_for(50 * kMillisecond);
    char buffer[16];
    long faulted = 0;
    std::string got;
    bool done = false;
    there.trouble = {.fault_at = 0, .stall_at = 0, .stall_ns = 200 * kMillisecond};
    auto first = world.spawn(b, "first", [&] { faulted = there.receive(buffer, sizeof(buffer), nullptr); });
    world.run_for(50 * kMillisecond);
    auto second = world.spawn(b, "second", [&] {
        got = receive(there);
        done = true;
    });
    world.run_for(100 * kMillisecond);
    EXPECT_FALSE(done);
    EXPECT_TRUE(world.run_until([&] { return first->is_done(); }, kSecond));
    EXPECT_EQ(faulted, -KAPI_EFAULT);
    EXPECT_TRUE(world.run_until([&] { return done; }, 10 * kMillisecond));
    EXPECT_EQ(got, "message");
    if (!done) {
        run(a, [&] { EXPECT_EQ(send(here, "release", "10.0.0.2", 70), 7); });
        world.run_for(kSecond);
    }
}

// The one that came first comes first again, whichever reader gives up first.
TEST_F(Wake, readers_that_fault__leave_the_order)
{
    constexpr unsigned kReaders = 4;
    run(a, [&] {
        for (unsigned i = 0; i <= kReaders; i++)
            EXPECT_EQ(send(here, std::to_string(i), "10.0.0.2", 70), 1);
    });
    world.run_for(50 * kMillisecond);
    std::vector<sim::TaskRef> readers;
    for (unsigned i = 0; i < kReaders; i++) {
        readers.push_back(world.spawn(b, "reader", [&, i] {
            char buffer[16];
            there.trouble = {.fault_at = 0, .stall_at = 0, .stall_ns = (10 + i * 3 % kReaders) * 10 * kMillisecond};
            EXPECT_EQ(there.receive(buffer, sizeof(buffer), nullptr), -KAPI_EFAULT);
        }));
        world.run_for(kMillisecond);
    }
    EXPECT_TRUE(world.run_until([&] {
        return std::all_of(readers.begin(), readers.end(), [](auto &task) { return task->is_done(); });
    }, kSecond));
    run(b, [&] {
        for (unsigned i = 0; i <= kReaders; i++)
            EXPECT_EQ(receive(there, kDontWait), std::to_string(i));
    });
}

// Its memory may stand still for as long as the program likes.
TEST_F(Wake, reader_that_stalls__has_made_room)
{
    RdsSocket local(host_a);
    fill_local(local);
    local.trouble = {.stall_at = 0, .stall_ns = 10 * kSecond};
    auto reader = world.spawn(a, "reader", [&] { EXPECT_EQ(receive(local).size(), 4000u); });
    world.run_for(10 * kMillisecond);
    run(a, [&] { EXPECT_EQ(send(here, "x", "10.0.0.1", 6, kDontWait), 1); });
    EXPECT_FALSE(reader->is_done());
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 11 * kSecond));
    run(a, [&] { local.close(); });
}

// All who wait for room are woken by each message that leaves; one that is killed then takes no room with it.
TEST_F(Wake, sender_that_is_interrupted__leaves_the_room_to_others)
{
    world.network().cut(a, b);
    run(a, [&] {
        here.sk().sndbuf = 4096;
        while (send(here, std::string(1000, 'x'), "10.0.0.2", 70, kDontWait) >= 0)
            ;
    });
    long killed = 0, sent = 0;
    auto first = world.spawn(a, "first", [&] { killed = send(here, "first", "10.0.0.2", 70); });
    world.run_for(kMillisecond);
    auto second = world.spawn(a, "second", [&] { sent = send(here, "second", "10.0.0.2", 70); });
    world.run_for(kMillisecond);
    world.signal(*first);
    world.network().cut(a, b, false);
    EXPECT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 5 * kSecond));
    EXPECT_TRUE(killed == -KAPI_ERESTARTSYS || killed == 5) << killed;
    EXPECT_EQ(sent, 6);
    drain();
}

} // namespace
