// SPDX-License-Identifier: GPL-2.0
// Messages that are gathered: in how many transmissions they go.
#include "rds_noting_test.h"

#include <string>
#include <vector>

namespace {

using sim::kMillisecond;

constexpr kapi_u16 kPort = 7;
constexpr const char *kRemote = "10.0.0.9";

/** A socket whose messages go over that transport, to a peer that has answered. */
class Gathered : public SimTest {
protected:
    Gathered()
    {
        Noted::present = &noted_;
        run(a, [&] {
            ASSERT_EQ(host_.load_rds(), 0);
            ASSERT_EQ(rds_transport_register(&transport_), 0);
            ASSERT_EQ(socket_.open(), 0);
            ASSERT_EQ(socket_.bind(sim::address("10.0.0.1", kPort)), 0);
            socket_.sk().sndbuf = 1 << 20;
            send("first", RDS_ABI_MSG_DONTWAIT);
            world.sleep(kMillisecond);
            rds_path_notify(noted_.made, 0, RDS_PATH_ESTABLISHED);
            world.sleep(kMillisecond);
            reinterpret_cast<rds::Connection *>(noted_.made)->path(0).answered(7);
            world.sleep(kMillisecond);
            forget();
        });
    }
    ~Gathered() override
    {
        run(a, [&] {
            socket_.close();
            rds_transport_unregister(&transport_);
            rds_transport_leave_net(&transport_, &a.initial_net());
            EXPECT_TRUE(host_.unload_soon());
        });
    }
    void send(const std::string &text, unsigned flags)
    {
        EXPECT_EQ(socket_.send(text.data(), text.size(), sim::address(kRemote, kPort), flags), static_cast<long>(text.size()));
    }
    /** As sendmmsg() does. */
    void send_many(unsigned count)
    {
        for (unsigned i = 0; i < count; i++)
            send("x", i + 1 < count ? RDS_ABI_MSG_BATCH : 0);
    }
    /** Of how many messages of one byte each transmission was. */
    std::vector<unsigned> messages() const
    {
        std::vector<unsigned> counts;
        for (const auto &sent : noted_.sent)
            counts.push_back(sent.bytes / (sizeof(rds::Header) + 1));
        return counts;
    }
    void forget() { noted_.sent.clear(); }
    /** All that was transmitted, but for so many bytes. */
    void acknowledge(kapi_u32 but) { rds_path_acked(noted_.made, 0, noted_.sequence - but); }

    Noted noted_;
    const rds_transport transport_ = noting_transport();
    RdsHost host_{a};
    RdsSocket socket_{host_};
};

using Counts = std::vector<unsigned>;

TEST_F(Gathered, single_messages__go_singly)
{
    run(a, [&] {
        for (int i = 0; i < 3; i++)
            send("x", 0);
        EXPECT_EQ(messages(), (Counts{1, 1, 1}));
    });
}

TEST_F(Gathered, messages_of_sendmmsg__go_together)
{
    run(a, [&] {
        send_many(10);
        EXPECT_EQ(messages(), Counts{10}) << "when the last call returns";
        EXPECT_FALSE(noted_.sent[0].more);
        forget();
        world.sleep(20 * kMillisecond);
        EXPECT_EQ(messages(), Counts{}) << "and not again";
        acknowledge(0); // else some wait for that
        send_many(10);
        EXPECT_EQ(messages(), Counts{10});
    });
}

TEST_F(Gathered, more_than_go_together__are_as_few_transmissions_as_can_be)
{
    constexpr unsigned kMost = rds::Batch::max_messages;
    run(a, [&] {
        send_many(2 * kMost + 1);
        EXPECT_EQ(messages(), (Counts{kMost, kMost, 1}));
    });
}

TEST_F(Gathered, messages_of_one_call__go_together)
{
    run(a, [&] {
        EXPECT_EQ(socket_.send_each("0123456789", 10, sim::address(kRemote, kPort), std::vector<std::uint32_t>(10, 1)), 10);
        EXPECT_EQ(messages(), Counts{10});
    });
}

TEST_F(Gathered, without_a_last_message__go_together_by_a_timer)
{
    run(a, [&] {
        for (int i = 0; i < 10; i++)
            send("x", RDS_ABI_MSG_BATCH);
        world.sleep(9 * kMillisecond);
        EXPECT_EQ(messages(), Counts{});
        world.sleep(3 * kMillisecond);
        EXPECT_EQ(messages(), Counts{10});
    });
}

constexpr kapi_u32 kWire = sizeof(rds::Header) + 1; // bytes of a message of one byte
// Of which the memory does not fill a buffer before the payload does.
constexpr kapi_u32 kLarge = 1000, kLargeWire = sizeof(rds::Header) + kLarge;
const std::string large(kLarge, 'x');

// Difference of rds: small-messages

/** Traffic goes one way: the transport may let a partial packet wait. */
class GatheredOneWay : public Gathered {
protected:
    GatheredOneWay()
    {
        run(a, [&] {
            for (int i = 0; i < 8; i++)
                send("x", 0), acknowledge(0);
        });
        forget();
    }
    /** At once: two go singly, and the others wait. */
    void send_five()
    {
        for (int i = 0; i < 5; i++)
            send("x", 0);
        EXPECT_EQ(messages(), (Counts{1, 1}));
        forget();
    }
    rds::Connection &connection() { return *reinterpret_cast<rds::Connection *>(noted_.made); }
    /** Of the transmissions since the last forget(). */
    std::vector<bool> gathers() const
    {
        std::vector<bool> flags;
        for (const auto &sent : noted_.sent)
            flags.push_back(sent.gathers);
        return flags;
    }
};

using Flags = std::vector<bool>;

TEST_F(GatheredOneWay, message__may_wait_for_others)
{
    run(a, [&] { send("x", 0); });
    EXPECT_EQ(gathers(), Flags{true});
}

TEST_F(GatheredOneWay, behind_two_messages__wait_until_one_is_left)
{
    run(a, [&] {
        send_five();
        acknowledge(kWire);
        world.sleep(kMillisecond);
        EXPECT_EQ(messages(), Counts{3});
        forget();
        acknowledge(0);
        world.sleep(kMillisecond);
        EXPECT_EQ(messages(), Counts{}) << "nothing waits";
    });
}

TEST_F(GatheredOneWay, behind_two_messages__wait_for_an_acknowledgement_for_a_time_only)
{
    run(a, [&] {
        send_five();
        world.sleep(9 * kMillisecond);
        EXPECT_EQ(messages(), Counts{});
        world.sleep(3 * kMillisecond);
        EXPECT_EQ(messages(), Counts{3});
    });
}

TEST_F(GatheredOneWay, behind_two_messages__wait_until_a_batch_is_full)
{
    constexpr unsigned kMost = rds::Batch::max_messages;
    run(a, [&] {
        for (unsigned i = 0; i < 2 + 2 * kMost + 1; i++)
            send("x", 0);
        EXPECT_EQ(messages(), (Counts{1, 1, kMost, kMost}));
    });
}

TEST_F(GatheredOneWay, behind_two_messages__wait_until_a_large_packet_is_full)
{
    constexpr kapi_u32 kSize = 8192, kPacket = 65536;
    run(a, [&] {
        for (unsigned i = 0; i < 2 + kPacket / kSize - 1; i++)
            send(std::string(kSize, 'x'), 0);
        EXPECT_EQ(noted_.sent.size(), 2u);
        send(std::string(kSize, 'x'), 0);
        ASSERT_EQ(noted_.sent.size(), 3u);
        EXPECT_EQ(noted_.sent[2].bytes, kPacket / kSize * (kSize + sizeof(rds::Header)));
    });
}

TEST_F(GatheredOneWay, large_message__waits_for_nothing)
{
    run(a, [&] {
        send_five();
        send(std::string(16384, 'x'), 0);
        EXPECT_EQ(noted_.sent.size(), 0u) << "not large yet";
        send(std::string(16385, 'x'), 0);
        EXPECT_EQ(noted_.sent.size(), 1u) << "with those before it";
    });
}

TEST_F(GatheredOneWay, message_that_fills_the_buffer__waits_for_nothing)
{
    run(a, [&] {
        socket_.sk().sndbuf = 2 * 5 * kLarge;
        for (int i = 0; i < 5; i++)
            send(large, 0);
        ASSERT_EQ(noted_.sent.size(), 3u);
        EXPECT_EQ(noted_.sent[2].bytes, 3 * kLargeWire);
    });
}

TEST_F(GatheredOneWay, end_of_the_socket__transmits_what_waits)
{
    run(a, [&] {
        send_five();
        socket_.close();
        EXPECT_EQ(messages(), Counts{3});
    });
}

// One that was woken for each would send each singly.
TEST_F(GatheredOneWay, sender_without_room__is_woken_when_a_third_is_free)
{
    unsigned sent = 0;
    run(a, [&] { socket_.sk().sndbuf = 2 * 9 * kLarge; });
    auto sender = world.spawn(a, "sender", [&] {
        for (; sent < 12; sent++)
            send(large, 0);
    });
    world.run_for(kMillisecond);
    EXPECT_EQ(sent, 9u);
    run(a, [&] { acknowledge(7 * kLargeWire); });
    world.run_for(kMillisecond);
    EXPECT_EQ(sent, 9u);
    run(a, [&] { acknowledge(6 * kLargeWire); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, kMillisecond));
}

// Small messages take more memory than payload.
TEST_F(GatheredOneWay, sender_without_memory__is_woken_when_a_third_is_free)
{
    unsigned sent = 0, goal = 1000;
    run(a, [&] { socket_.sk().sndbuf = 32 << 10; });
    auto sender = world.spawn(a, "sender", [&] {
        for (; sent < goal; sent++)
            send("x", 0);
    });
    world.run_for(kMillisecond);
    const unsigned most = sent;
    ASSERT_GT(most, 30u);
    ASSERT_LT(most, goal);
    goal = most + 1;
    constexpr kapi_u32 kSmallWire = sizeof(rds::Header) + 1;
    run(a, [&] { acknowledge((most * 2 / 3 + 2) * kSmallWire); });
    world.run_for(kMillisecond);
    EXPECT_EQ(sent, most);
    run(a, [&] { acknowledge((most * 2 / 3 - 2) * kSmallWire); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, kMillisecond));
}

// Others may be on their way to a peer that is gone.
TEST_F(GatheredOneWay, sender_without_room__looks_by_itself_after_a_time)
{
    unsigned sent = 0;
    run(a, [&] { socket_.sk().sndbuf = 2 * 9 * kLarge; });
    auto sender = world.spawn(a, "sender", [&] {
        for (; sent < 10; sent++)
            send(large, 0);
    });
    world.run_for(kMillisecond);
    run(a, [&] { acknowledge(8 * kLargeWire); });
    world.run_for(50 * kMillisecond);
    EXPECT_EQ(sent, 9u);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 100 * kMillisecond));
}

TEST_F(GatheredOneWay, map__waits_for_nothing)
{
    run(a, [&] {
        connection().map_changed();
        world.sleep(kMillisecond);
    });
    EXPECT_EQ(gathers(), Flags{false});
}

TEST_F(GatheredOneWay, handshake__waits_for_nothing)
{
    run(a, [&] {
        connection().send_handshake(connection().path(0), true);
        world.sleep(kMillisecond);
    });
    EXPECT_EQ(gathers(), Flags{false});
}

// What follows may be in the same packet as its end.
TEST_F(GatheredOneWay, behind_a_handshake__in_more_than_one_transmission__nothing_waits)
{
    run(a, [&] {
        for (unsigned i = 0; i < rds::Batch::max_messages + 1; i++)
            send("x", RDS_ABI_MSG_BATCH);
        connection().path(0).queue_control(rds::control_reply);
        connection().path(0).transmit();
        EXPECT_EQ(gathers(), (Flags{false, false}));
        EXPECT_TRUE(noted_.sent[0].more);
        acknowledge(0); // else the next one waits for that
        forget();
        send("x", 0);
        EXPECT_EQ(gathers(), Flags{true});
    });
}

TEST_F(GatheredOneWay, answer_to_a_ping__waits_for_nothing)
{
    run(a, [&] {
        auto pong = rds::Message::internal();
        ASSERT_TRUE(pong);
        (*pong)->header().dport = kapi_u16{9};
        ASSERT_TRUE(connection().path(0).enqueue_bounded(std::move(*pong)));
        connection().path(0).transmit();
    });
    EXPECT_EQ(gathers(), Flags{false});
}

TEST_F(GatheredOneWay, ping__waits_for_nothing)
{
    run(a, [&] { EXPECT_EQ(socket_.send("", 0, sim::address(kRemote, 0), 0), 0); });
    EXPECT_EQ(gathers(), Flags{false});
    run(a, [&] {
        acknowledge(0);
        forget();
        send_five();
        EXPECT_EQ(socket_.send("", 0, sim::address(kRemote, 0), 0), 0);
    });
    EXPECT_EQ(noted_.sent.size(), 1u) << "with those before it";
}

} // namespace
