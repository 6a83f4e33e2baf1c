// SPDX-License-Identifier: GPL-2.0
// net.rds.ib.*: names, defaults and bounds as the documentation has them, and the effect of each.
#include <cstring>
#include <map>

#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "rds_rdma_test.h"

namespace {

class RdsRdmaSettings : public RdmaTest {
protected:
    RdsRdmaSettings()
    {
        load();
        open(pa);
        open(pb);
        pa.socket.sk().sndbuf = pb.socket.sk().rcvbuf = 8 << 20;
    }
    ~RdsRdmaSettings() override
    {
        close(pa);
        close(pb);
    }
    rds_rdma_sysctl &settings(RdsHost &host) { return *rds_rdma_net_sysctl(host.net().rdma); }
    rds_abi_info_rdma_connection connection(Program &program)
    {
        auto all = rows<rds_abi_info_rdma_connection>(program, RDS_ABI_INFO_IB_CONNECTIONS);
        EXPECT_EQ(all.size(), 1u);
        return all.empty() ? rds_abi_info_rdma_connection{} : all[0];
    }
    void pass(std::size_t size)
    {
        std::string bytes = contents(size, 1);
        auto sends = spawn(pa, [&] { pa.send(bytes); });
        auto receives = spawn(pb, [&] { EXPECT_TRUE(pb.receive() == bytes); });
        EXPECT_TRUE(wait({sends, receives}, 30 * sim::kSecond)) << size;
    }

    Program pa = on_a(), pb = on_b();
};

TEST_P(RdsRdmaSettings, are_those_of_the_documentation)
{
    struct Expected {
        unsigned long initial, min, max;
        bool operator==(const Expected &) const = default;
    };
    const unsigned long memory = a.total_memory / 3 / 4096;
    const std::map<std::string, Expected> expected = {{"max_send_wr", {256, 1, 0xffffffff}},
                                                      {"max_recv_wr", {1024, 1, 0xffffffff}},
                                                      {"max_unsignaled_wr", {16, 1, 64}},
                                                      {"max_recv_allocation", {memory, 0, ~0ul}},
                                                      {"flow_control", {0, 0, 0x7fffffff}}};
    std::map<std::string, Expected> found;
    for (unsigned i = 0; i < rds_rdma_sysctl_rows; i++) {
        const rds_rdma_sysctl_row &row = rds_rdma_sysctl_table[i];
        unsigned long value = 0; // little endian
        std::memcpy(&value, reinterpret_cast<char *>(&settings(host_a)) + row.offset, row.size);
        found[row.name] = {value, row.min, row.max};
    }
    EXPECT_TRUE(found == expected);
}

TEST_P(RdsRdmaSettings, limit_the_send_queue)
{
    settings(host_a).max_send_wr = 300;
    settings(host_b).max_send_wr = 1;
    pass(1 << 20);
    EXPECT_EQ(connection(pa).max_send_wr, 300u);
    EXPECT_EQ(connection(pb).max_send_wr, 260u) << "the largest message fits";
}

TEST_P(RdsRdmaSettings, limit_the_send_queue__to_what_devices_have)
{
    settings(host_a).max_send_wr = 0xffffffff;
    settings(host_a).max_unsignaled_wr = 64;
    unplug(dev_a);
    dev_a = &sim::plug_rdma(a.initial_net(), "just enough", 2, [](kapi_rdma_attrs &attrs) { // RdsRdmaEdges
        attrs.max_wr = 579;
        attrs.max_cqe = 581;
    });
    pass(1 << 20);
    EXPECT_EQ(connection(pa).max_send_wr, 512u);
}

TEST_P(RdsRdmaSettings, limit_the_ring)
{
    settings(host_a).max_recv_wr = 100;
    settings(host_b).max_recv_wr = 1;
    pass(1 << 20);
    EXPECT_EQ(connection(pa).max_recv_wr, 100u);
    EXPECT_EQ(connection(pb).max_recv_wr, 1u);
}

// More than half of it is in use after one connection, and a second one does not fit.
TEST_P(RdsRdmaSettings, limit_the_rings_of_all_connections)
{
    settings(host_b).max_recv_allocation = 200; // half of it for what peers make
    a.initial_net().add(sim::address("10.0.0.3"));
    pass(100);
    EXPECT_EQ(connection(pb).max_recv_wr, 64u / 4); // each has four buffers
    EXPECT_EQ(counter(pb, "ib_rx_alloc_limit"), 1u);
    auto other = on_a("10.0.0.3", "10.0.0.2");
    open(other);
    run(a, [&] { other.send("waits"); });
    auto receives = spawn(pb, [&] { EXPECT_EQ(pb.receive(), "waits"); });
    EXPECT_FALSE(wait({receives}, 5 * sim::kSecond));
    EXPECT_GE(counter(pb, "ib_rx_alloc_limit"), 2u);
    settings(host_b).max_recv_allocation = 1000;
    EXPECT_TRUE(wait({receives}, 20 * sim::kSecond));
    close(other);
}

TEST_P(RdsRdmaSettings, limit_requests_that_do_not_report)
{
    for (auto [limit, reports] : {std::pair{1u, 14u}, {2u, 10u}, {4u, 6u}, {16u, 3u}, {64u, 2u}}) {
        settings(host_a).max_unsignaled_wr = limit;
        unplug(dev_a); // the next connection has the new value
        dev_a = &sim::plug_rdma(a.initial_net(), "again");
        pass(1);
        world.run_for(3 * sim::kSecond);
        kapi_u64 before = counter(pa, "ib_tx_cq_event");
        pass(25 * (16384 - 48));
        world.run_for(sim::kSecond);
        kapi_u64 counted = counter(pa, "ib_tx_cq_event") - before;
        // With the question for an acknowledgement, which may share its event. Those before that did not report count, too.
        EXPECT_LE(counted, reports + 1) << limit;
        EXPECT_GE(counted, reports - 1) << limit;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaSettings, ::testing::Range(1, 4));

} // namespace
