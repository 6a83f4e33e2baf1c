// SPDX-License-Identifier: GPL-2.0
// A socket, or the connection of one, ends beside calls that use it: these end soon, with an error that says why.
#include "rds_test.h"

#include <kapi/errno.h>

#include "net/rds/connection.h"
#include "net/rds/tcp/net.h"

namespace {

constexpr std::uint64_t kMoment = 10 * sim::kMillisecond;

class Closed : public RdsTest {
protected:
    explicit Closed(std::uint64_t seed = 1) : RdsTest(seed), socket(host_a)
    {
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        });
    }
    ~Closed() override
    {
        run(a, [&] { forget(); });
    }
    /** As close(), while another call still holds a reference to the socket. */
    void release()
    {
        rds_socket_release(socket.core());
        released_ = true;
    }
    /** The call waits; then the socket is closed. */
    void waits_until_closed(std::function<long()> call, std::uint64_t within_ns = kMoment)
    {
        long result = 0;
        auto caller = world.spawn(a, "caller", [&] { result = call(); });
        world.run_for(10 * kMoment);
        EXPECT_FALSE(caller->is_done());
        run(a, [&] { release(); });
        EXPECT_TRUE(world.run_until([&] { return caller->is_done(); }, within_ns));
        EXPECT_EQ(result, -KAPI_ENOTCONN);
    }

    RdsSocket socket;

private:
    void forget()
    {
        if (!released_)
            return socket.close();
        kapi_sk *sk = &socket.sk();
        socket.forget();
        kapi_sk_put(sk);
        kapi_module_put(&host_a.rds_module());
    }
    bool released_ = false;
};

TEST_F(Closed, who_waits_for_a_message)
{
    waits_until_closed([&] {
        char text[8];
        return socket.receive(text, sizeof(text), nullptr);
    });
}

// No host has 10.0.0.77.
TEST_F(Closed, who_waits_for_room)
{
    waits_until_closed([&] {
        socket.sk().sndbuf = 8000;
        EXPECT_EQ(send(socket, std::string(4000, 'x'), "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 4000);
        return send(socket, "x", "10.0.0.77", 9);
    });
}

TEST_F(Closed, who_waits_for_a_full_port)
{
    RdsSocket full(host_b);
    run(b, [&] {
        ASSERT_EQ(full.open(), 0);
        ASSERT_EQ(full.bind(sim::address("10.0.0.2", 70)), 0);
        full.sk().rcvbuf = 4096;
    });
    run(a, [&] {
        long result = 1;
        for (int i = 0; i < 100 && result > 0; i++) {
            result = send(socket, std::string(4000, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
            world.sleep(kMoment);
        }
        EXPECT_EQ(result, -KAPI_ENOBUFS);
    });
    world.network().cut(a, b); // no map comes that has it look
    waits_until_closed([&] { return send(socket, "x", "10.0.0.2", 70); }, sim::kSecond);
    world.network().cut(a, b, false);
    run(b, [&] { full.close(); });
}

TEST_F(Closed, calls_that_come_later)
{
    run(a, [&] {
        EXPECT_EQ(send(socket, "x", "10.0.0.1", 5), 1);
        release();
        EXPECT_EQ(receive(socket), "error " + std::to_string(-KAPI_ENOTCONN));
        EXPECT_EQ(send(socket, "x", "10.0.0.1", 5), -KAPI_ENOTCONN);
    });
}

// Its memory takes long to be read; then there is nobody for whom to make a connection.
TEST_F(Closed, who_has_yet_to_find_a_connection)
{
    socket.trouble = {.stall_at = 0, .stall_ns = sim::kSecond};
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(socket, "x", "10.0.0.77", 9), -KAPI_ENOTCONN); });
    world.run_for(sim::kMillisecond);
    run(a, [&] { release(); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond + kMoment));
    sim::NodeScope scope(a);
    reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &connection) {
        EXPECT_FALSE(connection.has_users());
    });
}

class ClosedBeside : public Closed, public ::testing::WithParamInterface<int> {
protected:
    ClosedBeside() : Closed(static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(ClosedBeside, who_sends)
{
    long result = 1;
    auto sender = world.spawn(a, "sender", [&] {
        while (result == 1)
            result = send(socket, "x", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT);
    });
    auto closer = world.spawn(a, "closer", [&] { release(); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done() && closer->is_done(); }, kMoment));
    EXPECT_EQ(result, -KAPI_ENOTCONN);
}

// The first message with memory of the program has a box made for its notice.
TEST_P(ClosedBeside, who_sends_its_own_memory)
{
    long result = 1;
    run(a, [&] {
        socket.sk().zerocopy = true;
        EXPECT_EQ(send(socket, "x", "10.0.0.77", 9), 1); // its connection is known
    });
    auto sender = world.spawn(a, "sender", [&] {
        for (std::uint32_t cookie = 1; result == 1 || result == -KAPI_EAGAIN; cookie++)
            result = socket.send_pinned("x", 1, sim::address("10.0.0.77", 9), cookie, RDS_ABI_MSG_DONTWAIT);
    });
    auto closer = world.spawn(a, "closer", [&] {
        world.sleep(world.random().below(20 * sim::kMicrosecond));
        release();
    });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done() && closer->is_done(); }, kMoment));
    EXPECT_EQ(result, -KAPI_ENOTCONN);
    EXPECT_EQ(a.pinned_pages, 0u);
}

// As when the transport goes: the connection that a sender has just found may end before the sender uses it.
TEST_P(ClosedBeside, whose_connection_ends)
{
    bool ends = true;
    auto killer = world.spawn(a, "killer", [&] {
        for (int i = 0; i < 40; i++) {
            reinterpret_cast<rds::Net *>(host_a.net().rds)->kill_connections(&rds_tcp::Module::get().transport);
            world.sleep(world.random().below(sim::kMicrosecond));
        }
        ends = false;
    });
    auto sender = world.spawn(a, "sender", [&] {
        while (ends) {
            RdsSocket other(host_a);
            ASSERT_EQ(other.open(), 0);
            ASSERT_EQ(other.bind(sim::address("10.0.0.1", 6)), 0);
            long result = send(other, "x", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT);
            EXPECT_TRUE(result == 1 || result == -KAPI_EAGAIN || result == -KAPI_ENETUNREACH) << result;
            other.close();
        }
    });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done() && killer->is_done(); }, 10 * sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ClosedBeside, ::testing::Range(1, 20));

} // namespace
