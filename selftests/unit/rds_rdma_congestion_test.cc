// SPDX-License-Identifier: GPL-2.0
// A peer over RDMA whose port is congested, or which meets a full socket.
#include "net/rds/connection.h"
#include "net/rds/net.h"
#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaCongestion : public RdsRdmaPeer {
protected:
    /** The peer's map, in two fragments, with these bits in each byte: all of its ports are full, or none. */
    void post_map(char bits)
    {
        Header map{};
        map.length = rds::map_bytes;
        map.flags = rds::flag_congestion_map;
        for (int half = 0; half < 2; half++)
            post(sealed(map, std::string(4096, bits)));
    }
};

// One that does not heed the map fills the socket, then the ring, and then waits. What it holds here is bounded, and when the
// program reads, all of it is there.
TEST_P(RdsRdmaCongestion, waits__while_a_socket_is_full)
{
    connect();
    constexpr std::size_t kSize = 65536;
    constexpr unsigned kMost = 4000;
    unsigned posted = 0; // fragments
    auto done = [&] { return static_cast<unsigned>(peer.sent.size()); };
    auto post_next = [&] {
        std::string bytes = numbered(kSize, posted / 16);
        std::string fragment = sealed(data_header(kSize, 1 + posted / 16), bytes.substr(posted % 16 * 4096, 4096));
        std::size_t offset = posted % Peer::kSlots * Peer::kSlot;
        std::memcpy(peer.out.bytes + offset, fragment.data(), fragment.size());
        kapi_map_sync(&peer.out.map, offset, fragment.size(), KAPI_MAP_FOR_DEVICE);
        ASSERT_EQ(peer.post(peer.make_wr(KAPI_WR_SEND, posted++, KAPI_WR_SIGNALED | KAPI_WR_SOLICITED), offset, fragment.size()),
                  0);
    };
    auto fill = [&] {
        for (bool moves = true; moves && posted < kMost;) {
            run(b, [&] {
                while (posted < kMost && posted - done() < Peer::kSlots)
                    post_next();
            });
            unsigned before = done();
            moves = world.run_until([&] { return done() > before; }, sim::kSecond);
        }
    };
    fill();
    EXPECT_LT(posted, 1000u) << "2.25 MiB in the socket, 1 MiB in the ring";
    EXPECT_GT(posted, 600u);
    EXPECT_FALSE(peer.end) << "it waits for ever";
    auto receive_some = [&](unsigned from, unsigned until) {
        run(a, [&] {
            for (unsigned i = from; i < until; i++)
                ASSERT_TRUE(program.receive() == numbered(kSize, i)) << i;
        });
    };
    receive_some(0, 30);
    unsigned before = posted;
    fill();
    EXPECT_GT(posted, before + 300u);
    world.run_for(100 * sim::kMillisecond);
    receive_some(30, done() / 16);
    EXPECT_FALSE(peer.end);
}

// Over one connection no map overtakes another: there is no reason to open it again, which a peer of the kernel's own may not
// survive.
TEST_P(RdsRdmaCongestion, stays_connected__while_its_port_is_congested)
{
    connect();
    post_map('\xff');
    run(a, [&] { EXPECT_EQ(program.socket.send("x", 1, sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    world.run_for(10 * sim::kSecond);
    EXPECT_FALSE(peer.end);
    post_map('\0');
    run(a, [&] { EXPECT_EQ(program.socket.send("x", 1, sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT), 1); });
}

// A host that has died while its port was full: nobody would notice before something is sent there.
TEST_P(RdsRdmaCongestion, is_noticed_when_it_has_died__while_programs_wait_for_its_port)
{
    connect();
    post_map('\xff');
    world.run_for(10 * sim::kSecond);
    rds::Path *path = nullptr;
    run(a, [&] {
        reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &one) { path = &one.path(0); });
    });
    ASSERT_TRUE(path && path->is_up());
    cut(true);
    run(a, [&] { EXPECT_EQ(program.socket.send("x", 1, sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    EXPECT_TRUE(world.run_until([&] { return !path->is_up(); }, 60 * sim::kSecond));
    cut(false);
}

// The connection has no user any more when it is lost, so that it is not wanted for its messages. In poll() a program may wait
// for the port for as long as it likes.
TEST_P(RdsRdmaCongestion, is_connected_to_again__for_programs_that_wait_for_its_port_and_use_another_connection)
{
    connect();
    post_map('\xff');
    run(a, [&] {
        EXPECT_EQ(program.socket.send("x", 1, sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        EXPECT_EQ(program.socket.send("x", 1, sim::address("10.0.0.1", kPort), RDS_ABI_MSG_DONTWAIT), 1);
    });
    world.run_for(sim::kSecond);
    run(b, [&] { peer.drop(); });
    peer.resolved = peer.established = false;
    peer.end.reset();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.established; }));
    post_map('\0');
    run(a, [&] { EXPECT_EQ(program.socket.send("y", 1, sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT), 1); });
}

// It is not asked for its map, which is behind the messages that nobody reads.
TEST_P(RdsRdmaCongestion, keeps_nobody_waiting_for_its_port__while_a_socket_is_full)
{
    std::vector<std::string> sent;
    auto send_map = [&](bool is_full) {
        Header map{};
        map.length = rds::map_bytes;
        map.flags = rds::flag_congestion_map;
        std::string bits(rds::map_bytes, '\0');
        bits[kPort / 8] = static_cast<char>(is_full << kPort % 8);
        for (std::size_t at : {0, 4096})
            post(sealed(map, bits.substr(at, 4096)));
    };
    auto send = [&](std::size_t size) {
        const std::string &bytes = sent.emplace_back(numbered(size, static_cast<unsigned>(sent.size())));
        Header header = data_header(size, static_cast<unsigned>(sent.size()));
        header.dport = kPort + 1;
        header.flags = 0;
        for (std::size_t at = 0; at < size; at += 4096)
            post(sealed(header, bytes.substr(at, 4096)));
    };
    auto stalls = [&] {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host_a.net().rds)->counted(rds::Stat::recv_stalled) != 0;
    };
    Program full = on_a();
    open(full, kPort + 1);
    connect();
    send_map(true);
    while (!stalls() && sent.size() < 100)
        send(65536);
    for (int i = 0; i < 10; i++)
        send(100);
    send_map(false);
    auto waits = spawn(program, [&] { program.send("goes"); });
    world.run_for(10 * sim::kMillisecond);
    EXPECT_FALSE(waits->is_done());
    EXPECT_TRUE(wait({waits}, 5 * sim::kSecond));
    run(a, [&] {
        for (const std::string &bytes : sent)
            EXPECT_TRUE(full.receive() == bytes);
    });
    EXPECT_FALSE(peer.end);
    close(full);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaCongestion, ::testing::Range(1, 7));

} // namespace
