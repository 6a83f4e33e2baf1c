// SPDX-License-Identifier: GPL-2.0
// The contents of the rows of RDS_INFO_*: names, addresses, ports, flags, in both families.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kapi/sim/lock.h"
#include "rds_peer_test.h"

namespace {

constexpr std::uint64_t kSteps = 200; // under a lock

class Info : public RdsTest {
protected:
    Info() : from(host_a), to(host_b), from6(host_a), to6(host_b) {}
    ~Info() override
    {
        run(a, [&] { from.close(), from6.close(); });
        run(b, [&] { to.close(), to6.close(); });
    }
    /** Two sockets a family, connected; a message of each family has been received. */
    void exchange()
    {
        run(b, [&] {
            open(to, "10.0.0.2", 200);
            open(to6, "2001:db8::2", 201);
        });
        run(a, [&] {
            open(from, "10.0.0.1", 100);
            open(from6, "2001:db8::1", 101);
            EXPECT_EQ(from.connect(sim::address("10.0.0.2", 200)), 0);
            EXPECT_EQ(from6.connect(sim::address("2001:db8::2", 201)), 0);
            EXPECT_EQ(send(from, "one", "10.0.0.2", 200), 3);
            EXPECT_EQ(send(from6, "three", "2001:db8::2", 201), 5);
        });
        world.run_for(sim::kSecond);
    }
    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    template <class Row> std::vector<Row> rows(sim::Node &node, RdsSocket &socket, int item)
    {
        std::vector<Row> got(128);
        run(node, [&] {
            int length = static_cast<int>(got.size() * sizeof(Row));
            EXPECT_EQ(socket.get_option(item, got.data(), &length), static_cast<int>(sizeof(Row)));
            got.resize(static_cast<std::size_t>(length) / sizeof(Row));
        });
        return got;
    }
    kapi_u64 counter(const char *wanted) { return counter(wanted, a, from); }
    kapi_u64 counter(const char *wanted, sim::Node &node, RdsSocket &socket)
    {
        for (const auto &row : rows<rds_abi_info_counter>(node, socket, RDS_ABI_INFO_COUNTERS))
            if (name(row.name) == wanted)
                return row.value;
        return ~kapi_u64{0};
    }
    static std::string text(const kapi_u8 (&bytes)[4]) { return {bytes, bytes + 4}; }
    static std::string text(const kapi_u8 (&bytes)[16]) { return {bytes, bytes + 16}; }
    static std::string ip(const char *address)
    {
        kapi_addr addr = sim::address(address);
        bool is4 = std::string(address).find(':') == std::string::npos;
        return {addr.ip + (is4 ? 12 : 0), addr.ip + 16};
    }
    static unsigned port(kapi_u16 big) { return (big & 0xffu) << 8 | big >> 8; }
    template <std::size_t Size> static std::string name(const kapi_u8 (&bytes)[Size])
    {
        EXPECT_EQ(bytes[Size - 1], 0);
        return reinterpret_cast<const char *>(bytes);
    }

    RdsSocket from, to, from6, to6;
};

TEST_F(Info, counters)
{
    exchange();
    EXPECT_EQ(counter("send_queued"), 2u);
    EXPECT_EQ(counter("copy_from_user"), 8u);
    EXPECT_EQ(counter("conn_reset"), 0u);
    EXPECT_NE(counter("tcp_data_ready_calls"), 0u);
    EXPECT_NE(counter("tcp_data_ready_calls"), ~kapi_u64{0});
    EXPECT_EQ(counter("tcp_write_space_calls"), 0u);
    run(b, [&] { EXPECT_EQ(receive(to), "one"); });
    EXPECT_EQ(counter("copy_to_user", b, to), 3u);
    EXPECT_EQ(counter("recv_delivered", b, to), 1u);
    // More than the stream takes at once: it has room again some times.
    from.sk().sndbuf = to.sk().rcvbuf = 16 << 20;
    run(a, [&] {
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(send(from, std::string(100'000, 'x'), "10.0.0.2", 200), 100'000);
    });
    world.run_for(sim::kSecond);
    EXPECT_NE(counter("tcp_sndbuf_full"), 0u);
    EXPECT_NE(counter("tcp_write_space_calls"), 0u);
    EXPECT_LE(counter("tcp_write_space_calls"), counter("tcp_sndbuf_full"));
}

TEST_F(Info, connections)
{
    exchange();
    auto connections = rows<rds_abi_info_connection>(a, from, RDS_ABI_INFO_CONNECTIONS);
    ASSERT_EQ(connections.size(), 8u); // a row for each path, of IPv4 alone
    kapi_u64 sent = 0;
    for (const auto &row : connections) {
        EXPECT_EQ(text(row.laddr), ip("10.0.0.1"));
        EXPECT_EQ(text(row.faddr), ip("10.0.0.2"));
        EXPECT_EQ(name(row.transport), "tcp");
        EXPECT_EQ(+row.flags, RDS_ABI_INFO_CONNECTION_FLAG_CONNECTED);
        EXPECT_EQ(+row.tos, 0);
        EXPECT_EQ(+row.next_rx_seq, 0u); // nothing was received
        sent += row.next_tx_seq - 1;
    }
    EXPECT_EQ(sent, 1u);
    auto both = rows<rds_abi_info6_connection>(b, to, RDS_ABI_INFO6_CONNECTIONS);
    ASSERT_EQ(both.size(), 16u);
    EXPECT_EQ(std::count_if(both.begin(), both.end(), [](const auto &row) {
        return text(row.laddr) == ip("2001:db8::2") && text(row.faddr) == ip("2001:db8::1");
    }), 8);
}

TEST_F(Info, connection_that_nobody_answers)
{
    run(a, [&] {
        open(from, "10.0.0.1", 100);
        EXPECT_EQ(send(from, "x", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 1);
    });
    world.run_for(sim::kSecond);
    auto connections = rows<rds_abi_info_connection>(a, from, RDS_ABI_INFO_CONNECTIONS);
    ASSERT_EQ(connections.size(), 1u);
    EXPECT_EQ(connections[0].flags, RDS_ABI_INFO_CONNECTION_FLAG_CONNECTING);
    EXPECT_EQ(counter("conn_reset"), 0u); // the first attempt takes three seconds
    world.run_for(5 * sim::kSecond);
    EXPECT_GE(counter("conn_reset"), 1u);
}

// The host with the larger address knocks: a knock that is accepted is no failed attempt.
TEST_F(Info, knock_that_is_heard)
{
    run(a, [&] { open(from, "10.0.0.1", 100); });
    run(b, [&] {
        open(to, "10.0.0.2", 200);
        EXPECT_EQ(send(to, "x", "10.0.0.1", 100), 1);
    });
    run(a, [&] { EXPECT_EQ(receive(from), "x"); });
    EXPECT_EQ(counter("conn_reset"), 0u);
    sim::NodeScope scope(b);
    EXPECT_EQ(reinterpret_cast<rds::Net *>(host_b.net().rds)->counted(rds::Stat::conn_reset), 0u);
}

template <class Row>
void expect_message(const Row &row, kapi_u32 length, const std::string &local, unsigned local_port, const std::string &far,
                    unsigned far_port, unsigned (*port)(kapi_u16))
{
    EXPECT_EQ(+row.len, length);
    EXPECT_EQ(std::string(row.laddr, row.laddr + sizeof(row.laddr)), local);
    EXPECT_EQ(std::string(row.faddr, row.faddr + sizeof(row.faddr)), far);
    EXPECT_EQ(port(row.lport), local_port);
    EXPECT_EQ(port(row.fport), far_port);
    EXPECT_EQ(+row.seq, 1u);
}

TEST_F(Info, messages_received)
{
    exchange();
    auto received = rows<rds_abi_info_message>(b, to, RDS_ABI_INFO_RECV_MESSAGES);
    ASSERT_EQ(received.size(), 1u);
    expect_message(received[0], 3, ip("10.0.0.2"), 200, ip("10.0.0.1"), 100, port);
    auto both = rows<rds_abi_info6_message>(b, to, RDS_ABI_INFO6_RECV_MESSAGES);
    ASSERT_EQ(both.size(), 2u);
    const auto &six = both[both[0].len == 5 ? 0 : 1];
    expect_message(six, 5, ip("2001:db8::2"), 201, ip("2001:db8::1"), 101, port);
}

TEST_F(Info, messages_to_be_sent)
{
    run(a, [&] {
        open(from, "10.0.0.1", 100);
        EXPECT_EQ(send(from, "four", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 4);
        open(from6, "2001:db8::1", 101);
        EXPECT_EQ(send(from6, "seven", "2001:db8::77", 10, RDS_ABI_MSG_DONTWAIT), 5);
    });
    auto sent = rows<rds_abi_info_message>(a, from, RDS_ABI_INFO_SEND_MESSAGES);
    ASSERT_EQ(sent.size(), 1u);
    expect_message(sent[0], 4, ip("10.0.0.1"), 100, ip("10.0.0.77"), 9, port);
    auto both = rows<rds_abi_info6_message>(a, from, RDS_ABI_INFO6_SEND_MESSAGES);
    ASSERT_EQ(both.size(), 2u);
    expect_message(both[both[0].len == 5 ? 0 : 1], 5, ip("2001:db8::1"), 101, ip("2001:db8::77"), 10, port);
    EXPECT_TRUE(rows<rds_abi_info_message>(a, from, RDS_ABI_INFO_RETRANS_MESSAGES).empty());
}

TEST_F(Info, messages_not_acknowledged)
{
    exchange();
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "two", "10.0.0.2", 200), 3); });
    world.run_for(sim::kMillisecond);
    auto sent = rows<rds_abi_info_message>(a, from, RDS_ABI_INFO_RETRANS_MESSAGES);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(+sent[0].seq, 2u);
    EXPECT_EQ(text(sent[0].faddr), ip("10.0.0.2"));
    EXPECT_TRUE(rows<rds_abi_info_message>(a, from, RDS_ABI_INFO_SEND_MESSAGES).empty());
    world.network().cut(a, b, false);
}

TEST_F(Info, sockets)
{
    exchange();
    from.sk().sndbuf = 20'000;
    from.sk().rcvbuf = 30'000;
    RdsSocket alone(host_a);
    run(a, [&] { open(alone, "10.0.0.1", 102); });
    auto sockets = rows<rds_abi_info_socket>(a, from, RDS_ABI_INFO_SOCKETS);
    ASSERT_EQ(sockets.size(), 2u);
    for (const auto &row : sockets) {
        bool first = port(row.bound_port) == 100;
        EXPECT_EQ(text(row.bound_addr), ip("10.0.0.1"));
        EXPECT_EQ(text(row.connected_addr), first ? ip("10.0.0.2") : std::string(4, '\0'));
        EXPECT_EQ(port(row.bound_port), first ? 100u : 102u);
        EXPECT_EQ(port(row.connected_port), first ? 200u : 0u);
        EXPECT_EQ(+row.inum, first ? from.sk().inode : alone.sk().inode);
        if (first) {
            EXPECT_EQ(+row.sndbuf, 10'000u);
            EXPECT_EQ(+row.rcvbuf, 15'000u);
        }
    }
    // An IPv4 socket that is connected to an IPv6 address: there is no room for it in the row.
    run(a, [&] { EXPECT_EQ(alone.connect(sim::address("2001:db8::2", 7)), 0); });
    for (const auto &row : rows<rds_abi_info_socket>(a, from, RDS_ABI_INFO_SOCKETS)) {
        if (port(row.bound_port) == 102) {
            EXPECT_EQ(text(row.connected_addr), std::string(4, '\0'));
        }
    }
    auto both = rows<rds_abi_info6_socket>(a, from, RDS_ABI_INFO6_SOCKETS);
    ASSERT_EQ(both.size(), 3u);
    for (const auto &row : both) {
        if (port(row.bound_port) == 101) {
            EXPECT_EQ(text(row.bound_addr), ip("2001:db8::1"));
            EXPECT_EQ(text(row.connected_addr), ip("2001:db8::2"));
        }
    }
    run(a, [&] { alone.close(); });
}

TEST_F(Info, tcp_sockets)
{
    exchange();
    run(a, [&] { EXPECT_EQ(send(from, "two", "10.0.0.2", 200), 3); }); // alone: no map or handshake goes with it
    world.run_for(sim::kSecond);
    auto streams = rows<rds_abi_info_tcp_socket>(a, from, RDS_ABI_INFO_TCP_SOCKETS);
    ASSERT_EQ(streams.size(), 8u);
    std::size_t last = 0; // what was sent last: a message of three bytes on one of them
    for (const auto &row : streams) {
        last += row.last_expected_una - row.last_sent_nxt == 48 + 3;
        EXPECT_EQ(+row.data_rem, 0u);
        EXPECT_EQ(text(row.local_addr), ip("10.0.0.1"));
        EXPECT_EQ(text(row.peer_addr), ip("10.0.0.2"));
        EXPECT_EQ(port(row.peer_port), 16385u);
        EXPECT_GE(port(row.local_port), 32768u);
        EXPECT_EQ(+row.last_seen_una, +row.last_expected_una); // all is acknowledged
        EXPECT_NE(+row.last_sent_nxt, +row.last_expected_una);
    }
    EXPECT_EQ(last, 1u);
    EXPECT_EQ(rows<rds_abi_info6_tcp_socket>(a, from, RDS_ABI_INFO6_TCP_SOCKETS).size(), 16u);
}

// A long queue was passed over from its beginning, under its lock, for each few rows.
TEST_F(Info, long_queue_is_shown_in_short_steps)
{
    constexpr int kMessages = 100'000;
    run(a, [&] {
        open(from, "10.0.0.1", 100);
        from.sk().sndbuf = 1 << 30;
        for (int i = 0; i < kMessages; i++)
            ASSERT_EQ(send(from, "x", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 1);
        sim::forget_steps();
        std::vector<rds_abi_info_message> rows(kMessages + 10);
        int length = static_cast<int>(rows.size() * sizeof(rows[0]));
        EXPECT_EQ(from.get_option(RDS_ABI_INFO_SEND_MESSAGES, rows.data(), &length), static_cast<int>(sizeof(rows[0])));
        ASSERT_EQ(length, static_cast<int>(kMessages * sizeof(rows[0])));
        for (int i = 0; i < kMessages; i++)
            ASSERT_EQ(+rows[static_cast<std::size_t>(i)].seq, static_cast<kapi_u64>(i + 1));
        EXPECT_LE(sim::most_steps_under("rds path"), kSteps);
    }, 600 * sim::kSecond);
}

TEST_F(Info, long_receive_queue_is_shown_in_short_steps)
{
    constexpr int kMessages = 20'000;
    RdsSocket sink(host_a);
    run(a, [&] {
        open(from, "10.0.0.1", 100);
        open(sink, "10.0.0.1", 101);
        from.sk().sndbuf = sink.sk().rcvbuf = 1 << 30;
        for (int i = 0; i < kMessages; i++)
            ASSERT_EQ(send(from, std::string(static_cast<std::size_t>(i % 100 + 1), 'x'), "10.0.0.1", 101), i % 100 + 1);
        world.sleep(sim::kSecond);
        sim::forget_steps();
        std::vector<rds_abi_info_message> rows(kMessages + 10);
        int length = static_cast<int>(rows.size() * sizeof(rows[0]));
        EXPECT_EQ(from.get_option(RDS_ABI_INFO_RECV_MESSAGES, rows.data(), &length), static_cast<int>(sizeof(rows[0])));
        ASSERT_EQ(length, static_cast<int>(kMessages * sizeof(rows[0])));
        for (int i = 0; i < kMessages; i++)
            ASSERT_EQ(+rows[static_cast<std::size_t>(i)].len, static_cast<kapi_u32>(i % 100 + 1));
        EXPECT_LE(sim::most_steps_under("rds socket"), kSteps);
        sink.close();
    }, 600 * sim::kSecond);
}

class InfoOfPeer : public PeerTest {
protected:
    using Rest = std::pair<kapi_u64, kapi_u64>;
    InfoOfPeer()
    {
        open_socket(kPort);
        header.sequence = 1, header.sport = kPeersPort, header.dport = kPort, header.length = 100;
    }
    /** What is missing of the header, and of the payload, of the message that comes over the only stream. */
    Rest rest()
    {
        Rest bytes;
        run(b, [&] {
            rds_abi_info_tcp_socket rows[8];
            int length = sizeof(rows);
            EXPECT_EQ(socket.get_option(RDS_ABI_INFO_TCP_SOCKETS, rows, &length), static_cast<int>(sizeof(rows[0])));
            EXPECT_EQ(length, static_cast<int>(sizeof(rows[0])));
            bytes = {kapi_u64{rows[0].hdr_rem}, kapi_u64{rows[0].data_rem}};
        });
        return bytes;
    }
    void comes(WireStream &stream, const void *bytes, std::size_t size)
    {
        run(a, [&] {
            EXPECT_TRUE(stream.send(bytes, size));
            world.sleep(sim::kMillisecond);
        });
    }

    const kapi_u16 kPort = port_of_path(0);
    const std::string text = std::string(100, 'x');
    rds::Header header{};
};

TEST_F(InfoOfPeer, message_that_came_in_part)
{
    WireStream stream(a);
    run(a, [&] { shake_hands(stream, 0); });
    comes(stream, &header, 20);
    EXPECT_EQ(rest(), Rest(28, 0));
    comes(stream, reinterpret_cast<const char *>(&header) + 20, 28);
    comes(stream, text.data(), 30);
    EXPECT_EQ(rest(), Rest(0, 70));
    comes(stream, text.data(), 70);
    EXPECT_EQ(rest(), Rest(48, 0));
    run(a, [&] { stream.close(true); });
    EXPECT_EQ(victim_receives().size(), 100u);
}

TEST_F(InfoOfPeer, message_whose_stream_ended)
{
    WireStream stream(a), next(a);
    run(a, [&] { shake_hands(stream, 0); });
    comes(stream, &header, sizeof(header));
    comes(stream, text.data(), 30);
    run(a, [&] {
        stream.close(true);
        EXPECT_TRUE(connect(next, 0)); // and nothing comes over it
        world.sleep(100 * sim::kMillisecond);
    });
    EXPECT_EQ(rest(), Rest(48, 0));
    run(a, [&] { next.close(true); });
}

TEST_F(Info, what_nobody_provides)
{
    run(a, [&] {
        open(from, "10.0.0.1", 100);
        for (int item : {RDS_ABI_INFO_IB_CONNECTIONS, RDS_ABI_INFO_CONNECTION_STATS, RDS_ABI_INFO6_IB_CONNECTIONS}) {
            unsigned char bytes[256];
            int length = sizeof(bytes);
            EXPECT_EQ(from.get_option(item, bytes, &length), -KAPI_ENOPROTOOPT) << item;
        }
    });
}

} // namespace
