// SPDX-License-Identifier: GPL-2.0
// The receive buffer of a socket that has set none: when its limit grows, and when it does not.
#include "rds_buffers_test.h"

namespace {

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

} // namespace
