// SPDX-License-Identifier: GPL-2.0
// Programs and users that have used up what they may have, and do not read: what others do over the same connection.
#include "net/rds/net.h"
#include "net/rds/rdma/link.h"
#include "net/rds/rdma/net.h"
#include "rds_rdma_test.h"

namespace {

class RdsRdmaFull : public RdmaTest {
protected:
    static constexpr unsigned kMessages = 14; // of 1 MiB
    /** A socket of b, which nobody reads, is sent so many, and is full; by default the ring is full, too. */
    void fill(std::vector<std::unique_ptr<Program>> &senders, unsigned count = kMessages, kapi_u16 port = kPort)
    {
        const std::string bytes = contents(1 << 20, 1);
        for (unsigned i = 0; i < count; i++) {
            Program &sender = *senders.emplace_back(std::make_unique<Program>(*this, host_a, "10.0.0.1", "10.0.0.2"));
            open(sender, static_cast<kapi_u16>(6000 + senders.size()));
            sender.socket.sk().sndbuf = 4 << 20;
            spawned.push_back(spawn(sender, [&sender, bytes, port] {
                EXPECT_EQ(sender.socket.send(bytes.data(), bytes.size(), sim::address(sender.to, port)), 1 << 20);
            }));
        }
        ASSERT_TRUE(wait(spawned)) << "all have sent before they know of the congestion";
        world.run_for(500 * sim::kMillisecond);
    }
    void drain(Program &full, unsigned count = kMessages)
    {
        auto drains = spawn(full, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_TRUE(full.receive() == contents(1 << 20, 1)) << i;
        });
        EXPECT_TRUE(wait({drains}, 20 * sim::kSecond));
    }
    /** Messages that need an acknowledgement now and then. */
    void pass_a_few(Program &from, Program &to)
    {
        constexpr unsigned kCount = 20;
        auto sends = spawn(from, [&] {
            for (unsigned i = 0; i < kCount; i++)
                from.send(numbered(100'000, i));
        });
        auto reads = spawn(to, [&] {
            for (unsigned i = 0; i < kCount; i++)
                EXPECT_TRUE(to.receive() == numbered(100'000, i)) << i;
        });
        ASSERT_TRUE(wait({sends, reads}, 20 * sim::kSecond));
    }
    /** What other users may have that nobody is charged for. */
    kapi_u64 left_to_others(Program &program)
    {
        kapi_u64 left = 0;
        run(program.host.node(), [&] {
            auto &share = rds::Module::get().peers_share;
            rds::PeersAccount *of_other = nullptr;
            for (unsigned user = 0; !of_other || of_other == &share.of_socket(&program.socket.sk()); user++)
                of_other = &share.account(rds::PeersShare::uncharged, false, user);
            left = of_other->most();
        });
        return left;
    }
    std::vector<sim::TaskRef> spawned;
    static constexpr kapi_u64 kMuch = 1 << 20;
};

// The peer's acknowledgements are behind the messages that wait for the full sockets.
TEST_P(RdsRdmaFull, one_holds_up_no_other_that_sends)
{
    load();
    for (bool two : {false, true}) {
        Program reader = on_a(), full = on_b(), second = on_b(), other = on_b();
        std::vector<std::unique_ptr<Program>> senders;
        open(reader);
        open(other, 7000);
        const unsigned first = two ? 4 : kMessages, rest = 8; // more than the limit of a socket
        open(full);
        open(second, kPort + 1);
        fill(senders, first);
        if (two)
            fill(senders, rest, kPort + 1);
        pass_a_few(other, reader);
        drain(full, first);
        if (two)
            drain(second, rest);
        for (auto &sender : senders)
            close(*sender);
        for (Program *program : {&reader, &full, &other, &second})
            close(*program);
    }
}

// The peer's map is behind them, too.
TEST_P(RdsRdmaFull, one_holds_up_no_other_that_waits_for_a_port)
{
    load();
    Program reader = on_a(), full = on_b(), other = on_b();
    std::vector<std::unique_ptr<Program>> senders;
    open(reader);
    open(full);
    open(other, 7000);
    other.socket.sk().sndbuf = 16 << 20;
    const std::string bytes = contents(10'000, 1);
    unsigned sent = 0;
    run(b, [&] {
        const kapi_addr to = sim::address(other.to, kPort);
        while (sent < 1000 && other.socket.send(bytes.data(), bytes.size(), to, RDS_ABI_MSG_DONTWAIT) > 0)
            sent++, world.sleep(sim::kMillisecond);
    });
    EXPECT_LT(sent, 1000u) << "the port is full";
    world.run_for(3 * sim::kSecond); // all is acknowledged
    fill(senders);
    auto waits = spawn(other, [&] { other.send("goes"); });
    world.run_for(10 * sim::kMillisecond);
    EXPECT_FALSE(waits->is_done());
    run(a, [&] {
        for (unsigned i = 0; i < sent; i++)
            EXPECT_TRUE(reader.receive() == bytes) << i;
    });
    EXPECT_TRUE(wait({waits}, 5 * sim::kSecond));
    drain(full);
    run(a, [&] { EXPECT_EQ(reader.receive(), "goes"); });
    for (auto &sender : senders)
        close(*sender);
    for (Program *program : {&reader, &full, &other})
        close(*program);
}

// All programs share the connection.
TEST_P(RdsRdmaFull, one_without_memory__holds_up_no_other_that_sends)
{
    load();
    Program reader = on_a(), poor = on_b(), other = on_b();
    std::vector<std::unique_ptr<Program>> senders;
    open(reader);
    open(poor);
    open(other, 7000);
    other.socket.sk().user = poor.socket.sk().user + 1;
    poor.socket.sk().charge_limit = 0;
    kapi_u64 taken = 0;
    auto account = [&]() -> rds::PeersAccount & { return rds::Module::get().peers_share.of_socket(&poor.socket.sk()); };
    run(b, [&] {
        while (account().take(1 << 20))
            taken += 1 << 20;
    });
    const kapi_u64 before = left_to_others(poor);
    fill(senders);
    pass_a_few(other, reader);
    EXPECT_EQ(left_to_others(poor), before) << "other users do not have less for this";
    drain(poor);
    run(b, [&] { account().give(taken); });
    for (auto &sender : senders)
        close(*sender);
    for (Program *program : {&reader, &poor, &other})
        close(*program);
}

// There was no memory for one of its messages a while ago.
TEST_P(RdsRdmaFull, one_that_has_memory_again__holds_up_others_no_longer_than_any_full_one)
{
    load();
    Program reader = on_a(), full = on_b(), other = on_b();
    std::vector<std::unique_ptr<Program>> senders;
    open(reader);
    open(full);
    open(other, 7000);
    full.socket.sk().charge_limit = 0;
    kapi_u64 taken = 0;
    auto account = [&]() -> rds::PeersAccount & { return rds::Module::get().peers_share.of_socket(&full.socket.sk()); };
    run(b, [&] {
        while (account().take(1 << 20))
            taken += 1 << 20;
    });
    fill(senders, 1);
    run(b, [&] { account().give(taken); });
    drain(full, 1);
    full.socket.sk().charge_limit = 64 << 20;
    fill(senders);
    auto began = world.now_ns();
    pass_a_few(other, reader);
    EXPECT_LT(world.now_ns() - began, 2500 * sim::kMillisecond) << "one to two seconds, and the messages";
    drain(full);
    for (auto &sender : senders)
        close(*sender);
    for (Program *program : {&reader, &full, &other})
        close(*program);
}

// Who made the connection pays for its ring, but is not the only one who wants it.
TEST_P(RdsRdmaFull, user_without_a_share_of_the_rings__keeps_the_peer_from_no_other)
{
    load();
    Program reader = on_b(), rich = on_a(), poor = on_a(), another = on_a();
    open(reader);
    open(poor, 6000);
    open(rich, 6001);
    open(another, 6002);
    rich.socket.sk().user = poor.socket.sk().user + 1;
    another.socket.sk().user = poor.socket.sk().user + 2;
    const kapi_addr elsewhere = sim::address("10.0.0.9");
    const kapi_u32 users[] = {kapi_user_number(poor.socket.sk().user), kapi_user_number(another.socket.sk().user)};
    std::vector<rds_rdma::Ring> taken;
    run(a, [&] {
        rds_rdma::RingShares &rings = rds_rdma::Module::get().rings;
        for (kapi_u32 user : users)
            for (rds_rdma::Ring ring; ring = rings.take(user, elsewhere, 64, kMuch, {256, 0, 8, 5, 128}), ring.buffers;)
                taken.push_back(ring);
        poor.send("waits");
    });
    world.run_for(10 * sim::kSecond);
    run(a, [&] {
        rich.send("goes");
        another.send("in vain");
        another.socket.close();
    });
    world.run_for(10 * sim::kSecond);
    run(a, [&] { rich.send("goes on"); });
    auto reads = spawn(reader, [&] {
        for (const char *expected : {"waits", "goes", "goes on"})
            EXPECT_EQ(reader.receive(), expected);
    });
    EXPECT_TRUE(wait({reads}, 40 * sim::kSecond));
    run(a, [&] {
        for (const rds_rdma::Ring &ring : taken)
            rds_rdma::Module::get().rings.give(ring, elsewhere);
    });
    for (Program *program : {&reader, &rich, &poor})
        close(*program);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaFull, ::testing::Range(1, 4));

} // namespace
