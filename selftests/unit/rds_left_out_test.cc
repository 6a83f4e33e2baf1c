// SPDX-License-Identifier: GPL-2.0
// A stranger on the peer's host leaves paths out that the peer has, while no stream is up: what the peer's programs receive.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

constexpr kapi_u16 kTo = 100;
constexpr unsigned kBeforeReconnectMs = 2000;

/** Machine b sends to machine a, which opens the streams, as a stranger there does. Parameter: the stranger is foreign. */
class LeftOut : public RdsTest, public testing::WithParamInterface<bool> {
protected:
    LeftOut() : from(host_b), to(host_a), stranger(a)
    {
        open(a, to, "10.0.0.1", kTo);
        open(b, from, "10.0.0.2", port_of_path(3));
        sends("first");
        run(a, [&] { EXPECT_EQ(receive(to), "first"); });
        world.run_for(2 * sim::kSecond);
        rds_net_sysctl(host_a.net().rds)->reconnect_max_delay_ms = kBeforeReconnectMs;
        rds_net_sysctl(host_a.net().rds)->reconnect_min_delay_ms = kBeforeReconnectMs;
    }
    ~LeftOut() override
    {
        run(a, [&] { stranger.close(true), to.close(); });
        run(b, [&] { from.close(); });
    }
    void open(sim::Node &node, RdsSocket &socket, const char *address, kapi_u16 port)
    {
        run(node, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
            socket.sk().rcvtimeo_ns = 20 * sim::kSecond;
        });
    }
    void sends(const std::string &text)
    {
        run(b, [&] { EXPECT_EQ(send(from, text, "10.0.0.1", kTo), static_cast<long>(text.size())); });
    }

    RdsSocket from, to;
    WireStream stranger;
};

// It answers nothing. One that is foreign would get all that is sent, and leaves at once.
TEST_P(LeftOut, messages_arrive_in_order_and_once)
{
    const bool foreign = GetParam();
    world.network().cut(a, b);
    sends("1");
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(10 * sim::kMillisecond);
    world.network().cut(a, b, false);
    run(a, [&] {
        ASSERT_TRUE(stranger.connect(sim::address("10.0.0.1", 40000), sim::address("10.0.0.2", 16385)));
        ASSERT_TRUE(foreign ? foreign_handshake(stranger, false, 1) : handshake_of(stranger, 1));
        if (foreign)
            stranger.close(false);
        world.sleep(100 * sim::kMillisecond);
    });
    sends("2");
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] { stranger.close(true); });
    world.run_for(4 * sim::kSecond);
    sends("3");
    std::vector<std::string> received;
    run(a, [&] {
        for (unsigned i = 0; i < 3; i++)
            received.push_back(receive(to));
        world.sleep(5 * sim::kSecond);
        EXPECT_EQ(to.receive(nullptr, 0, nullptr, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
    });
    EXPECT_EQ(received, (std::vector<std::string>{"1", "2", "3"}));
}

INSTANTIATE_TEST_SUITE_P(, LeftOut, testing::Bool(),
                         [](const auto &info) { return std::string(info.param ? "foreign" : "hawser"); });

/** What is received depends on how soon the peer reads each of its streams: so all must come over one of them. */
class LeftOutUnsent : public PeerTest {
protected:
    static std::vector<std::string> payloads(WireStream &stream)
    {
        std::vector<std::string> all;
        for (const auto &arrived : stream.received())
            if (!arrived.payload.empty() && arrived.payload.size() < 10) // no map
                all.push_back(arrived.payload);
        return all;
    }
    /** As shake_hands(), also with a victim that takes the peer for foreign: it may send messages at once. */
    void connect_again(WireStream &stream, unsigned path)
    {
        stream.take();
        ASSERT_TRUE(connect(stream, path));
        ASSERT_TRUE(stream.handshake(false, kGeneration, path, kMemory));
        EXPECT_TRUE(stream.wait([&] { return std::ranges::any_of(stream.received(), is_reply); }));
        ASSERT_TRUE(stream.handshake(true, kGeneration, path, kMemory));
        world.sleep(10 * sim::kMillisecond);
    }
    /** A socket of the victim sends, the peer's TCP does not get it, and all streams are lost. */
    void sends_before_the_loss(RdsSocket &from, const std::string &text, std::initializer_list<WireStream *> streams)
    {
        world.network().cut(a, b);
        run(b, [&] {
            auto size = static_cast<long>(text.size());
            EXPECT_EQ(from.send(text.data(), text.size(), sim::address("10.0.0.1", kPeersPort)), size);
        });
        world.network().reset(a, b, sim::Sees::both);
        world.run_for(sim::kMillisecond);
        world.network().cut(a, b, false);
        run(a, [&] {
            for (WireStream *stream : streams)
                stream->close(true);
            world.sleep(10 * sim::kMillisecond);
        });
    }
    /** A stranger answers nothing, and is gone at once. Task of host a. */
    void stranger_has(kapi_u32 paths, bool foreign)
    {
        WireStream stranger(a);
        ASSERT_TRUE(connect(stranger, 0));
        ASSERT_TRUE(foreign ? foreign_handshake(stranger, false, paths) : handshake_of(stranger, paths));
        world.sleep(10 * sim::kMillisecond);
        stranger.close(true);
        world.sleep(100 * sim::kMillisecond);
    }
    void goes_over_one_path(bool foreign, bool path_was_used)
    {
        open_socket(port_of_path(3));
        WireStream first(a), third(a), stranger(a);
        run(a, [&] {
            shake_hands(first, 0);
            if (path_was_used)
                shake_hands(third, 3);
        });
        if (path_was_used)
            victim_sends("0");
        run(a, [&] {
            world.sleep(10 * sim::kMillisecond);
            first.close(true), third.close(true);
            world.sleep(10 * sim::kMillisecond);
            ASSERT_TRUE(connect(stranger, 0));
            ASSERT_TRUE(foreign ? foreign_handshake(stranger, false, 1) : handshake_of(stranger, 1));
            world.sleep(10 * sim::kMillisecond);
            stranger.close(true);
            world.sleep(100 * sim::kMillisecond);
        });
        victim_sends("1");
        run(a, [&] {
            world.sleep(100 * sim::kMillisecond);
            connect_again(first, 0);
            connect_again(third, 3);
        });
        victim_sends("2");
        run(a, [&] {
            world.sleep(sim::kSecond);
            auto by_first = payloads(first), by_third = payloads(third);
            EXPECT_TRUE(by_first.empty() || by_third.empty());
            EXPECT_EQ(by_first.empty() ? by_third : by_first, (std::vector<std::string>{"1", "2"}));
            first.close(true), third.close(true);
        });
    }
};

TEST_F(LeftOutUnsent, by_one_that_looks_like_a_hawser) { goes_over_one_path(false, true); }
TEST_F(LeftOutUnsent, by_a_foreign_one) { goes_over_one_path(true, true); }
TEST_F(LeftOutUnsent, by_a_foreign_one__a_path_that_had_no_stream_yet) { goes_over_one_path(true, false); }

// Path 3 moves to path 0. Path 1 does not, as what it has sent is not acknowledged: so path 3 must not move to it later.
TEST_F(LeftOutUnsent, by_two_with_different_numbers)
{
    open_socket(port_of_path(3));
    RdsSocket other(host);
    run(b, [&] {
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.2", port_of_path(1))), 0);
    });
    WireStream first(a), second(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(second, 1);
        shake_hands(third, 3);
    });
    victim_sends("0");
    world.run_for(100 * sim::kMillisecond);
    sends_before_the_loss(other, "vain", {&first, &second, &third});
    WireStream next(a);
    run(a, [&] {
        stranger_has(1, true);
        ASSERT_TRUE(connect(next, 0));
        ASSERT_TRUE(handshake_of(next, 2));
        world.sleep(10 * sim::kMillisecond);
    });
    victim_sends("1");
    world.run_for(4 * sim::kSecond); // path 3 looks again
    victim_sends("2");
    run(a, [&] {
        next.close(true);
        world.sleep(100 * sim::kMillisecond);
        connect_again(first, 0);
        connect_again(second, 1);
        connect_again(third, 3);
        world.sleep(sim::kSecond);
        EXPECT_EQ(payloads(first), (std::vector<std::string>{"1", "2"}));
        EXPECT_EQ(payloads(second), (std::vector<std::string>{"vain"}));
        EXPECT_EQ(payloads(third), (std::vector<std::string>{}));
        first.close(true), second.close(true), third.close(true);
    });
    run(b, [&] { other.close(); });
}

// The half hour for which sent messages are kept begins anew.
TEST_F(LeftOutUnsent, again_after_an_hour)
{
    open_socket(port_of_path(3));
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
    });
    world.run_for(100 * sim::kMillisecond);
    sends_before_the_loss(socket, "sent", {&first, &third});
    auto dropped = counted(rds::Stat::send_drop_restart);
    run(a, [&] {
        stranger_has(1, true);
        stranger_has(8, false);
        world.sleep(3600 * sim::kSecond);
        stranger_has(1, true);
    }, 5000 * sim::kSecond);
    EXPECT_EQ(counted(rds::Stat::send_drop_restart), dropped);
    run(a, [&] {
        connect_again(first, 0);
        connect_again(third, 3);
        world.sleep(sim::kSecond);
        EXPECT_EQ(payloads(third), (std::vector<std::string>{"sent"}));
        first.close(true), third.close(true);
    });
}

// Path 1 has moved to path 0 for good. Path 3 moves later, when the peer has two paths again: by path 1 to path 0, which is idle.
TEST_F(LeftOutUnsent, what_moves_by_a_path_that_has_moved_is_sent)
{
    open_socket(port_of_path(3));
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
    });
    victim_sends("0");
    world.run_for(100 * sim::kMillisecond);
    world.network().cut(a, b);
    victim_sends("vain");
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kMillisecond);
    world.network().cut(a, b, false);
    run(a, [&] {
        first.close(true), third.close(true);
        world.sleep(10 * sim::kMillisecond);
        shake_hands(first, 0);
        ASSERT_TRUE(handshake_of(first, 1));
        world.sleep(100 * sim::kMillisecond);
        ASSERT_TRUE(handshake_of(first, 2));
        world.sleep(100 * sim::kMillisecond);
    });
    victim_sends("later");
    run(a, [&] {
        world.sleep(100 * sim::kSecond);
        EXPECT_EQ(payloads(first), (std::vector<std::string>{"later"}));
        world.sleep(100 * sim::kSecond);
        EXPECT_EQ(payloads(first), (std::vector<std::string>{"later"}));
    }, 1000 * sim::kSecond);
    victim_sends("more");
    run(a, [&] {
        world.sleep(sim::kSecond);
        first.close(true);
    }, 1000 * sim::kSecond);
}

} // namespace
