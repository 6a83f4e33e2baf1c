// SPDX-License-Identifier: GPL-2.0
// Answers to pings: a program that does not read them must neither hold much memory by them nor hold up others.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <string>

namespace {

class RdsPongs : public RdsTest {
protected:
    /** How many messages a machine's sockets have that were not read. */
    static long unread(RdsSocket &socket)
    {
        rds_abi_info_message row;
        int length = 0;
        socket.get_option(RDS_ABI_INFO_RECV_MESSAGES, &row, &length);
        return length / static_cast<long>(sizeof(row));
    }
    void ping_oneself(const char *address, std::size_t charge_limit, unsigned pings, long most)
    {
        RdsSocket socket(host_a);
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(address, 5)), 0);
            socket.sk().charge_limit = charge_limit;
            for (unsigned i = 0; i < pings && send(socket, "", address, 0, RDS_ABI_MSG_DONTWAIT) == 0; i++)
                ;
            world.sleep(sim::kSecond);
            EXPECT_GT(unread(socket), 100);
            EXPECT_LT(unread(socket), most);
            socket.close();
        }, 3600 * sim::kSecond);
    }
};

// A program pings its own host and reads nothing.
TEST_F(RdsPongs, answers_on_loopback__have_a_limit) { ping_oneself("127.0.0.1", ~std::size_t{0}, 200'000, 50'000); }

TEST_F(RdsPongs, answers_on_loopback__that_cannot_be_charged_have_a_limit)
{
    ping_oneself("10.0.0.1", 1 << 20, 50'000, 20'000);
}

// What the worker of a namespace's loopback sends is charged to no cgroup either.
TEST_F(RdsPongs, answers_on_loopback__of_a_program_whose_cgroup_is_at_its_limit)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().charge_limit = 0;
        std::size_t before = a.memory().bytes();
        for (unsigned i = 0; i < 20'000; i++)
            send(socket, "", "10.0.0.1", 0, RDS_ABI_MSG_DONTWAIT);
        world.sleep(sim::kSecond);
        std::size_t grown = a.memory().bytes() - before;
        EXPECT_LT(grown, 4u << 20);
        socket.close();
    }, 3600 * sim::kSecond);
}

// A program pings another host and does not read the answers; others want to hear from that host.
TEST_F(RdsPongs, answers_that_nobody_reads__hold_up_no_other_socket)
{
    RdsSocket deaf(host_a), to(host_a), from(host_b);
    const kapi_u16 port = port_of_path(3), other = port_of_path(3, static_cast<kapi_u16>(port + 1));
    run(a, [&] {
        ASSERT_EQ(deaf.open(), 0);
        ASSERT_EQ(deaf.bind(sim::address("10.0.0.1", port)), 0);
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 6)), 0);
        to.sk().rcvtimeo_ns = 60 * sim::kSecond;
    });
    run(b, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.2", other)), 0);
        EXPECT_EQ(send(from, "first", "10.0.0.1", 6), 5);
    });
    run(a, [&] {
        EXPECT_EQ(receive(to), "first");
        unsigned sent = 0;
        for (; sent < 20'000; sent++) {
            if (send(deaf, "", "10.0.0.2", 0, RDS_ABI_MSG_DONTWAIT) != 0)
                break;
            if (sent % 100 == 0)
                world.sleep(sim::kMillisecond);
        }
        world.sleep(sim::kSecond);
        EXPECT_GT(unread(deaf), 1000);
    }, 100 * sim::kSecond);
    run(b, [&] { EXPECT_EQ(send(from, "second", "10.0.0.1", 6), 6); });
    run(a, [&] { EXPECT_EQ(receive(to), "second"); }, 100 * sim::kSecond);
    run(a, [&] { deaf.close(), to.close(); });
    run(b, [&] { from.close(); });
}

/** Peers without a host of their own. */
class PongsOfPeers : public PeerTest {};

// Nor is there more of them than of other messages: they are dropped, and the path goes on.
TEST_F(PongsOfPeers, answers_for_a_full_socket__are_dropped)
{
    constexpr kapi_u16 kPort = 1000, kOthersPort = 1001;
    open_socket(kPort);
    RdsSocket others(host);
    run(b, [&] {
        ASSERT_EQ(others.open(), 0);
        ASSERT_EQ(others.bind(sim::address("10.0.0.2", kOthersPort)), 0);
    });
    WireStream filling(a), second(a);
    run(a, [&] {
        shake_hands(filling, 0);
        fill(filling, kPort);
        kapi_addr from = sim::address("9.0.0.1", 30000);
        a.initial_net().add(from);
        ASSERT_TRUE(second.connect(from, sim::address("10.0.0.2", 16385)));
        std::uint64_t before = queued();
        EXPECT_TRUE(second.message(1, 0, kPort, ""));
        EXPECT_TRUE(second.message(2, 0, kOthersPort, ""));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(counted(rds::Stat::recv_drop_pong), 1u);
        EXPECT_EQ(queued(), before + 1);
    }, 10 * sim::kSecond);
    run(b, [&] { others.close(); });
    run(a, [&] { filling.close(true), second.close(true); });
}

// The first answer may have been lost with its stream.
TEST_F(PongsOfPeers, ping_that_is_sent_again__is_answered_again)
{
    WireStream first(a), second(a);
    run(a, [&] {
        for (WireStream *stream : {&first, &second}) {
            shake_hands(*stream, 0);
            EXPECT_TRUE(stream->message(1, 700, 0, "", stream == &second ? rds::flag_retransmitted : 0));
            EXPECT_EQ(+stream->next().header.dport, 700);
            stream->close(true);
            world.sleep(sim::kSecond);
        }
        EXPECT_EQ(counted(rds::Stat::recv_ping), 2u);
        EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 1u);
    }, 20 * sim::kSecond);
}

} // namespace
