// SPDX-License-Identifier: GPL-2.0
// Options, the values that they refuse, and the information on connections.
#include "kcm_test.h"

namespace {

class KcmOptions : public KcmTest {
protected:
    int set(KcmSocket &socket, int name, int value, int length, std::size_t readable = sizeof(int))
    {
        kapi_optval optval{reinterpret_cast<unsigned char *>(&value), readable};
        return kcm_socket_setsockopt(socket.core(), name, &optval, length);
    }
    int get(KcmSocket &socket, int name, int &length)
    {
        int value = -1;
        kapi_optval optval{reinterpret_cast<unsigned char *>(&value), sizeof(value)};
        return kcm_socket_getsockopt(socket.core(), name, &optval, &length);
    }
};

TEST_F(KcmOptions, sockets__are_of_two_types)
{
    EXPECT_EQ(kcm_socket_check(KCM_ABI_SOCK_DGRAM, 0), 0);
    EXPECT_EQ(kcm_socket_check(KCM_ABI_SOCK_SEQPACKET, 0), 0);
    EXPECT_EQ(kcm_socket_check(1, 0), -KAPI_ESOCKTNOSUPPORT);
    EXPECT_EQ(kcm_socket_check(KCM_ABI_SOCK_DGRAM, 1), -KAPI_EPROTONOSUPPORT);
}

TEST_F(KcmOptions, options__are_checked_and_read_back)
{
    KcmSocket &socket = new_socket();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        for (int name : {KCM_ABI_RECV_DISABLE, KCM_ABI_ERRORS, KCM_ABI_RECV_CONNECTION, KCM_ABI_RECV_LENGTHS}) {
            EXPECT_EQ(socket.get_option(name), 0);
            EXPECT_EQ(set(socket, name, 7, 8), 0);
            EXPECT_EQ(socket.get_option(name), 1);
            EXPECT_EQ(set(socket, name, 0, 4), 0);
            EXPECT_EQ(socket.get_option(name), 0);
            EXPECT_EQ(set(socket, name, 1, 3), -KAPI_EINVAL);
            EXPECT_EQ(set(socket, name, 1, 4, 0), -KAPI_EFAULT);
        }
        EXPECT_EQ(set(socket, KCM_ABI_STEERING, 3, 4), -KAPI_EINVAL);
        EXPECT_EQ(set(socket, KCM_ABI_STEERING, -1, 4), -KAPI_EINVAL);
        EXPECT_EQ(set(socket, KCM_ABI_STEERING, KCM_ABI_STEER_CPU, 4), 0);
        EXPECT_EQ(socket.get_option(KCM_ABI_STEERING), KCM_ABI_STEER_CPU);
        EXPECT_EQ(set(socket, KCM_ABI_MAX_MESSAGE, -1, 4), -KAPI_EINVAL);
        EXPECT_EQ(set(socket, KCM_ABI_MAX_MESSAGE, 64 << 20, 4), 0);
        EXPECT_EQ(set(socket, KCM_ABI_MAX_MESSAGE, (64 << 20) + 1, 4), -KAPI_EINVAL);
        EXPECT_EQ(set(socket, KCM_ABI_MAX_MESSAGE, 100'000, 4), 0);
        EXPECT_EQ(socket.get_option(KCM_ABI_MAX_MESSAGE), 100'000);
        EXPECT_EQ(set(socket, 2, 1, 4), -KAPI_ENOPROTOOPT);
        for (int length : {2, 4, 64}) {
            int told = length;
            EXPECT_EQ(get(socket, KCM_ABI_RECV_DISABLE, told), 0);
            EXPECT_EQ(told, std::min(length, 4));
        }
        int negative = -1;
        EXPECT_EQ(get(socket, KCM_ABI_RECV_DISABLE, negative), -KAPI_EINVAL);
        EXPECT_EQ(socket.get_option(2), -KAPI_ENOPROTOOPT);
    });
}

TEST_F(KcmOptions, stats__tell_of_each_connection)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, framed("out")), 7);
    EXPECT_EQ(peer_reads(ends, 7), framed("out"));
    peer_writes(ends, framed("in") + framed("partial").substr(0, 9));
    settle();
    run(a, [&] {
        auto rows = socket.connections();
        ASSERT_EQ(rows.size(), 1u);
        EXPECT_EQ(rows[0].tx_msgs, 1u);
        EXPECT_EQ(rows[0].tx_bytes, 7u);
        EXPECT_EQ(rows[0].tx_reserved, 1u);
        EXPECT_EQ(rows[0].rx_msgs, 1u);
        EXPECT_EQ(rows[0].rx_bytes, 6u);
        EXPECT_EQ(rows[0].rx_partial, 9u);
        EXPECT_EQ(rows[0].state, 0u);
        EXPECT_EQ(rows[0].remote_port, 7000);
        EXPECT_EQ(rows[0].remote_addr[15], 2);
        int length = 8;
        EXPECT_EQ(get(socket, KCM_ABI_STATS, length), -KAPI_ENOSPC);
        EXPECT_EQ(length, static_cast<int>(sizeof(rows[0])));
    });
    attach(socket, connect());
    run(a, [&] {
        std::vector<kcm_abi_connection_stats> rows(3);
        const std::size_t exact = 2 * sizeof(rows[0]);
        for (std::size_t size : {exact - 1, exact, exact + 1}) {
            kapi_optval optval{reinterpret_cast<unsigned char *>(rows.data()), size};
            int length = static_cast<int>(size);
            EXPECT_EQ(kcm_socket_getsockopt(socket.core(), KCM_ABI_STATS, &optval, &length), size < exact ? -KAPI_ENOSPC : 0);
            EXPECT_EQ(length, static_cast<int>(exact));
        }
        EXPECT_EQ(rows[0].remote_port, 7000);
        EXPECT_EQ(rows[1].remote_port, 7001);
        kcm_abi_attached attached[2]{{ends.here, 0, 0}, {}};
        kapi_optval optval{reinterpret_cast<unsigned char *>(attached), sizeof(attached)};
        int length = sizeof(attached);
        EXPECT_EQ(kcm_socket_getsockopt(socket.core(), KCM_ABI_ATTACHED, &optval, &length), 0);
        EXPECT_EQ(length, static_cast<int>(sizeof(attached[0])));
        EXPECT_EQ(attached[0].id, rows[0].id);
    });
    run(b, [&] { sim::program_shutdown_write(ends.there); });
    settle();
    run(a, [&] {
        auto rows = socket.connections();
        EXPECT_EQ(rows[0].error, KAPI_EPIPE);
        EXPECT_TRUE(rows[0].state & KCM_ABI_CONN_TX_STOPPED);
    });
}

} // namespace
