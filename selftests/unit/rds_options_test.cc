// SPDX-License-Identifier: GPL-2.0
// net/rds/options, and what options change in connect, sendmsg, recvmsg and poll.
#include "rds_test.h"

#include <kapi/errno.h>

#include <cstring>

namespace {

/** A socket of machine a, bound to 127.0.0.1 port 5 unless the test binds it itself. All in a task of a. */
class Options : public RdsTest {
protected:
    void with_socket(const std::function<void(RdsSocket &)> &body, bool bound = true)
    {
        run(a, [&] {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(), 0);
            if (bound) {
                ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
            }
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 10 * sim::kMillisecond;
            body(socket);
        });
    }

    static int ioctl(RdsSocket &socket, unsigned command, unsigned char &tos)
    {
        kapi_optval argument{&tos, 1};
        return rds_socket_ioctl(socket.core(), command, &argument);
    }
};

TEST_F(Options, cancel_sent_to__names_of_every_length)
{
    with_socket([](RdsSocket &socket) {
        SocketName v4(sim::address("10.0.0.2", 9)), v6(sim::address("2001:db8::2", 9));
        for (int size : {0, 1, 15})
            EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, v4.bytes, size), -KAPI_EINVAL) << size;
        EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, v4.bytes, 16), 0);
        EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, v6.bytes, 28), 0);
    });
    with_socket(
        [](RdsSocket &socket) {
            SocketName v4(sim::address("10.0.0.2", 9));
            EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, v4.bytes, 16), -KAPI_ENOTCONN);
        },
        false);
}

TEST_F(Options, cancel_sent_to__a_scope_belongs_to_link_local_names_only)
{
    constexpr kapi_u32 link = 2;
    a.initial_net().add(sim::address("fe80::1"), link);
    world.network().cut(a, b);
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("fe80::1", 5, link)), 0);
        socket.sk().sndbuf = 4096;
        auto fill = [&](const kapi_addr &to) {
            std::string text(1000, 'x');
            for (int i = 0; i < 100; i++)
                if (socket.send(text.data(), text.size(), to, RDS_ABI_MSG_DONTWAIT) == -KAPI_EAGAIN)
                    return;
            ADD_FAILURE() << "it is never full";
        };
        auto room_after_cancel = [&](const kapi_addr &to) {
            SocketName name(to);
            EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size), 0);
            return (socket.poll() & KAPI_OUT) != 0;
        };
        fill(sim::address("2001:db8::2", 9));
        EXPECT_FALSE(room_after_cancel(sim::address("2001:db8::2", 10)));
        EXPECT_TRUE(room_after_cancel(sim::address("2001:db8::2", 9)));
        fill(sim::address("fe80::2", 9, link));
        EXPECT_FALSE(room_after_cancel(sim::address("fe80::2", 9, link + 1)));
        EXPECT_TRUE(room_after_cancel(sim::address("fe80::2", 9, link)));
        fill(sim::address("fe80::2", 9, link));
        EXPECT_TRUE(room_after_cancel(sim::address("fe80::2", 9))); // on any link
    });
}

TEST_F(Options, cancel_sent_to__makes_room)
{
    world.network().cut(a, b);
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 16384; // counted twice, so 8192 bytes
        EXPECT_EQ(send(socket, std::string(8192, 'x'), "10.0.0.2", 9, RDS_ABI_MSG_DONTWAIT), 8192);
        EXPECT_EQ(send(socket, std::string(8192, 'x'), "10.0.0.2", 9, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        EXPECT_EQ(socket.poll() & KAPI_OUT, 0u);
        SocketName to(sim::address("10.0.0.2", 9));
        EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, to.bytes, to.size), 0);
        EXPECT_NE(socket.poll() & KAPI_OUT, 0u);
        EXPECT_EQ(send(socket, std::string(8192, 'x'), "10.0.0.2", 9, RDS_ABI_MSG_DONTWAIT), 8192);
    });
    world.network().cut(a, b, false);
}

TEST_F(Options, rdma__answers_as_on_a_host_without)
{
    rds_abi_get_mr_args region{};
    rds_abi_get_mr_for_dest_args for_dest{};
    rds_abi_free_mr_args freed{};
    for (bool bound : {false, true}) {
        with_socket(
            [&](RdsSocket &socket) {
                int none = bound ? -KAPI_EOPNOTSUPP : -KAPI_ENOTCONN;
                EXPECT_EQ(socket.set_option(RDS_ABI_GET_MR, &region, sizeof(region)), none);
                EXPECT_EQ(socket.set_option(RDS_ABI_GET_MR, &region, 3), -KAPI_EINVAL);
                EXPECT_EQ(socket.set_option(RDS_ABI_GET_MR_FOR_DEST, &for_dest, sizeof(for_dest)), none);
                EXPECT_EQ(socket.set_option(RDS_ABI_FREE_MR, &freed, sizeof(freed)), -KAPI_EINVAL);
                kapi_optval bad{nullptr, 0};
                EXPECT_EQ(rds_socket_setsockopt(socket.core(), RDS_ABI_FREE_MR, &bad, sizeof(freed)), -KAPI_EFAULT);
            },
            bound);
    }
}

// What is wrong with an operation is reported before that there is no RDMA at all.
TEST_F(Options, rdma__operation_is_checked_as_on_a_host_with)
{
    with_socket([](RdsSocket &socket) {
        auto send_with = [&](const rds_abi_rdma_args &args) {
            struct {
                rds_abi_cmsghdr head;
                rds_abi_rdma_args args;
            } control{{sizeof(control), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RDMA_ARGS}, args};
            char byte = 'x';
            kapi_msg msg{};
            msg.memory = reinterpret_cast<unsigned char *>(&byte);
            msg.size = 1;
            SocketName name(sim::address("127.0.0.1", 5));
            rds_send call{&msg, 1, name.bytes, name.size, &control, sizeof(control), 0};
            return rds_socket_sendmsg(socket.core(), &call);
        };
        rds_abi_iovec local{4096, 8};
        rds_abi_rdma_args args{0, {0, 8}, reinterpret_cast<std::uintptr_t>(&local), 1, 0, 0};
        EXPECT_EQ(send_with(args), -KAPI_EOPNOTSUPP);
        local.bytes = 0;
        EXPECT_EQ(send_with(args), -KAPI_EINVAL);
    });
}

TEST_F(Options, transport__must_exist_and_suit_the_address)
{
    with_socket(
        [](RdsSocket &socket) {
            for (int type : {-1, 3, 77}) {
                EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &type, 4), -KAPI_EINVAL) << type;
            }
            int ib = RDS_ABI_TRANS_IB, tcp = RDS_ABI_TRANS_TCP;
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &ib, 4), -KAPI_ENOPROTOOPT);
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, 4), 0);
            EXPECT_EQ(socket.bind(sim::address("10.0.0.99", 5)), -KAPI_ENOPROTOOPT);
            EXPECT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        },
        false);
}

TEST_F(Options, transport__of_a_namespace)
{
    run(a, [&] {
        kapi_net &net = a.add_net();
        net.add(sim::address("10.9.9.9"));
        ASSERT_EQ(host_a.add_net(net), 0);
        {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(net), 0);
            int ib = RDS_ABI_TRANS_IB, tcp = RDS_ABI_TRANS_TCP;
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &ib, 4), -KAPI_ENOPROTOOPT) << "it is not loaded";
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, 4), 0);
        }
        EXPECT_TRUE(host_a.delete_nets({&net}));
    });
}

// The second caller is refused, and gives back its reference to the module: it unloads at the end of the test.
TEST_F(Options, transport__of_two_threads)
{
    int tcp = RDS_ABI_TRANS_TCP;
    for (unsigned round = 0; round < 200; round++) {
        RdsSocket socket(host_a);
        run(a, [&] { ASSERT_EQ(socket.open(), 0); });
        int result[2] = {1, 1};
        sim::TaskRef tasks[2];
        for (unsigned i = 0; i < 2; i++)
            tasks[i] = world.spawn(a, "setsockopt", [&, i] {
                result[i] = socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, 4);
            });
        ASSERT_TRUE(world.run_until([&] { return tasks[0]->is_done() && tasks[1]->is_done(); }, sim::kSecond));
        EXPECT_EQ(result[0] + result[1], -KAPI_EOPNOTSUPP);
        run(a, [&] { socket.close(); });
    }
}

TEST_F(Options, link_local__the_scope_of_connect_and_bind_is_one)
{
    a.initial_net().add(sim::address("fe80::1", 0, 2));
    with_socket(
        [](RdsSocket &socket) {
            EXPECT_EQ(socket.connect(sim::address("fe80::9", 5, 2)), 0);
            EXPECT_EQ(socket.bind(sim::address("fe80::1", 6, 3)), -KAPI_EINVAL);
            EXPECT_EQ(socket.bind(sim::address("fe80::1", 6, 2)), 0);
            EXPECT_EQ(socket.connect(sim::address("fe80::9", 5, 3)), -KAPI_EINVAL);
            EXPECT_EQ(socket.connect(sim::address("fe80::9", 5, 2)), 0);
        },
        false);
}

TEST_F(Options, recverr__reads_back)
{
    with_socket([](RdsSocket &socket) {
        int on = 7, got = -1, length = 4;
        EXPECT_EQ(socket.set_option(RDS_ABI_RECVERR, &on, 4), 0);
        EXPECT_EQ(socket.get_option(RDS_ABI_RECVERR, &got, &length), 0);
        EXPECT_EQ(got, 1);
        length = 3;
        EXPECT_EQ(socket.get_option(RDS_ABI_RECVERR, &got, &length), -KAPI_EINVAL);
        length = 4;
        EXPECT_EQ(socket.get_option(RDS_ABI_CONG_MONITOR, &got, &length), -KAPI_ENOPROTOOPT);
        length = -1;
        EXPECT_EQ(rds_socket_getsockopt(socket.core(), RDS_ABI_INFO_SOCKETS, nullptr, &length, &got), -KAPI_EINVAL);
        EXPECT_EQ(got, 0);
        length = 0;
        kapi_optval none{nullptr, 0};
        EXPECT_EQ(rds_socket_getsockopt(socket.core(), RDS_ABI_INFO_SOCKETS, &none, &length, &got), -KAPI_ENOSPC);
        EXPECT_EQ(got, 1);
        EXPECT_GT(length, 0);
    });
}

TEST_F(Options, tos__belongs_to_transports_that_know_it)
{
    with_socket(
        [](RdsSocket &socket) {
            unsigned char tos = 3;
            EXPECT_EQ(ioctl(socket, RDS_ABI_SIOCRDSSETTOS, tos), -KAPI_ENOIOCTLCMD); // no transport yet
            EXPECT_EQ(ioctl(socket, 0x1234, tos), -KAPI_ENOIOCTLCMD);
            EXPECT_EQ(ioctl(socket, RDS_ABI_SIOCRDSGETTOS, tos), 0);
            EXPECT_EQ(tos, 0);
        },
        false);
}

TEST_F(Options, connect__and_names)
{
    with_socket(
        [](RdsSocket &socket) {
            unsigned char name[28];
            EXPECT_EQ(rds_socket_getname(socket.core(), name, 1), -KAPI_ENOTCONN);
            EXPECT_EQ(socket.connect(sim::address("0.0.0.0", 5)), -KAPI_EDESTADDRREQ);
            EXPECT_EQ(socket.connect(sim::address("224.0.0.1", 5)), -KAPI_EINVAL);
            EXPECT_EQ(socket.connect(sim::address("ff02::1", 5)), -KAPI_EPROTOTYPE);
            EXPECT_EQ(socket.connect(sim::address("fe80::1", 5)), -KAPI_EINVAL); // no scope
            EXPECT_EQ(socket.connect(sim::address("127.0.0.1", 5)), 0);
            EXPECT_EQ(rds_socket_getname(socket.core(), name, 1), 16);
            EXPECT_EQ(address_of(name, 16).port, 5);
            EXPECT_EQ(rds_socket_getname(socket.core(), name, 0), 16); // of the peer's family, before bind
            EXPECT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
            rds_send call{};
            kapi_msg msg{};
            msg.memory = name;
            msg.size = call.size = 4;
            call.msg = &msg;
            EXPECT_EQ(rds_socket_sendmsg(socket.core(), &call), 4); // to the connected peer
            EXPECT_EQ(receive(socket).size(), 4u);
        },
        false);
}

TEST_F(Options, info__messages_of_both_families)
{
    run(a, [&] {
        RdsSocket v4(host_a), v6(host_a);
        ASSERT_EQ(v4.open(), 0);
        ASSERT_EQ(v6.open(), 0);
        ASSERT_EQ(v4.bind(sim::address("10.0.0.1", 5)), 0);
        ASSERT_EQ(v6.bind(sim::address("2001:db8::1", 6)), 0);
        EXPECT_EQ(v6.connect(sim::address("2001:db8::2", 7)), 0);
        EXPECT_EQ(send(v4, "one", "10.0.0.1", 5), 3);
        EXPECT_EQ(send(v6, "three", "2001:db8::1", 6), 5);
        rds_abi_info_message received;
        int length = sizeof(received);
        EXPECT_EQ(v4.get_option(RDS_ABI_INFO_RECV_MESSAGES, &received, &length), static_cast<int>(sizeof(received)));
        EXPECT_EQ(received.len, 3u);
        rds_abi_info6_message both[2];
        length = sizeof(both);
        EXPECT_EQ(v4.get_option(RDS_ABI_INFO6_RECV_MESSAGES, both, &length), static_cast<int>(sizeof(both[0])));
        EXPECT_EQ(length, static_cast<int>(sizeof(both)));
        rds_abi_info6_socket sockets[2];
        length = sizeof(sockets);
        EXPECT_EQ(v4.get_option(RDS_ABI_INFO6_SOCKETS, sockets, &length), static_cast<int>(sizeof(sockets[0])));
        EXPECT_EQ(length, static_cast<int>(sizeof(sockets)));
    });
}

} // namespace
