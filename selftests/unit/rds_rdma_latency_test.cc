// SPDX-License-Identifier: GPL-2.0
// How long messages wait for their acknowledgement over RDMA, where the peer's RDS sends it.
#include "rds_latency.h"
#include "rds_rdma_peer.h"

#include "net/rds/latency.h"

namespace {

constexpr std::uint64_t kMs = sim::kMillisecond;
constexpr unsigned k65ms = 17, k2s = 22; // buckets: from 2^16 us to twice that, from 2^21 us to twice that

std::vector<std::uint64_t> latency_at(RdsHost &host)
{
    std::vector<sim::Report> all = sim::dump(host.node().initial_net(), HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? std::vector<std::uint64_t>(HAWSER_RDS_LATENCY_BUCKETS) : latency_of(all[0]);
}

class RdsRdmaLatency : public RdsRdmaPeer {
protected:
    std::vector<std::uint64_t> latency()
    {
        std::vector<std::uint64_t> counts;
        run(a, [&] { counts = latency_at(host_a); });
        return counts;
    }
    void send()
    {
        sent_ns = world.now_ns();
        run(a, [&] { program.send("hello"); });
    }
    /** The peer has the message with this number. */
    bool arrives(kapi_u64 number)
    {
        return wait_for([&] {
            return std::any_of(peer.messages.begin(), peer.messages.end(), [&](const std::string &bytes) {
                return bytes.substr(sizeof(Header)) == "hello" && +header_of(bytes).sequence == number;
            });
        });
    }
    void acknowledge(kapi_u64 number)
    {
        Header header{};
        header.ack = number;
        post(sealed(header));
    }

    std::uint64_t sent_ns = 0;
};

TEST_P(RdsRdmaLatency, is_from_sending_to_the_peers_acknowledgement)
{
    send();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(arrives(1));
    world.run_for(sent_ns + 100 * kMs - world.now_ns());
    EXPECT_EQ(timed(latency()), 0u) << "it is sent, and not acknowledged";
    acknowledge(1);
    std::vector<std::uint64_t> counts = latency();
    EXPECT_EQ(timed(counts), 1u);
    EXPECT_EQ(counts[k65ms], 1u);
}

TEST_P(RdsRdmaLatency, is_measured_of_every_seventh_message)
{
    send();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    for (kapi_u64 number = 1; number <= rds::Latency::every + 1; number++) { // as many as the peer has buffers for
        if (number > 1)
            send();
        ASSERT_TRUE(arrives(number));
        acknowledge(number);
        EXPECT_EQ(timed(latency()), (number - 1) / rds::Latency::every + 1) << number;
    }
}

TEST_P(RdsRdmaLatency, ends_with_the_acknowledgement_of_a_later_message)
{
    send();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(arrives(1));
    world.run_for(sent_ns + 100 * kMs - world.now_ns());
    for (kapi_u64 number = 2; number <= 4; number++) {
        send();
        ASSERT_TRUE(arrives(number));
    }
    acknowledge(4);
    std::vector<std::uint64_t> counts = latency();
    EXPECT_EQ(timed(counts), 1u);
    EXPECT_EQ(counts[k65ms], 1u);
}

// What was not acknowledged is sent again over the next connection, and its time goes on.
TEST_P(RdsRdmaLatency, includes_the_time_without_a_connection)
{
    send();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(arrives(1));
    run(b, [&] { peer.drop(); });
    peer = Peer();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(arrives(1));
    world.run_for(sent_ns + 3 * sim::kSecond - world.now_ns());
    acknowledge(1);
    std::vector<std::uint64_t> counts = latency();
    EXPECT_EQ(timed(counts), 1u);
    EXPECT_EQ(counts[k2s], 1u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLatency, ::testing::Range(1, 4));

/** A sender to whom nothing else is sent asks for the acknowledgement once a second. */
class RdsRdmaLatencyBetweenTwo : public RdmaTest {};

TEST_P(RdsRdmaLatencyBetweenTwo, has_the_time_until_the_sender_asks)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    run(a, [&] { pa.send("hello"); });
    run(b, [&] { EXPECT_EQ(pb.receive(), "hello"); });
    world.run_for(3 * sim::kSecond);
    run(a, [&] {
        std::vector<std::uint64_t> counts = latency_at(host_a);
        EXPECT_EQ(timed(counts), 1u);
        EXPECT_EQ(std::accumulate(counts.begin() + k2s, counts.end(), std::uint64_t{0}), 0u);
    });
    run(b, [&] { EXPECT_EQ(timed(latency_at(host_b)), 0u) << "it has sent none"; });
    close(pa);
    close(pb);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLatencyBetweenTwo, ::testing::Range(1, 4));

} // namespace
