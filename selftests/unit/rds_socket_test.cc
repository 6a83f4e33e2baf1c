// SPDX-License-Identifier: GPL-2.0
// net/rds/socket, bind, send, receive, options, info through the glue's calls.
#include "rds_test.h"

#include <kapi/errno.h>

#include <cstring>
#include <utility>
#include <vector>

namespace {

using Rds = RdsTest;

TEST_F(Rds, check__type_and_protocol)
{
    EXPECT_EQ(rds_socket_check(5, 0), 0);
    EXPECT_EQ(rds_socket_check(1, 0), -KAPI_ESOCKTNOSUPPORT);
    EXPECT_EQ(rds_socket_check(5, 7), -KAPI_ESOCKTNOSUPPORT);
}

TEST_F(Rds, bind__errors)
{
    run(a, [&] {
        RdsSocket socket(host_a), other(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(other.open(), 0);
        EXPECT_EQ(socket.bind(sim::address("0.0.0.0", 5)), -KAPI_EINVAL);
        EXPECT_EQ(socket.bind(sim::address("224.0.0.1", 5)), -KAPI_EINVAL);
        EXPECT_EQ(socket.bind(sim::address("10.0.0.1", 1)), -KAPI_EINVAL);
        EXPECT_EQ(socket.bind(sim::address("fe80::1", 5)), -KAPI_EINVAL);
        unsigned char foreign[28] = {99};
        EXPECT_EQ(rds_socket_bind(socket.core(), foreign, sizeof(foreign)), -KAPI_EINVAL);
        EXPECT_EQ(socket.bind(sim::address("10.0.0.9", 5)), -KAPI_EADDRNOTAVAIL);
        EXPECT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(socket.bind(sim::address("10.0.0.1", 6)), -KAPI_EINVAL);
        EXPECT_EQ(other.bind(sim::address("10.0.0.1", 5)), -KAPI_EADDRINUSE);
        EXPECT_EQ(other.bind(sim::address("10.0.0.1", 0)), 0);
        unsigned char name[28];
        EXPECT_EQ(rds_socket_getname(other.core(), name, 0), 16);
        EXPECT_GE(address_of(name, 16).port, 2);
    });
}

TEST_F(Rds, connect__what_is_no_host_by_the_name_s_family)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        auto connect = [&](const char *address, unsigned short family, int size) {
            unsigned char bytes[128] = {};
            kapi_addr to = sim::address(address, 9);
            std::memcpy(bytes, &family, sizeof(family));
            bytes[3] = 9;
            std::memcpy(bytes + (family == RDS_ABI_AF_INET ? 4 : 8), to.ip + (family == RDS_ABI_AF_INET ? 12 : 0),
                        family == RDS_ABI_AF_INET ? 4 : 16);
            return rds_socket_connect(socket.core(), bytes, size);
        };
        for (int size : {16, 27, 28, 128}) {
            EXPECT_EQ(connect("0.0.0.0", RDS_ABI_AF_INET, size), -KAPI_EDESTADDRREQ) << size;
            EXPECT_EQ(connect("224.0.0.1", RDS_ABI_AF_INET, size), -KAPI_EINVAL) << size;
            EXPECT_EQ(connect("255.255.255.255", RDS_ABI_AF_INET, size), -KAPI_EINVAL) << size;
        }
        EXPECT_EQ(connect("0.0.0.0", RDS_ABI_AF_INET6, 28), -KAPI_EPROTOTYPE); // v4-mapped
        EXPECT_EQ(connect("224.0.0.1", RDS_ABI_AF_INET6, 28), -KAPI_EPROTOTYPE);
        EXPECT_EQ(connect("ff02::1", RDS_ABI_AF_INET6, 28), -KAPI_EPROTOTYPE);
    });
}

// A port's bit in the map belongs to the socket that has the port: one that closes clears it before the next can have it.
class Successor : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    Successor() : RdsTest(static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(Successor, congested__peers_are_still_told_after_the_one_before_has_closed)
{
    RdsSocket before(host_b), after(host_b), sender(host_a);
    auto full = [&](RdsSocket &socket) {
        EXPECT_EQ(socket.open(), 0);
        socket.sk().rcvbuf = 4096;
        int result;
        while ((result = socket.bind(sim::address("10.0.0.2", 70))) == -KAPI_EADDRINUSE)
            world.point("the port is in use");
        EXPECT_EQ(result, 0);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(send(socket, std::string(1000, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), 1000);
    };
    run(b, [&] { full(before); });
    auto closes = world.spawn(b, "closes", [&] { before.close(); });
    auto follows = world.spawn(b, "follows", [&] { full(after); });
    EXPECT_TRUE(world.run_until([&] { return closes->is_done() && follows->is_done(); }, 10 * sim::kSecond));
    run(a, [&] {
        EXPECT_EQ(sender.open(), 0);
        EXPECT_EQ(sender.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(send(sender, "to another port", "10.0.0.2", 71), 15);
        world.sleep(sim::kSecond);
        EXPECT_EQ(send(sender, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        sender.close();
    });
    run(b, [&] { after.close(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, Successor, ::testing::Range(1, 60));

TEST_F(Rds, send__errors)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", 9), -KAPI_ENOTCONN);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", 9, 0x10000000), -KAPI_EOPNOTSUPP);
        EXPECT_EQ(send(socket, "x", "2001:db8::2", 9), -KAPI_EOPNOTSUPP);
        EXPECT_EQ(send(socket, std::string(socket.sk().sndbuf, 'x'), "10.0.0.2", 9), -KAPI_EMSGSIZE);
        EXPECT_EQ(send(socket, "x", "255.255.255.255", 9), -KAPI_EINVAL);
    });
}

TEST_F(Rds, send__half_of_the_buffer_is_the_largest_message_up_to_a_MiB)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        for (auto [sndbuf, most] : {std::pair{8000, 4000l}, {64 << 20, 1l << 20}}) {
            socket.sk().sndbuf = sndbuf;
            std::string text(static_cast<std::size_t>(most) + 1, 'x');
            EXPECT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), -KAPI_EMSGSIZE);
            text.pop_back();
            EXPECT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), most);
        }
    });
}

// Who may wait gives a peer so long to say how many paths it has, but not longer than the program allows.
TEST_F(Rds, send__to_a_silent_host_takes_five_seconds_at_most_once)
{
    run(a, [&] {
        for (auto [timeout_ns, most_ns] : {std::pair{KAPI_FOREVER, 5 * sim::kSecond}, {2 * sim::kSecond, 2 * sim::kSecond}}) {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
            socket.sk().sndtimeo_ns = timeout_ns;
            std::uint64_t before = world.now_ns();
            EXPECT_EQ(send(socket, "x", "10.0.0.77", 9), 1);
            std::uint64_t took_ns = world.now_ns() - before;
            EXPECT_TRUE(took_ns >= most_ns && took_ns < most_ns + 10 * sim::kMillisecond) << took_ns;
            before = world.now_ns();
            EXPECT_EQ(send(socket, "x", "10.0.0.77", 9), 1);
            EXPECT_LT(world.now_ns() - before, 10 * sim::kMillisecond);
        }
    });
}

TEST_F(Rds, send__a_fault_leaves_nothing)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        std::vector<unsigned char> memory(60'000);
        SocketName name(sim::address("10.0.0.2", 9));
        for (std::size_t fault_at : {std::size_t{0}, std::size_t{4095}, std::size_t{30'000}, memory.size() - 1}) {
            kapi_msg msg{};
            msg.memory = memory.data();
            msg.size = memory.size();
            msg.fault_at = fault_at;
            rds_send call{&msg, memory.size(), name.bytes, name.size, nullptr, 0, 0};
            EXPECT_EQ(rds_socket_sendmsg(socket.core(), &call), -KAPI_EFAULT);
        }
    });
}

// No host has 10.0.0.77, so everything stays queued.
TEST_F(Rds, send__a_larger_buffer_wakes_the_sender)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 8000;
        std::string text(4000, 'x');
        ASSERT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 4000);
        ASSERT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(socket, text, "10.0.0.77", 9), 4000); });
        world.sleep(sim::kSecond);
        EXPECT_FALSE(sender->is_done());
        socket.sk().sndbuf = 16'000;
        rds_socket_send_limit_changed(socket.core());
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(sender->is_done());
    });
}

TEST_F(Rds, cancel__takes_what_one_destination_has_not_got)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 20'000;
        std::string text(1000, 'x');
        for (int i = 0; i < 10; i++)
            ASSERT_EQ(send(socket, text, i % 2 ? "10.0.0.77" : "10.0.0.78", 9, RDS_ABI_MSG_DONTWAIT), 1000);
        ASSERT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        SocketName name(sim::address("10.0.0.77", 9));
        EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size), 0);
        for (int i = 0; i < 5; i++)
            EXPECT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 1000);
        EXPECT_EQ(send(socket, text, "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
    });
}

TEST_F(Rds, receive__flags_and_errors)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
        EXPECT_EQ(receive(socket, RDS_ABI_MSG_DONTWAIT), "error -11");
        socket.sk().rcvtimeo_ns = sim::kMillisecond;
        EXPECT_EQ(receive(socket), "error -110");
        EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
        kapi_addr from;
        EXPECT_EQ(receive(socket, RDS_ABI_MSG_PEEK, &from), "hello");
        EXPECT_EQ(from.port, 5);
        EXPECT_NE(socket.poll() & KAPI_IN, 0u);
        char small[2];
        unsigned flags = 0;
        EXPECT_EQ(socket.receive(small, 2, nullptr, RDS_ABI_MSG_PEEK, &flags), 2);
        EXPECT_EQ(flags & RDS_ABI_MSG_TRUNC, static_cast<unsigned>(RDS_ABI_MSG_TRUNC));
        EXPECT_EQ(socket.receive(small, 2, nullptr, RDS_ABI_MSG_TRUNC, &flags), 5);
        EXPECT_EQ(socket.poll() & KAPI_IN, 0u);
        EXPECT_EQ(receive(socket, RDS_ABI_MSG_OOB), "");
    });
}

TEST_F(Rds, receive__a_fault_keeps_the_message)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
        EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
        unsigned char buffer[16];
        kapi_msg msg{};
        msg.memory = buffer;
        msg.size = sizeof(buffer);
        msg.fault_at = 3;
        rds_receive call{};
        call.msg = &msg;
        call.size = sizeof(buffer);
        EXPECT_EQ(rds_socket_recvmsg(socket.core(), &call), -KAPI_EFAULT);
        EXPECT_EQ(receive(socket), "hello");
    });
}

TEST_F(Rds, tcp__every_size_both_families_both_ways)
{
    for (const char *family : {"10.0.0.", "2001:db8::"}) {
        std::string to = std::string(family) + "2", from = std::string(family) + "1";
        static constexpr std::size_t kSizes[] = {0, 1, 47, 48, 4096, 4097, 65'536, 1 << 20};
        auto server = world.spawn(b, "server", [&] {
            RdsSocket socket(host_b);
            ASSERT_EQ(socket.open(), 0);
            socket.sk().rcvbuf = socket.sk().sndbuf = 4 << 20;
            ASSERT_EQ(socket.bind(sim::address(to.c_str(), 7)), 0);
            for (std::size_t size : kSizes) {
                kapi_addr peer;
                std::string text = receive(socket, 0, &peer);
                EXPECT_EQ(text, std::string(size, 'q'));
                EXPECT_EQ(peer.port, 8);
                EXPECT_EQ(send(socket, text + "!", from.c_str(), 8), size == 1 << 20 ? -KAPI_EMSGSIZE
                                                                                     : static_cast<long>(size) + 1);
            }
        });
        run(a, [&] {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(), 0);
            socket.sk().rcvbuf = socket.sk().sndbuf = 4 << 20;
            ASSERT_EQ(socket.bind(sim::address(from.c_str(), 8)), 0);
            for (std::size_t size : kSizes)
                EXPECT_EQ(send(socket, std::string(size, 'q'), to.c_str(), 7), static_cast<long>(size));
            for (std::size_t i = 0; i + 1 < std::size(kSizes); i++)
                EXPECT_EQ(receive(socket).size(), kSizes[i] + 1);
        });
        EXPECT_TRUE(world.run_until([&] { return server->is_done(); }, 10 * sim::kSecond));
    }
}

TEST_F(Rds, unload__busy_while_a_socket_is_bound)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_FALSE(host_a.unload());
    });
}

TEST_F(Rds, info__every_item_of_every_length)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", 9), 1);
        for (int item = RDS_ABI_INFO_FIRST; item <= RDS_ABI_INFO_LAST; item++) {
            int needed = 0;
            unsigned char nothing;
            int each = socket.get_option(item, &nothing, &needed);
            if (each == -KAPI_ENOPROTOOPT)
                continue;
            for (int room : {0, 1, needed - 1, needed, needed + 1}) {
                if (room < 0)
                    continue;
                std::vector<unsigned char> rows(static_cast<std::size_t>(room) + 1);
                int length = room;
                int result = socket.get_option(item, rows.data(), &length);
                EXPECT_EQ(result, room < needed ? -KAPI_ENOSPC : each < 0 ? result : each) << item << " in " << room;
            }
        }
    });
}

TEST_F(Rds, options__errors)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        int on = 1;
        EXPECT_EQ(socket.set_option(RDS_ABI_RECVERR, &on, 4), 0);
        EXPECT_EQ(socket.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0);
        EXPECT_EQ(socket.set_option(RDS_ABI_RECVERR, &on, 3), -KAPI_EINVAL);
        EXPECT_EQ(socket.set_option(4, &on, 4), -KAPI_ENOPROTOOPT);
        int transport = RDS_ABI_TRANS_TCP;
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &transport, 3), -KAPI_EINVAL);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &transport, 4), 0);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &transport, 4), -KAPI_EOPNOTSUPP);
        int got = -5, length = 4;
        socket.get_option(RDS_ABI_SO_TRANSPORT, &got, &length);
        EXPECT_EQ(got, RDS_ABI_TRANS_TCP);
    });
}

TEST_F(Rds, close__of_a_full_socket_frees_its_peer)
{
    RdsSocket receiver(host_b);
    run(b, [&] {
        ASSERT_EQ(receiver.open(), 0);
        receiver.sk().rcvbuf = 4096;
        ASSERT_EQ(receiver.bind(sim::address("10.0.0.2", 7)), 0);
    });
    auto sender = world.spawn(a, "sender", [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 8)), 0);
        for (int i = 0; i < 500; i++)
            EXPECT_EQ(send(socket, std::string(3000, 'x'), "10.0.0.2", 7), 3000);
    });
    world.run_for(5 * sim::kSecond);
    EXPECT_FALSE(sender->is_done());
    run(b, [&] { receiver.close(); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 10 * sim::kSecond));
}

// A stream that has the beginning of a message must get the rest, however long the peer takes; its sender is gone.
TEST_F(Rds, close__a_pinned_message_in_a_stream_does_not_hold_the_socket)
{
    static std::string memory(1 << 20, 'x'); // more than a stream takes at once
    RdsSocket sender(host_a);
    run(a, [&] {
        ASSERT_EQ(sender.open(), 0);
        ASSERT_EQ(sender.bind(sim::address("10.0.0.1", 5)), 0);
        sender.sk().zerocopy = true;
        sender.sk().sndbuf = 4 << 20;
        EXPECT_EQ(send(sender, "x", "10.0.0.2", 9), 1);
        world.sleep(sim::kSecond); // the path is up
        world.network().cut(a, b);
        EXPECT_EQ(sender.send_pinned(memory.data(), memory.size(), sim::address("10.0.0.2", 9), 7), 1 << 20);
        sender.close();
        EXPECT_TRUE(host_a.unload_soon());
    });
    world.network().cut(a, b, false);
}

} // namespace
