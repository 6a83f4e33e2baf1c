// SPDX-License-Identifier: GPL-2.0
// Buffers of sockets whose programs set none: they grow with what is under way and with how fast it is read.
#include "rds_test.h"

#include <kapi/errno.h>
#include <uapi/hawser_netlink.h>

#include <string>

namespace {

constexpr std::size_t kSize = 30'000, kDefault = 212'992 / 2, kTcpBuffer = 256 * 1024;
// Those that a buffer has room for: one more is accepted while it is not full.
constexpr unsigned messages_of(std::size_t limit) { return static_cast<unsigned>((limit + kSize - 1) / kSize); }

class Buffers : public RdsTest {
protected:
    Buffers()
    {
        run(a, [&] { open(from, "10.0.0.1"); });
        run(b, [&] { open(to, "10.0.0.2"); });
    }
    ~Buffers() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }

    static void open(RdsSocket &socket, const char *address)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, 70)), 0);
    }
    long send_one()
    {
        return send(from, std::string(kSize, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
    }
    void connect_them()
    {
        run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 70), 5); });
        run(b, [&] { EXPECT_EQ(receive(to), "first"); });
        world.run_for(sim::kSecond);
    }
    /** Messages that the sender's buffer takes while nothing reaches the peer. Then they arrive, and are received. */
    unsigned sent_at_once()
    {
        unsigned count = 0;
        world.network().cut(a, b);
        run(a, [&] {
            while (send_one() > 0)
                count++;
        });
        world.network().cut(a, b, false);
        run(b, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(receive(to).size(), kSize);
        });
        world.run_for(sim::kSecond);
        return count;
    }
    /** Messages until the port is congested. */
    unsigned sent_until_congested()
    {
        unsigned count = 0;
        run(a, [&] {
            while (send_one() > 0) {
                count++;
                world.sleep(20 * sim::kMillisecond);
            }
            EXPECT_EQ(send_one(), -KAPI_ENOBUFS);
        });
        return count;
    }
    void read(unsigned count)
    {
        run(b, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(receive(to).size(), kSize);
        });
        world.run_for(sim::kSecond);
    }
    /** Of the only socket of node, as programs see it over netlink. */
    std::size_t reported(sim::Node &node, std::uint16_t field)
    {
        std::string found;
        run(node, [&] {
            auto sockets = sim::dump(node.initial_net(), HAWSER_CMD_RDS_SOCKET_GET);
            ASSERT_EQ(sockets.size(), 1u);
            found = sim::Report::text(sockets[0].attributes, field);
        });
        return std::stoul(found);
    }
    rds_sysctl &settings() { return *rds_net_sysctl(host_a.net().rds); }

    RdsSocket from{host_a}, to{host_b};
};

TEST_F(Buffers, send_limit__grows_while_the_stream_takes_all)
{
    connect_them();
    // The last doubling is that at which the stream has room left.
    EXPECT_EQ(sent_at_once(), messages_of(4 * kDefault));
    EXPECT_GT(4 * kDefault, kTcpBuffer);
    EXPECT_LT(2 * kDefault, kTcpBuffer);
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), 4 * kDefault);
}

TEST_F(Buffers, send_limit__that_is_set_stays)
{
    connect_them();
    from.sk().sndbuf = 2 * kDefault;
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
}

TEST_F(Buffers, send_limit__that_is_set_after_it_has_grown_is_obeyed)
{
    connect_them();
    sent_at_once();
    from.sk().sndbuf = 2 * 50'000;
    EXPECT_EQ(sent_at_once(), messages_of(50'000));
}

TEST_F(Buffers, send_limit__has_a_maximum)
{
    connect_them();
    settings().send_limit_max = 150'000;
    EXPECT_EQ(sent_at_once(), messages_of(150'000));
}

TEST_F(Buffers, send_limit__without_one)
{
    connect_them();
    settings().send_limit_max = 0;
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
}

// They fill the memory first.
TEST_F(Buffers, send_limit__stays_with_tiny_messages)
{
    connect_them();
    world.network().cut(a, b);
    unsigned count = 0;
    run(a, [&] {
        while (send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
    });
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    world.network().cut(a, b, false);
    run(b, [&] {
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(receive(to), "x");
    });
}

// SO_BUF_LOCK sets and unsets without notice. A sender that met the limit of a set buffer would wait for room that is there.
TEST_F(Buffers, send_limit__does_not_come_back_for_a_sender_that_waits)
{
    connect_them();
    sent_at_once();
    world.network().cut(a, b);
    unsigned count = 0;
    run(a, [&] {
        for (; count < 5; count++)
            EXPECT_GT(send_one(), 0);
        from.sk().sndbuf = 2 * kDefault;
        EXPECT_EQ(send_one(), -KAPI_EAGAIN);
        from.sk().sndbuf = sim::BufferSize();
        EXPECT_EQ(send_one(), -KAPI_EAGAIN);
    });
    world.network().cut(a, b, false);
    read(count);
}

// SO_SNDBUF, then SO_BUF_LOCK.
TEST_F(Buffers, send_limit__does_not_come_back_when_it_is_unset_again)
{
    connect_them();
    sent_at_once();
    run(a, [&] {
        from.sk().sndbuf = 2 * kDefault;
        rds_socket_send_limit_changed(from.core());
    });
    from.sk().sndbuf = sim::BufferSize();
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
}

// What is not connected takes nothing.
TEST_F(Buffers, send_limit__stays_while_there_is_no_stream)
{
    unsigned count = 0;
    run(a, [&] {
        while (send(from, std::string(kSize, 'x'), "10.0.0.77", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
    });
    EXPECT_EQ(count, messages_of(kDefault));
}

TEST_F(Buffers, send_limit__is_the_default_again_after_congestion)
{
    connect_them();
    sent_at_once();
    settings().send_limit_max = 0; // for the limit that it has by now, too late
    EXPECT_EQ(sent_at_once(), messages_of(4 * kDefault));
    to.sk().rcvbuf = 4096;
    unsigned count = sent_until_congested();
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    read(count);
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
}

TEST_F(Buffers, send_limit__is_the_default_again_when_a_sender_waits_for_a_congested_port)
{
    connect_them();
    sent_at_once();
    settings().send_limit_max = 0;
    to.sk().rcvbuf = 4096;
    run(a, [&] { EXPECT_GT(send_one(), 0); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), 4 * kDefault);
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 70), 1); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(sender->is_done());
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    read(1);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 60 * sim::kSecond));
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
}

TEST_F(Buffers, receive_limit__doubles_when_all_was_read)
{
    connect_them();
    // Up to half of the initial hard limit, in memory.
    for (std::size_t limit : {kDefault, 2 * kDefault, 4 * kDefault, 8 * kDefault}) {
        unsigned count = sent_until_congested();
        EXPECT_EQ(reported(b, HAWSER_RDS_SOCKET_RECEIVE_BUFFER), limit);
        EXPECT_EQ(count, messages_of(limit));
        read(count);
    }
    unsigned most = sent_until_congested();
    read(most);
    EXPECT_LT(most * kSize, std::size_t{2304} * 1024 / 2);
    unsigned again = sent_until_congested();
    EXPECT_NEAR(again, most, 2); // buffers of the network are shared by messages
    read(again);
}

TEST_F(Buffers, receive_limit__that_is_set_stays)
{
    connect_them();
    to.sk().rcvbuf = 2 * kDefault;
    for (int i = 0; i < 3; i++) {
        unsigned count = sent_until_congested();
        EXPECT_EQ(count, messages_of(kDefault));
        read(count);
    }
}

TEST_F(Buffers, receive_limit__that_is_set_after_it_has_grown_is_obeyed)
{
    connect_them();
    read(sent_until_congested());
    EXPECT_EQ(reported(b, HAWSER_RDS_SOCKET_RECEIVE_BUFFER), 2 * kDefault);
    to.sk().rcvbuf = 2 * kDefault;
    unsigned count = sent_until_congested();
    EXPECT_EQ(count, messages_of(kDefault));
    read(count);
}

// A slow program: its peers send again before it has read all.
TEST_F(Buffers, receive_limit__stays_while_some_wait)
{
    connect_them();
    unsigned waiting = 0;
    for (int i = 0; i < 3; i++) {
        waiting += sent_until_congested();
        EXPECT_EQ(waiting, messages_of(kDefault));
        read(waiting - 1);
        waiting = 1;
    }
    read(1);
}

// It is the congestion that shows that it was too small.
TEST_F(Buffers, receive_limit__stays_without_congestion)
{
    connect_them();
    for (int i = 0; i < 5; i++) {
        run(a, [&] { EXPECT_GT(send_one(), 0); });
        read(1);
    }
    unsigned count = sent_until_congested();
    EXPECT_EQ(count, messages_of(kDefault));
    read(count);
}

// What they hold comes in beyond the limit of the receiver, whose path does not stop for it.
TEST_F(Buffers, of_two_senders_and_the_receiver__other_sockets_do_not_wait_for_them)
{
    constexpr std::size_t large = 65'536;
    RdsSocket second(host_a), other(host_a), reader(host_b);
    auto fill = [&](RdsSocket &socket) {
        unsigned count = 0;
        run(a, [&] {
            while (send(socket, std::string(large, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0)
                count++;
        });
        return count;
    };
    run(a, [&] {
        ASSERT_EQ(second.open(), 0);
        ASSERT_EQ(second.bind(sim::address("10.0.0.1", 71)), 0);
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.1", 72)), 0);
    });
    run(b, [&] {
        ASSERT_EQ(reader.open(), 0);
        ASSERT_EQ(reader.bind(sim::address("10.0.0.2", 72)), 0);
    });
    rds_tcp_net_sysctl(host_a.net().tcp)->rds_tcp_sndbuf = 4 << 20;
    connect_them();
    for (int i = 0; i < 4; i++)
        read(sent_until_congested());
    for (RdsSocket *socket : {&from, &second})
        for (int i = 0; i < 4; i++) {
            world.network().cut(a, b);
            unsigned count = fill(*socket);
            EXPECT_TRUE(i < 3 || count == 8) << count;
            world.network().cut(a, b, false);
            run(b, [&] {
                while (count--)
                    EXPECT_EQ(receive(to).size(), large);
            });
            world.run_for(sim::kSecond);
        }
    auto send_slowly = [&](unsigned most) {
        unsigned count = 0;
        run(a, [&] {
            while (count < most && send(from, std::string(large, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0) {
                count++;
                world.sleep(100 * sim::kMillisecond);
            }
        });
        return count;
    };
    auto receive_all = [&](unsigned count) {
        run(b, [&] {
            while (count--)
                EXPECT_EQ(receive(to).size(), large);
        });
        world.run_for(sim::kSecond);
    };
    unsigned enough = send_slowly(1000);
    receive_all(enough);
    unsigned waiting = send_slowly(enough - 1);
    world.network().cut(a, b);
    for (RdsSocket *socket : {&from, &second})
        waiting += fill(*socket);
    EXPECT_EQ(waiting, enough - 1 + 2 * 8) << "not congested yet";
    world.network().cut(a, b, false);
    world.run_for(10 * sim::kSecond);
    run(a, [&] { EXPECT_EQ(send(other, "x", "10.0.0.2", 72), 1); });
    world.run_for(100 * sim::kMillisecond);
    run(b, [&] {
        Inbox inbox;
        EXPECT_EQ(reader.receive(inbox.data(), inbox.size(), nullptr, RDS_ABI_MSG_DONTWAIT), 1);
    });
    receive_all(waiting);
    run(b, [&] { reader.close(); });
    run(a, [&] { second.close(), other.close(); });
}

// They fill the memory: more room for payload would not help them.
TEST_F(Buffers, receive_limit__stays_after_congestion_by_tiny_messages)
{
    connect_them();
    from.sk().sndbuf = 8 << 20;
    unsigned count = 0;
    run(a, [&] {
        for (; send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0; count++)
            world.sleep(sim::kMillisecond);
        EXPECT_EQ(send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    EXPECT_LT(count, kDefault);
    run(b, [&] {
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(receive(to), "x");
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(reported(b, HAWSER_RDS_SOCKET_RECEIVE_BUFFER), kDefault);
}

/** Anyone can be the administrator of a user's namespace. */
class BuffersOfUsers : public Buffers {
protected:
    static constexpr unsigned kUsual = 512 << 10;
    BuffersOfUsers() { a.wmem_max = 8 * kUsual; }
    /** As sent_at_once(), of another socket, which may have more than usual. In a task of a. */
    unsigned fill(kapi_net &net, const char *address)
    {
        RdsSocket socket(host_a);
        rds_tcp_net_sysctl(host_a.net(net).tcp)->rds_tcp_sndbuf = 8 * kUsual;
        EXPECT_EQ(socket.open(net), 0);
        EXPECT_EQ(socket.bind(sim::address(address, 71)), 0);
        EXPECT_EQ(send(socket, "first", "10.0.0.2", 70), 5);
        world.sleep(sim::kSecond);
        unsigned count = 0;
        world.network().cut(a, b);
        while (send(socket, std::string(kSize, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
        world.network().cut(a, b, false);
        return count;
    }
    unsigned fill_of_user()
    {
        kapi_net &net = a.add_net();
        net.owner = 1000;
        net.add(sim::address("10.0.0.9"));
        EXPECT_EQ(host_a.add_net(net), 0);
        rds_net_sysctl(host_a.net(net).rds)->send_limit_max = 4 * kUsual;
        unsigned count = fill(net, "10.0.0.9");
        EXPECT_TRUE(host_a.delete_nets({&net}));
        return count;
    }
};

TEST_F(BuffersOfUsers, send_limit__is_the_usual_one_at_most)
{
    settings().send_limit_max = 4 * kUsual;
    run(a, [&] {
        EXPECT_EQ(fill_of_user(), messages_of(kUsual));
        EXPECT_EQ(fill(a.initial_net(), "10.0.0.1"), messages_of(4 * kUsual));
    });
}

TEST_F(BuffersOfUsers, send_limit__is_that_of_the_host_at_most)
{
    settings().send_limit_max = 150'000;
    run(a, [&] { EXPECT_EQ(fill_of_user(), messages_of(150'000)); });
}

} // namespace
