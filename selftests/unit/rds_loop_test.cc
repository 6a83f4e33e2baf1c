// SPDX-License-Identifier: GPL-2.0
// net/rds/loop: what is different on loopback, and the limit of a receive queue there.
#include "rds_test.h"

#include <kapi/errno.h>

#include <string>

#include "net/rds/net.h"
#include "net/rds/transport.h"

namespace {

class Loop : public RdsTest {
protected:
    Loop() : from(host_a), to(host_a)
    {
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(to.open(), 0);
        });
    }
    ~Loop() override
    {
        run(a, [&] { from.close(), to.close(); });
    }
    RdsSocket from, to;
};

TEST_F(Loop, addresses)
{
    run(a, [&] {
        EXPECT_EQ(from.bind(sim::address("::1", 5)), 0);
        EXPECT_EQ(to.bind(sim::address("127.1.2.3", 6)), 0);
        int type = 0, length = sizeof(type);
        for (RdsSocket *socket : {&from, &to}) {
            EXPECT_EQ(socket->get_option(RDS_ABI_SO_TRANSPORT, &type, &length), 0);
            EXPECT_EQ(type, RDS_TRANSPORT_LOOP);
        }
        EXPECT_EQ(send(from, "x", "::1", 5), 1);
        EXPECT_EQ(receive(from), "x");
    });
}

TEST_F(Loop, no_zerocopy)
{
    run(a, [&] {
        ASSERT_EQ(from.bind(sim::address("127.0.0.1", 5)), 0);
        from.sk().zerocopy = true;
        std::string text(5000, 'x');
        EXPECT_EQ(from.send_pinned(text.data(), text.size(), sim::address("127.0.0.1", 5), 7), -KAPI_EOPNOTSUPP);
    });
}

// A byte of the program's own memory keeps a page.
TEST_F(Loop, zerocopy__counts_pages)
{
    constexpr unsigned kPage = 4096, kReceives = (2 << 20) + (256 << 10), kSends = 212992 / 2 * 8;
    run(a, [&] {
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 6)), 0);
        from.sk().zerocopy = true;
        unsigned sent = 0;
        long result = 1;
        while ((result = from.send_pinned("x", 1, sim::address("10.0.0.1", 6), sent, RDS_ABI_MSG_DONTWAIT)) == 1)
            sent++;
        EXPECT_EQ(result, -KAPI_ENOBUFS);
        EXPECT_GT(sent, 100u);
        EXPECT_LT(sent, (kReceives + kSends) / kPage);
        for (; sent; sent--)
            EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "x");
    });
}

// The limit of a socket on loopback counts memory and not payload. A sender of more has to wait.
TEST_F(Loop, a_full_queue_refuses_more)
{
    run(a, [&] {
        ASSERT_EQ(from.bind(sim::address("127.0.0.1", 5)), 0);
        ASSERT_EQ(to.bind(sim::address("127.0.0.1", 6)), 0);
        to.sk().rcvbuf = 4096;
        from.sk().sndbuf = 64 << 20;
        constexpr long kSize = 100'000;
        constexpr int kMessages = 60;
        std::string text(kSize, 'x');
        int sent = 0;
        while (sent < kMessages && send(from, text, "127.0.0.1", 6, RDS_ABI_MSG_DONTWAIT) == kSize)
            sent++;
        EXPECT_EQ(send(from, text, "127.0.0.1", 6, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        world.sleep(10 * sim::kMillisecond);
        rds_abi_info_message rows[128];
        int length = sizeof(rows);
        from.get_option(RDS_ABI_INFO_RECV_MESSAGES, rows, &length);
        long queued = length / static_cast<long>(sizeof(rows[0])) * kSize;
        EXPECT_LE(queued, (9 << 18) + kSize); // 2.25 MiB, which the last one may pass
        EXPECT_GE(queued, 2 << 20);
        auto waits = world.spawn(a, "waits", [&] { EXPECT_EQ(send(from, text, "127.0.0.1", 6), kSize); });
        world.sleep(10 * sim::kMillisecond);
        EXPECT_FALSE(waits->is_done());
        for (int i = 0; i <= sent; i++)
            EXPECT_EQ(receive(to).size(), static_cast<std::size_t>(kSize));
        world.sleep(sim::kMillisecond); // its message is received before its call returns
        EXPECT_TRUE(waits->is_done());
    });
}

TEST_F(Loop, message_for_which_there_is_no_memory__comes_a_little_later)
{
    run(a, [&] {
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 6)), 0);
        from.sk().zerocopy = true; // such a message has no room for what is received
        EXPECT_EQ(send(from, "first", "10.0.0.1", 6), 5);
        EXPECT_EQ(receive(to), "first");
        unsigned late = 0;
        for (unsigned step = 1; step < 12; step++) {
            a.faults().fail_at = a.faults().count + step;
            bool sent = from.send_pinned("x", 1, sim::address("10.0.0.1", 6), step) == 1;
            a.faults().fail_at = 0;
            std::string at_once = receive(to, RDS_ABI_MSG_DONTWAIT);
            world.sleep(20 * sim::kMillisecond);
            if (sent && at_once != "x") {
                EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "x") << step;
                late++;
            }
        }
        EXPECT_GE(late, 1u);
    });
}

// All sockets of two addresses share one path on loopback.
class LoopShared : public Loop, public ::testing::WithParamInterface<std::pair<const char *, long>> {};

TEST_P(LoopShared, a_full_socket_holds_up_no_other)
{
    auto [address, size] = GetParam();
    run(a, [&, address = address, size = size] {
        RdsSocket deaf(host_a);
        ASSERT_EQ(deaf.open(), 0);
        ASSERT_EQ(deaf.bind(sim::address(address, 5)), 0);
        ASSERT_EQ(from.bind(sim::address(address, 6)), 0);
        ASSERT_EQ(to.bind(sim::address(address, 7)), 0);
        std::string text(static_cast<std::size_t>(size), 'x');
        long result = size;
        int sent = 0;
        for (; sent < 20'000 && result == size; sent++)
            result = send(from, text, address, 5, RDS_ABI_MSG_DONTWAIT);
        EXPECT_EQ(result, -KAPI_ENOBUFS);
        for (RdsSocket *socket : {&from, &to})
            socket->sk().rcvtimeo_ns = sim::kSecond;
        EXPECT_EQ(send(from, "to another port", address, 7, RDS_ABI_MSG_DONTWAIT), 15);
        EXPECT_EQ(receive(to), "to another port");
        EXPECT_EQ(send(from, "", address, 0), 0);
        EXPECT_EQ(receive(from), "") << "a ping";
        std::string in(text.size() + 1, '\0');
        for (int i = 1; i < sent; i++)
            EXPECT_EQ(deaf.receive(in.data(), in.size(), nullptr, RDS_ABI_MSG_DONTWAIT), size);
        EXPECT_EQ(send(from, text, address, 5, RDS_ABI_MSG_DONTWAIT), size);
        deaf.close();
    });
}

INSTANTIATE_TEST_SUITE_P(Addresses, LoopShared,
                         ::testing::Values(std::pair("127.0.0.1", 100'000L), std::pair("127.0.0.1", 0L),
                                           std::pair("10.0.0.1", 0L)));

// ---- the transport below all other addresses

TEST_F(Loop, tcp_comes_and_goes_while_rds_stays)
{
    run(a, [&] {
        from.close(), to.close();
        ASSERT_TRUE(host_a.unload_tcp());
        ASSERT_EQ(from.open(), 0);
        EXPECT_EQ(from.bind(sim::address("10.0.0.1", 5)), -KAPI_EADDRNOTAVAIL);
        EXPECT_EQ(from.bind(sim::address("127.0.0.1", 5)), 0);
        EXPECT_EQ(send(from, "x", "127.0.0.1", 5), 1);
        EXPECT_EQ(receive(from), "x");
        ASSERT_EQ(host_a.load_tcp(), 0);
        ASSERT_EQ(to.open(), 0);
        EXPECT_EQ(to.bind(sim::address("10.0.0.1", 5)), 0);
    });
}

TEST_F(Loop, tcp_is_there_once)
{
    run(a, [&] {
        const rds_transport *present = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        ASSERT_NE(present, nullptr);
        rds_transport second = *present;
        EXPECT_EQ(rds_transport_register(&second), -KAPI_EEXIST);
        EXPECT_EQ(rds::Module::get().transport(RDS_TRANSPORT_TCP), present);
        rds::Module::drop_transport(present);
        rds::Module::drop_transport(present);
    });
}

// The addresses of a host talk to each other, and each has a map of its own.
TEST_F(Loop, full_port_of_one_address__leaves_that_of_another_free)
{
    run(a, [&] {
        a.initial_net().add(sim::address("10.0.0.3"));
        RdsSocket full(host_a);
        ASSERT_EQ(full.open(), 0);
        ASSERT_EQ(full.bind(sim::address("10.0.0.1", 70)), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.3", 70)), 0);
        EXPECT_EQ(send(from, "x", "10.0.0.3", 70), 1);
        full.sk().rcvbuf = 4096;
        std::string text(4000, 'x');
        for (int i = 0; i < 100 && send(from, text, "10.0.0.1", 70, RDS_ABI_MSG_DONTWAIT) > 0; i++)
            world.sleep(20 * sim::kMillisecond);
        EXPECT_EQ(send(from, text, "10.0.0.1", 70, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        world.sleep(sim::kSecond);
        EXPECT_EQ(send(from, "y", "10.0.0.3", 70, RDS_ABI_MSG_DONTWAIT), 1);
        EXPECT_EQ(receive(to), "x");
        EXPECT_EQ(receive(to), "y");
        full.close();
    });
}

// The kernel's own takes such messages and drops them, with a connection for each address.
TEST_F(Loop, loopback_address__reaches_this_host_only)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", 5), -KAPI_ENETUNREACH);
        EXPECT_EQ(send(socket, "x", "10.9.9.9", 5), -KAPI_ENETUNREACH);
        EXPECT_EQ(reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.size(), 0u);
        EXPECT_EQ(send(socket, "x", "10.0.0.1", 5), 1);
        EXPECT_EQ(send(socket, "x", "127.0.0.2", 5), 1);
        socket.close();
    });
}

// What counts is the address and not the transport, which a program may choose.
TEST_F(Loop, loopback_address__over_tcp_reaches_this_host_only)
{
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        int tcp = RDS_TRANSPORT_TCP;
        ASSERT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, sizeof(tcp)), 0);
        ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", 5), -KAPI_ENETUNREACH);
        EXPECT_EQ(reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.size(), 0u);
        EXPECT_EQ(send(socket, "x", "127.0.0.1", 5), 1);
        EXPECT_EQ(receive(socket), "x");
        socket.close();
    });
}

} // namespace
