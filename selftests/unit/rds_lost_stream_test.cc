// SPDX-License-Identifier: GPL-2.0
// A stream is lost while a full socket keeps it from being read, and the program does not read: others need the path.
#include "rds_peer_test.h"

#include <string>

#include "net/rds/socket.h"

namespace {

constexpr std::size_t kLimit = 2 * (1 << 20) + 256 * 1024; // of SO_RCVBUF's default
constexpr std::size_t kBuffer = 256 << 10;                 // TCP's
constexpr unsigned kRich = 64 << 20;

struct Case {
    unsigned payload;
    unsigned charge_limit; // of the full socket
    friend void PrintTo(const Case &c, std::ostream *out) { *out << c.payload << " bytes, limit " << c.charge_limit; }
};

class LostStream : public PeerTest {
protected:
    LostStream() : other(host) {}
    ~LostStream() override
    {
        run(b, [this] { other.close(); });
    }
    /** The socket that nobody reads, and that of another user on the same path. */
    void open(unsigned charge_limit)
    {
        open_socket(port);
        socket.sk().charge_limit = charge_limit;
        run(b, [this] {
            ASSERT_EQ(other.open(), 0);
            ASSERT_EQ(other.bind(sim::address("10.0.0.2", port_of_path(0, static_cast<kapi_u16>(port + 1)))), 0);
            other.sk().sndtimeo_ns = other.sk().rcvtimeo_ns = sim::kSecond;
        });
    }
    /** As many messages as stream takes. */
    void fill(WireStream &stream, unsigned payload)
    {
        stream.patience_ns = 100 * sim::kMillisecond;
        while (stream.message(count + 1, kPeersPort, port, std::string(payload, 'x')))
            count++;
        EXPECT_NE(counted(rds::Stat::recv_stalled), 0u);
    }
    /** A stream as a hawser peer begins it. The victim need not answer. */
    void begin(WireStream &stream)
    {
        ASSERT_TRUE(connect(stream, 0));
        EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(stream.handshake(true, kGeneration, 0, kMemory));
    }
    /** The other user's message arrives over stream within a time. */
    bool other_sends_over(WireStream &stream, std::uint64_t wait_ns)
    {
        run(b, [&] { EXPECT_EQ(other.send("out", 3, sim::address("10.0.0.1", kPeersPort)), 3); });
        bool got = false;
        run(a, [&] {
            got = stream.wait([&] { return !stream.received().empty() && stream.received().back().payload == "out"; }, wait_ns);
        }, wait_ns + sim::kSecond);
        return got;
    }
    /** Reads the full socket's messages. How many of payload come before one that is another. */
    kapi_u64 read(unsigned payload, const std::string &last)
    {
        kapi_u64 taken = 0;
        run(b, [&] {
            std::string buffer(1 << 20, '\0');
            for (;; taken++) {
                long size = socket.receive(buffer.data(), buffer.size(), nullptr);
                std::string text = size < 0 ? "error" : buffer.substr(0, static_cast<std::size_t>(size));
                if (text != std::string(payload, 'x')) {
                    EXPECT_EQ(text, last);
                    return;
                }
            }
        }, 100 * sim::kSecond);
        return taken;
    }
    rds::PeersAccount &uncharged()
    {
        sim::NodeScope scope(b);
        return rds::Module::get().peers_share.of_socket(&socket.sk());
    }
    /** As if all sockets of a user had as much uncharged as he may have. Returns how much that is. */
    kapi_u64 use_up(rds::PeersAccount &account)
    {
        kapi_u64 taken = 0;
        for (sim::NodeScope scope(b); account.take(1 << 20);)
            taken += 1 << 20;
        return taken;
    }

    const kapi_u16 port = port_of_path(0);
    RdsSocket other;
    kapi_u64 count = 0; // of messages that the peer has sent
};

class LostStreams : public LostStream, public ::testing::WithParamInterface<Case> {};

// A program may only send, and never read what every program can send to it.
TEST_P(LostStreams, others_send_after_a_minute_though_nobody_reads)
{
    for (bool reset : {false, true}) {
        auto [payload, charge_limit] = GetParam();
        if (!reset)
            open(charge_limit);
        WireStream first(a), second(a);
        kapi_u64 before = queued();
        run(a, [&] {
            begin(first);
            fill(first, payload);
            if (reset)
                world.network().reset(a, b, sim::Sees::both);
            first.close(false);
            world.sleep(sim::kSecond);
            begin(second);
            ASSERT_TRUE(second.message(++count, kPeersPort, port, "next"));
        }, 1000 * sim::kSecond);
        EXPECT_TRUE(other_sends_over(second, 66 * sim::kSecond)) << reset;
        kapi_u64 taken = queued() - before;
        EXPECT_GT(taken, 2u);
        world.run_for(61 * sim::kSecond);
        EXPECT_EQ(queued() - before, taken) << "the next one waits";
        EXPECT_EQ(read(payload, "next"), taken) << reset;
        EXPECT_TRUE(uncharged().share(8 << 20) >= 0) << "all was given back";
        run(a, [&] { second.close(false); });
        world.run_for(sim::kSecond);
    }
}

INSTANTIATE_TEST_SUITE_P(Payloads, LostStreams,
                         ::testing::Values(Case{0, kRich}, Case{1, kRich}, Case{100, kRich}, Case{10000, kRich}, Case{0, 0},
                                           Case{1, 0}, Case{100, 0}, Case{10000, 0}));

class ManyLosses : public LostStream, public ::testing::WithParamInterface<unsigned> {};

TEST_P(ManyLosses, bring_no_more_than_the_limit_and_a_stream)
{
    const unsigned payload = GetParam();
    open(kRich);
    std::uint64_t when_full = 0;
    run(a, [&] {
        for (int round = 0; round < 60; round++) {
            WireStream stream(a);
            stream.patience_ns = 100 * sim::kMillisecond;
            ASSERT_TRUE(connect(stream, 0));
            stream.handshake(false, kGeneration, 0, kMemory);
            world.sleep(100 * sim::kMillisecond);
            while (stream.message(count + 1, kPeersPort, port, std::string(payload, 'x')))
                count++;
            when_full = when_full ? when_full : queued();
            stream.close(false);
            world.sleep(61 * sim::kSecond);
        }
    }, 7200 * sim::kSecond);
    std::uint64_t over = queued() - when_full;
    EXPECT_GT(over * (payload + sizeof(rds::Header)), kLimit);
    EXPECT_LE(over * (payload + sizeof(rds::Header)), kLimit + kBuffer);
    EXPECT_LE(queued() * payload, 2 * kLimit);
    WireStream last(a);
    EXPECT_GE(read(payload, "error"), over + when_full);
}

INSTANTIATE_TEST_SUITE_P(Payloads, ManyLosses, ::testing::Values(0u, 10000u));

// What nobody can be charged for has a limit that all sockets of a user have in common.
TEST_F(LostStream, uncharged__is_bounded)
{
    open(0);
    WireStream first(a), second(a);
    kapi_u64 others = 0;
    std::uint64_t held = 0;
    run(a, [&] {
        begin(first);
        fill(first, 100);
        others = use_up(uncharged());
        held = queued();
        first.close(false);
        world.sleep(sim::kSecond);
        begin(second);
        world.sleep(500 * sim::kSecond);
        EXPECT_LE(queued() - held, (1u << 20) / 512) << "what was left of the limit";
    }, 1000 * sim::kSecond);
    EXPECT_FALSE(other_sends_over(second, sim::kSecond)) << "then the documentation promises too little";
    {
        sim::NodeScope scope(b);
        uncharged().give(others);
    }
    run(a, [&] {
        EXPECT_TRUE(second.wait([&] { return !second.received().empty() && second.received().back().payload == "out"; },
                                61 * sim::kSecond));
        second.close(true);
    }, 100 * sim::kSecond);
    EXPECT_GT(queued(), held + 1000);
    EXPECT_EQ(read(100, "error"), queued());
}

TEST_F(LostStream, uncharged__of_one_user_leaves_room_for_others)
{
    open(0);
    WireStream first(a), second(a);
    kapi_u64 before = 0;
    {
        sim::NodeScope scope(b);
        other.sk().user = socket.sk().user + 1;
        rds::PeersAccount &others = rds::Module::get().peers_share.of_socket(&other.sk());
        before = use_up(others);
        EXPECT_GT(before, 15u << 20);
    }
    run(a, [&] {
        begin(first);
        fill(first, 100);
        first.close(false);
        world.sleep(sim::kSecond);
        begin(second);
    }, 100 * sim::kSecond);
    EXPECT_TRUE(other_sends_over(second, 66 * sim::kSecond));
    {
        sim::NodeScope scope(b);
        rds::Module::get().peers_share.of_socket(&other.sk()).give(before);
    }
    run(a, [&] { second.close(true); });
}

} // namespace
