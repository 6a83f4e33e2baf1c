// SPDX-License-Identifier: GPL-2.0
// Sockets that are full, and whose programs do not read: what else goes over the connection.
#include "rds_rdma_test.h"

namespace {

class RdsRdmaFull : public RdmaTest {
protected:
    /** A socket of b, which nobody reads, is full, and so is the ring. */
    void fill(Program &full, std::vector<std::unique_ptr<Program>> &senders)
    {
        open(full);
        const std::string bytes = contents(1 << 20, 1);
        for (unsigned i = 0; i < 14; i++) {
            senders.push_back(std::make_unique<Program>(*this, host_a, "10.0.0.1", "10.0.0.2"));
            open(*senders.back(), static_cast<kapi_u16>(6000 + i));
            senders.back()->socket.sk().sndbuf = 4 << 20;
        }
        for (auto &sender : senders)
            spawned.push_back(spawn(*sender, [&program = *sender, bytes] { program.send(bytes); }));
        ASSERT_TRUE(wait(spawned)) << "all have sent before they know of the congestion";
        world.run_for(500 * sim::kMillisecond);
    }
    std::vector<sim::TaskRef> spawned;
};

// The peer's acknowledgements are behind the messages that wait for the full socket.
TEST_P(RdsRdmaFull, one_holds_up_no_other_that_sends)
{
    load();
    Program reader = on_a(), full = on_b(), other = on_b();
    std::vector<std::unique_ptr<Program>> senders;
    open(reader);
    open(other, 7000);
    fill(full, senders);
    constexpr unsigned kMessages = 20;
    auto sends = spawn(other, [&] {
        for (unsigned i = 0; i < kMessages; i++)
            other.send(numbered(100'000, i));
    });
    auto reads = spawn(reader, [&] {
        for (unsigned i = 0; i < kMessages; i++)
            EXPECT_TRUE(reader.receive() == numbered(100'000, i)) << i;
    });
    EXPECT_TRUE(wait({sends, reads}, 10 * sim::kSecond));
    auto drains = spawn(full, [&] {
        for (std::size_t i = 0; i < senders.size(); i++)
            EXPECT_TRUE(full.receive() == contents(1 << 20, 1)) << i;
    });
    EXPECT_TRUE(wait({drains}, 20 * sim::kSecond));
    for (auto &sender : senders)
        close(*sender);
    for (Program *program : {&reader, &full, &other})
        close(*program);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaFull, ::testing::Range(1, 4));

} // namespace
