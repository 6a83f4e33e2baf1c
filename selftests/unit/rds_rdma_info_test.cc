// SPDX-License-Identifier: GPL-2.0
// What RDS_INFO_* shows of RDS over RDMA: connections and counters.
#include <cstring>

#include "rds_rdma_test.h"

namespace {

class RdsRdmaInfo : public RdmaTest {
protected:
    template <class Row> std::vector<Row> rows(Program &program, int item)
    {
        std::vector<Row> got(128);
        run(program.host.node(), [&] {
            std::memset(got.data(), 0xa5, got.size() * sizeof(Row));
            int length = static_cast<int>(got.size() * sizeof(Row));
            EXPECT_EQ(program.socket.get_option(item, got.data(), &length), static_cast<int>(sizeof(Row)));
            got.resize(static_cast<std::size_t>(length) / sizeof(Row));
        });
        return got;
    }
    template <class Row> static std::string bytes_of(const Row &row)
    {
        return {reinterpret_cast<const char *>(&row), sizeof(row)};
    }
    /** A whole row, padding included. */
    template <class Row> static std::string expected(const char *local, const char *remote, bool up, kapi_u8 tos = 0)
    {
        Row row;
        std::memset(&row, 0, sizeof(row));
        kapi_addr from = sim::address(local), to = sim::address(remote);
        std::memcpy(row.src_addr, from.ip + 16 - sizeof(row.src_addr), sizeof(row.src_addr));
        std::memcpy(row.dst_addr, to.ip + 16 - sizeof(row.dst_addr), sizeof(row.dst_addr));
        row.tos = tos;
        if (up) {
            std::memcpy(row.src_gid, from.ip, sizeof(row.src_gid));
            std::memcpy(row.dst_gid, to.ip, sizeof(row.dst_gid));
            row.max_send_wr = 512;
            row.max_recv_wr = 256;
            row.max_send_sge = 8;
        }
        return bytes_of(row);
    }
};

TEST_P(RdsRdmaInfo, shows_connections)
{
    using Row4 = rds_abi_info_rdma_connection;
    using Row6 = rds_abi_info6_rdma_connection;
    a.initial_net().add(sim::address("2001:db8::1"));
    b.initial_net().add(sim::address("2001:db8::2"));
    load();
    auto pa = on_a(), pb = on_b(), pa6 = on_a("2001:db8::1", "2001:db8::2"), pb6 = on_b("2001:db8::2", "2001:db8::1");
    for (Program *program : {&pa, &pb, &pa6, &pb6})
        open(*program);
    EXPECT_EQ(rows<Row4>(pa, RDS_ABI_INFO_IB_CONNECTIONS).size(), 0u);
    for (auto [from, to] : {std::pair{&pa, &pb}, std::pair{&pb, &pa}, std::pair{&pa6, &pb6}}) {
        run(from->host.node(), [&] { from->send("hello"); });
        run(to->host.node(), [&] { EXPECT_EQ(to->receive(), "hello"); });
    }
    for (auto [program, own, peer] : {std::tuple{&pa, "10.0.0.1", "10.0.0.2"}, std::tuple{&pb, "10.0.0.2", "10.0.0.1"}}) {
        auto four = rows<Row4>(*program, RDS_ABI_INFO_IB_CONNECTIONS);
        ASSERT_EQ(four.size(), 1u) << "of IPv4 alone";
        EXPECT_TRUE(bytes_of(four[0]) == expected<Row4>(own, peer, true));
    }
    auto six = rows<Row6>(pa, RDS_ABI_INFO6_IB_CONNECTIONS);
    ASSERT_EQ(six.size(), 2u);
    std::vector<std::string> got{bytes_of(six[0]), bytes_of(six[1])};
    for (auto [own, peer] : {std::pair{"::ffff:10.0.0.1", "::ffff:10.0.0.2"}, std::pair{"2001:db8::1", "2001:db8::2"}})
        EXPECT_EQ(std::count(got.begin(), got.end(), expected<Row6>(own, peer, true)), 1);

    unplug(dev_b);
    world.run_for(5 * sim::kSecond);
    auto four = rows<Row4>(pa, RDS_ABI_INFO_IB_CONNECTIONS);
    ASSERT_EQ(four.size(), 1u);
    EXPECT_TRUE(bytes_of(four[0]) == expected<Row4>("10.0.0.1", "10.0.0.2", false)) << "it is not up";
    for (Program *program : {&pa, &pb, &pa6, &pb6})
        close(*program);
}

// Without the transport the item does not exist, and messages to own addresses go over no device.
TEST_P(RdsRdmaInfo, shows_no_connections__of_other_transports)
{
    run(a, [&] { ASSERT_EQ(host_a.load_rds(), 0); });
    auto program = on_a("127.0.0.1", "127.0.0.1");
    open(program);
    run(a, [&] {
        program.send("hello");
        EXPECT_EQ(program.receive(), "hello");
        for (int item : {RDS_ABI_INFO_IB_CONNECTIONS, RDS_ABI_INFO6_IB_CONNECTIONS}) {
            int length = 0;
            EXPECT_EQ(program.socket.get_option(item, nullptr, &length), -KAPI_ENOPROTOOPT);
        }
        ASSERT_EQ(host_a.load_rdma(), 0);
    });
    EXPECT_EQ(rows<rds_abi_info_rdma_connection>(program, RDS_ABI_INFO_IB_CONNECTIONS).size(), 0u);
    close(program);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaInfo, ::testing::Range(1, 4));

} // namespace
