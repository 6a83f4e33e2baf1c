// SPDX-License-Identifier: GPL-2.0
// A peer that takes what it can: memory, and the time until it is acknowledged.
#include "net/rds/rdma/private_data.h"
#include "rds_rdma_peer.h"

#include <deque>

namespace {

class RdsRdmaLimits : public RdsRdmaPeer {
protected:
    RdsRdmaLimits() : RdsRdmaPeer(64 << 20) {}
    static std::string says_of_type(unsigned tos)
    {
        std::string bytes = says("10.0.0.2", "10.0.0.1", 3, 1);
        bytes[8 + offsetof(rds_rdma::PrivateData, tos)] = static_cast<char>(tos);
        return bytes;
    }
    /** Connections of so many types of service, as far as they are accepted. How many were. */
    unsigned open_many(unsigned count)
    {
        for (unsigned tos = 1; tos <= count; tos++) {
            Peer &other = others.emplace_back();
            run(b, [&] {
                kapi_cm_route to{KAPI_CM_IP, sim::address("10.0.0.2"), sim::address("10.0.0.1", kCm), 5000, 0, 0};
                ASSERT_EQ(kapi_cm_connect(&b.initial_net(), &to, &Peer::ops, &other, &other.cm), 0);
            });
            EXPECT_TRUE(wait_for([&] { return other.resolved; }));
            run(b, [&] {
                other.make_queues();
                std::string data = says_of_type(tos);
                kapi_cm_options with = options(data);
                ASSERT_EQ(kapi_cm_request(other.cm, &with), 0);
            });
        }
        world.run_for(5 * sim::kSecond);
        return static_cast<unsigned>(
            std::count_if(others.begin(), others.end(), [](const Peer &other) { return other.established && !other.end; }));
    }
    void drop_others()
    {
        run(b, [&] {
            for (Peer &other : others)
                other.drop();
        });
    }
    std::deque<Peer> others;
};

// The machine has little memory, so that few connections show it.
TEST_P(RdsRdmaLimits, a_peer_leaves_memory__to_local_users)
{
    sim::Node &c = world.add_node("c");
    c.initial_net().add(sim::address("10.0.0.3"));
    sim::plug_rdma(c.initial_net(), "rxe_c");
    RdsHost host_c(c);
    run(c, [&] {
        ASSERT_EQ(host_c.load_rds(), 0);
        ASSERT_EQ(host_c.load_rdma(), 0);
    });
    Program to_c{*this, host_a, "10.0.0.1", "10.0.0.3"}, on_c{*this, host_c, "10.0.0.3", "10.0.0.1"};
    open(to_c, kPort + 1);
    open(on_c);
    unsigned accepted = open_many(24);
    EXPECT_GE(accepted, 1u);
    EXPECT_LE(accepted, 3u) << "half of the peers' half";
    EXPECT_EQ(std::count(a.log.begin(), a.log.end(), "rds: 10.0.0.2 is not connected over RDMA: connections have all memory "
                                                     "that queues may have"), 1) << "not for each that is refused";
    EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(), [](const std::string &line) {
        return line.find("has a short receive queue over RDMA: ") != std::string::npos;
    }), 1);
    run(a, [&] { to_c.send("hello"); });
    auto receive = spawn(on_c, [&] { EXPECT_EQ(on_c.receive(), "hello"); });
    EXPECT_TRUE(wait({receive}, 10 * sim::kSecond));
    drop_others();
    close(to_c);
    close(on_c);
    run(c, [&] { EXPECT_TRUE(host_c.unload_soon()); }, 200 * sim::kSecond);
}

// The first acknowledgement waits in the device until the peer has a receive, and so does what would bring the second.
TEST_P(RdsRdmaLimits, what_was_received_is_acknowledged__also_when_messages_that_would_do_it_are_cancelled)
{
    connect();
    program.socket.sk().sndbuf = 8 << 20;
    run(a, [&] { program.send("up"); });
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    run(a, [&] {
        program.send(contents(1 << 20, 1));
        program.send(contents(1 << 20, 2));
    });
    world.run_for(100 * sim::kMillisecond);
    for (unsigned sequence : {1u, 2u}) {
        post(sealed(data_header(5, sequence), "hello"));
        EXPECT_EQ(received(), "hello");
    }
    run(a, [&] { program.send("has no room"); });
    world.run_for(100 * sim::kMillisecond);
    close(program);
    std::size_t taken = 0;
    auto acknowledged = [&] { return !peer.messages.empty() && +header_of(peer.messages.back()).ack == 2; };
    while (!acknowledged() && wait_for([&] { return peer.received.size() > taken; }))
        run(b, [&] {
            for (; taken < peer.received.size(); taken++)
                ASSERT_EQ(peer.post_recv(peer.received[taken].cookie), 0);
        });
    EXPECT_TRUE(acknowledged());
}

// What is flushed is not posted again: the device would flush that, too, until the connection's worker comes.
TEST_P(RdsRdmaLimits, a_peer_that_leaves__ends_the_receives_at_once)
{
    connect();
    run(b, [&] { kapi_cm_disconnect(peer.cm); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(sim::posted_late(*dev_a), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLimits, ::testing::Range(1, 7));

} // namespace
