// SPDX-License-Identifier: GPL-2.0
// What RDS_INFO_* shows of RDS over RDMA: connections and counters.
#include <cstring>
#include <map>

#include <uapi/hawser_netlink.h>

#include "kapi/sim/report.h"
#include "rds_rdma_test.h"

namespace {

class RdsRdmaInfo : public RdmaTest {
protected:
    // The simulated device has 4096 regions, of 512 pages; of those, RDS has half, with the pages of the largest message.
    static constexpr kapi_u32 kRegions = 2048, kPages = 257;

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
            row.max_send_wr = 260;
            row.max_recv_wr = 128;
            row.max_send_sge = 8;
            row.rdma_mr_max = kRegions;
            row.rdma_mr_size = kPages;
        }
        return bytes_of(row);
    }
    /** The same rows, of both families, over netlink. */
    static std::vector<rds_abi_info6_rdma_connection> reported_ib_connections(sim::Node &node)
    {
        std::vector<rds_abi_info6_rdma_connection> all;
        for (const sim::Report &connection : sim::dump(node.initial_net(), HAWSER_CMD_RDS_CONNECTION_GET)) {
            auto ip = [&](kapi_u16 type, kapi_u8(&to)[16]) {
                std::string bytes = sim::Report::all(connection.attributes, type)[0]->bytes;
                if (bytes.size() == 4)
                    bytes.insert(0, std::string(10, '\0') + "\xff\xff");
                std::memcpy(to, bytes.data(), sizeof(to));
            };
            for (const auto *path : sim::Report::all(connection.attributes, HAWSER_RDS_CONNECTION_PATH))
                for (const auto *rdma : sim::Report::all(path->nested, HAWSER_RDS_PATH_RDMA)) {
                    auto one = [&](kapi_u16 type) { return *sim::Report::all(rdma->nested, type).at(0); };
                    rds_abi_info6_rdma_connection row;
                    std::memset(&row, 0, sizeof(row));
                    ip(HAWSER_RDS_CONNECTION_LOCAL, row.src_addr), ip(HAWSER_RDS_CONNECTION_REMOTE, row.dst_addr);
                    std::memcpy(row.src_gid, one(HAWSER_RDS_RDMA_LOCAL_GID).bytes.data(), sizeof(row.src_gid));
                    std::memcpy(row.dst_gid, one(HAWSER_RDS_RDMA_REMOTE_GID).bytes.data(), sizeof(row.dst_gid));
                    row.max_send_wr = static_cast<kapi_u32>(one(HAWSER_RDS_RDMA_MAX_SEND_WR).number);
                    row.max_recv_wr = static_cast<kapi_u32>(one(HAWSER_RDS_RDMA_MAX_RECV_WR).number);
                    row.max_send_sge = static_cast<kapi_u32>(one(HAWSER_RDS_RDMA_MAX_SEND_SGE).number);
                    row.rdma_mr_max = static_cast<kapi_u32>(one(HAWSER_RDS_RDMA_MR_MAX).number);
                    row.rdma_mr_size = static_cast<kapi_u32>(one(HAWSER_RDS_RDMA_MR_SIZE).number);
                    all.push_back(row);
                }
        }
        return all;
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
    std::vector<Row6> reported;
    run(a, [&] { reported = reported_ib_connections(a); });
    ASSERT_EQ(reported.size(), 2u);
    EXPECT_TRUE(bytes_of(six[0]) == bytes_of(reported[0]) && bytes_of(six[1]) == bytes_of(reported[1]));
    std::vector<std::string> got{bytes_of(six[0]), bytes_of(six[1])};
    for (auto [own, peer] : {std::pair{"::ffff:10.0.0.1", "::ffff:10.0.0.2"}, std::pair{"2001:db8::1", "2001:db8::2"}})
        EXPECT_EQ(std::count(got.begin(), got.end(), expected<Row6>(own, peer, true)), 1);

    unplug(dev_b);
    world.run_for(5 * sim::kSecond);
    auto four = rows<Row4>(pa, RDS_ABI_INFO_IB_CONNECTIONS);
    ASSERT_EQ(four.size(), 1u);
    EXPECT_TRUE(bytes_of(four[0]) == expected<Row4>("10.0.0.1", "10.0.0.2", false)) << "it is not up";
    run(a, [&] { reported = reported_ib_connections(a); });
    ASSERT_EQ(reported.size(), 2u);
    EXPECT_EQ(reported[0].max_send_wr + reported[1].max_send_wr, 0u);
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

/** The counters of RDMA. */
class RdsRdmaCounters : public RdsRdmaInfo {
protected:
    using Counters = std::map<std::string, kapi_u64>;

    void begin()
    {
        load();
        open(pa);
        open(pb);
    }
    ~RdsRdmaCounters() override
    {
        close(pa);
        close(pb);
    }
    Counters counters(Program &program)
    {
        Counters found;
        for (const auto &row : rows<rds_abi_info_counter>(program, RDS_ABI_INFO_COUNTERS)) {
            std::string name = reinterpret_cast<const char *>(row.name);
            if (name.starts_with("ib_"))
                found[name.substr(3)] = row.value;
        }
        return found;
    }
    /** What was counted since the last time. */
    static Counters since(const Counters &before, Counters now)
    {
        for (auto &[name, value] : now)
            value -= before.at(name);
        return now;
    }
    void pass(const std::string &bytes)
    {
        run(a, [&] { pa.send(bytes); });
        run(b, [&] { EXPECT_TRUE(pb.receive() == bytes); });
        world.run_for(sim::kSecond);
    }
    /** Fails one fallible call of the node after the other, while messages pass, until this counts. */
    bool counts_when_calls_fail(sim::Node &node, Program &program, const char *name)
    {
        for (unsigned i = 0; i < 300; i++) { // a few of each, because the ring is filled at some messages only
            unsigned step = i / 5 + 1;
            node.faults().fail_at = node.faults().count + step;
            run(a, [&] {
                std::string bytes(5000, 'x');
                static_cast<void>(pa.socket.send(bytes.data(), bytes.size(), sim::address("10.0.0.2", kPort),
                                                 RDS_ABI_MSG_DONTWAIT));
            });
            world.run_for(3 * sim::kSecond);
            node.faults().fail_at = 0;
            run(b, [&] { // a port is full for want of memory until its program has read all
                char bytes[5000];
                while (pb.socket.receive(bytes, sizeof(bytes), nullptr, RDS_ABI_MSG_DONTWAIT) >= 0)
                    ;
            });
            if (counters(program)[name])
                return true;
        }
        return false;
    }

    Program pa = on_a(), pb = on_b();
};

TEST_P(RdsRdmaCounters, have_the_names_of_the_kernels_own)
{
    begin();
    std::vector<std::string> names;
    for (const auto &row : rows<rds_abi_info_counter>(pa, RDS_ABI_INFO_COUNTERS))
        if (std::string name = reinterpret_cast<const char *>(row.name); name.starts_with("ib_"))
            names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"ib_connect_raced", "ib_listen_closed_stale", "ib_tasklet_call", "ib_tx_cq_event",
                                               "ib_tx_ring_full", "ib_tx_sg_mapping_failure", "ib_rx_cq_event",
                                               "ib_rx_ring_empty", "ib_rx_refill_from_cq", "ib_rx_refill_from_thread",
                                               "ib_rx_alloc_limit", "ib_rx_total_frags", "ib_rx_total_incs", "ib_ack_sent",
                                               "ib_ack_send_failure", "ib_ack_send_delayed", "ib_ack_send_piggybacked",
                                               "ib_ack_received", "ib_rdma_mr_8k_alloc", "ib_rdma_mr_8k_free",
                                               "ib_rdma_mr_8k_used", "ib_rdma_mr_1m_alloc", "ib_rdma_mr_1m_free",
                                               "ib_rdma_mr_1m_used", "ib_atomic_cswp", "ib_atomic_fadd"}));
}

// By their size: up to two pages, and more.
TEST_P(RdsRdmaCounters, count_regions)
{
    begin();
    pass("first");
    alignas(4096) static unsigned char memory[5 * 4096];
    auto get = [&](std::size_t size) {
        kapi_u64 cookie = 0;
        rds_abi_get_mr_args args{{reinterpret_cast<std::uintptr_t>(memory), size}, reinterpret_cast<std::uintptr_t>(&cookie), 0};
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args)), 0);
        return cookie;
    };
    auto expect = [&](kapi_u64 small, kapi_u64 small_free, kapi_u64 large, kapi_u64 large_free) {
        Counters now = counters(pa);
        for (const char *what : {"alloc", "used"}) {
            EXPECT_EQ(now[std::string("rdma_mr_8k_") + what], small) << what;
            EXPECT_EQ(now[std::string("rdma_mr_1m_") + what], large) << what;
        }
        EXPECT_EQ(now["rdma_mr_8k_free"], small_free);
        EXPECT_EQ(now["rdma_mr_1m_free"], large_free);
    };
    kapi_u64 first = 0;
    run(a, [&] {
        first = get(1);
        get(2 * 4096);
        get(2 * 4096 + 1);
    });
    expect(2, 0, 1, 0);
    run(a, [&] {
        rds_abi_free_mr_args args{first, 0};
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_FREE_MR, &args, sizeof(args)), 0);
    });
    expect(2, 1, 1, 0);
    unplug(dev_a); // they end with their device
    expect(2, 2, 1, 1);
    dev_a = &sim::plug_rdma(a.initial_net(), "again");
}

TEST_P(RdsRdmaCounters, count_a_message)
{
    begin();
    pass("first");
    world.run_for(2 * sim::kSecond); // it is acknowledged, when the sender asks
    Counters at_a = counters(pa), at_b = counters(pb);
    EXPECT_GE(at_b["rx_refill_from_thread"], 1u) << "before the connection was up";
    EXPECT_GE(at_b["rx_total_frags"], 128u * 4) << "the ring";
    EXPECT_EQ(at_b["rx_alloc_limit"], 0u);
    pass(contents(40'000, 1));
    world.run_for(2 * sim::kSecond); // the sender asks for the acknowledgement once a second
    at_a = since(at_a, counters(pa));
    at_b = since(at_b, counters(pb));
    EXPECT_EQ(at_a["tx_cq_event"], 2u) << "the last fragment and the question report";
    EXPECT_EQ(at_a["rx_cq_event"], 1u);
    EXPECT_EQ(at_a["ack_received"], 1u);
    EXPECT_GE(at_a["tasklet_call"], 2u);
    EXPECT_LE(at_a["tasklet_call"], 3u);
    EXPECT_EQ(at_a["rx_total_incs"], 0u);
    EXPECT_EQ(at_b["rx_cq_event"], 4u) << "fragments and the question";
    EXPECT_EQ(at_b["rx_total_incs"], 1u);
    EXPECT_GE(at_b["rx_total_frags"], 1u) << "some are filled again together";
    EXPECT_LE(at_b["rx_total_frags"], 11u);
    EXPECT_GE(at_b["rx_refill_from_cq"], 1u);
    EXPECT_LE(at_b["rx_refill_from_cq"], 4u);
    EXPECT_EQ(at_b["ack_sent"], 1u);
    EXPECT_EQ(at_b["tx_cq_event"], 1u);
    for (const char *name : {"connect_raced", "listen_closed_stale", "tx_ring_full", "tx_sg_mapping_failure", "rx_ring_empty",
                             "rx_alloc_limit", "ack_send_failure", "ack_send_delayed", "ack_send_piggybacked"}) {
        EXPECT_EQ(at_a[name], 0u) << name;
        EXPECT_EQ(at_b[name], 0u) << name;
    }
}

TEST_P(RdsRdmaCounters, count_full_and_empty_rings)
{
    begin();
    pa.socket.sk().sndbuf = 32 << 20;
    constexpr unsigned kCount = 8;
    run(a, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send(contents(1 << 20, i));
    });
    world.run_for(sim::kSecond);
    EXPECT_GE(counters(pa)["tx_ring_full"], 1u);
    EXPECT_EQ(counters(pa)["rx_ring_empty"], 0u);
    EXPECT_GE(counters(pb)["rx_ring_empty"], 1u);
    EXPECT_EQ(counters(pb)["tx_ring_full"], 0u);
    kapi_u64 before = counters(pb)["rx_refill_from_thread"];
    run(b, [&] {
        for (unsigned i = 0; i < kCount; i++)
            EXPECT_TRUE(pb.receive() == contents(1 << 20, i)) << i;
    });
    EXPECT_GT(counters(pb)["rx_refill_from_thread"], before) << "when the socket had room";
}

// An answer says what was received while an acknowledgement was on its way.
TEST_P(RdsRdmaCounters, count_acknowledgements_of_both_directions)
{
    begin();
    constexpr unsigned kCount = 300;
    auto asks = spawn(pa, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send("x");
        for (unsigned i = 0; i < kCount; i++)
            EXPECT_EQ(pa.receive(), "x");
    });
    auto answers = spawn(pb, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pb.send(pb.receive());
    });
    EXPECT_TRUE(wait({asks, answers}));
    world.run_for(sim::kSecond);
    Counters at_a = counters(pa), at_b = counters(pb);
    EXPECT_GE(at_b["ack_send_piggybacked"], 1u);
    EXPECT_EQ(at_a["ack_received"], at_b["ack_sent"]);
    EXPECT_EQ(at_b["ack_received"], at_a["ack_sent"]);
}

// One is on its way when the next one is wanted.
TEST_P(RdsRdmaCounters, count_delayed_acknowledgements)
{
    begin();
    run(a, [&] {
        for (unsigned i = 0; i < 200; i++)
            pa.send("x");
    });
    world.run_for(sim::kSecond);
    EXPECT_GE(counters(pb)["ack_send_delayed"], 1u);
}

TEST_P(RdsRdmaCounters, count_short_rings)
{
    b.total_memory = 16 << 20;
    begin();
    pass("x");
    EXPECT_EQ(counters(pb)["rx_alloc_limit"], 1u);
    EXPECT_EQ(counters(pa)["rx_alloc_limit"], 0u);
}

TEST_P(RdsRdmaCounters, count_connections_that_race)
{
    begin();
    auto send = [&](Program &program) { return spawn(program, [&] { program.send("x"); }); };
    EXPECT_TRUE(wait({send(pa), send(pb)}));
    world.run_for(5 * sim::kSecond);
    EXPECT_GE(counters(pa)["connect_raced"] + counters(pb)["connect_raced"], 1u);
    EXPECT_EQ(counters(pa)["listen_closed_stale"] + counters(pb)["listen_closed_stale"], 0u);
}

TEST_P(RdsRdmaCounters, count_connections_that_a_peer_has_left)
{
    begin();
    pass("x");
    EXPECT_EQ(counters(pa)["listen_closed_stale"], 0u);
    b.crash();
    pb.socket.forget();
    host_b.forget();
    dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
    run(b, [&] {
        ASSERT_EQ(host_b.load_rds(), 0);
        ASSERT_EQ(host_b.load_rdma(), 0);
        pb.open();
        pb.send("again");
    });
    run(a, [&] { EXPECT_EQ(pa.receive(), "again"); });
    EXPECT_GE(counters(pa)["listen_closed_stale"], 1u);
}

TEST_P(RdsRdmaCounters, count_failures)
{
    begin();
    pass("x");
    EXPECT_TRUE(counts_when_calls_fail(a, pa, "tx_sg_mapping_failure"));
    EXPECT_TRUE(counts_when_calls_fail(b, pb, "ack_send_failure"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaCounters, ::testing::Range(1, 4));

} // namespace
