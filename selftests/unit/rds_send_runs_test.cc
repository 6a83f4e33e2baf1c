// SPDX-License-Identifier: GPL-2.0
// net/rds/send_each: RDS_CMSG_LENGTHS.
#include "rds_runs_test.h"

#include <uapi/hawser_netlink.h>

namespace {

class SendRuns : public RunsTest {
protected:
    /** A call of two messages of an idle connection, which sleeps for 10 s in the copy of the second one, of 10 bytes. */
    sim::TaskRef spawn_sleeper(std::uint32_t first)
    {
        run(a, [&] { from.sk().sndbuf = 20'000; });
        run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
        send_singly(from, {"zero"});     // there is a connection
        world.run_for(5 * sim::kSecond); // no timer of its path runs
        from.trouble.stall_at = first + 1;
        from.trouble.stall_ns = 10 * sim::kSecond;
        auto sleeper = world.spawn(a, "sleeper", [this, first] {
            std::string bytes(first + 10, 'x');
            EXPECT_EQ(from.send_each(bytes.data(), bytes.size(), target_addr(), {first, 10}), static_cast<long>(bytes.size()));
        });
        world.run_for(sim::kMillisecond);
        return sleeper;
    }
    /** Another thread of the program sends without waiting for the sleeper. */
    void expect_room_beside(const sim::TaskRef &sleeper)
    {
        auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "one", target(), 7), 3); });
        world.run_for(500 * sim::kMillisecond);
        EXPECT_TRUE(sender->is_done());
        EXPECT_FALSE(sleeper->is_done());
        world.run_for(10 * sim::kSecond);
        EXPECT_TRUE(sleeper->is_done());
    }
};

TEST_P(SendRuns, messages_of_one_call__arrive_singly)
{
    auto texts = some(64);
    EXPECT_EQ(send_as(joined(texts), lengths_of(texts)), static_cast<long>(joined(texts).size()));
    run(there(), [&] { set_lengths(0); });
    run(there(), [&] {
        for (const std::string &text : texts)
            EXPECT_EQ(receive(to, kNow), text);
    });
    expect_nothing();
}

TEST_P(SendRuns, wrong_lengths__are_refused)
{
    for (const Lengths &lengths : {Lengths{3, 4}, Lengths{3, 2}, Lengths{6, 0}, Lengths{0xfffffffe, 8}, Lengths{}})
        EXPECT_EQ(send_as("onetwo", lengths), -KAPI_EINVAL);
    EXPECT_EQ(send_as(std::string(RDS_ABI_MOST_LENGTHS + 1, 'x'), Lengths(RDS_ABI_MOST_LENGTHS + 1, 1)), -KAPI_EINVAL);
    expect_nothing();
    EXPECT_EQ(send_as(std::string(RDS_ABI_MOST_LENGTHS, 'x'), Lengths(RDS_ABI_MOST_LENGTHS, 1)), RDS_ABI_MOST_LENGTHS);
    expect_run(Texts(64, "x"));
}

TEST_P(SendRuns, message_that_is_too_large__ends_the_call)
{
    std::string large(200'000, 'x');
    EXPECT_EQ(send_as(large, {200'000}), -KAPI_EMSGSIZE);
    EXPECT_EQ(send_as("onetwo" + large, {3, 3, 200'000}), 6);
    expect_run({"one", "two"});
}

TEST_P(SendRuns, byte_that_faults__ends_the_call_before_its_message)
{
    from.trouble.fault_at = 1;
    EXPECT_EQ(send_as("onetwo", {3, 3}), -KAPI_EFAULT);
    from.trouble.fault_at = 4;
    EXPECT_EQ(send_as("onetwo", {3, 3}), 3);
    expect_run({"one"});
}

TEST_P(SendRuns, without_waiting__what_has_room_is_taken)
{
    run(a, [&] { from.sk().sndbuf = 20'000; });
    run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
    world.network().cut(a, b);
    std::string bytes(1000 * 1000, 'x');
    long sent = send_as(bytes, Lengths(1000, 1000), kNow);
    EXPECT_GT(sent, 9'000);
    EXPECT_TRUE(loops() || sent < 1'000'000); // over loopback nothing is unacknowledged
    EXPECT_EQ(sent % 1000, 0);
}

// What was taken is on its way while the sender waits for room: its acknowledgement makes it.
TEST_P(SendRuns, sender_that_waits_for_room__gets_it)
{
    run(a, [&] { from.sk().sndbuf = 20'000; });
    run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
    std::string bytes(200 * 1000, 'x');
    EXPECT_EQ(send_as(bytes, Lengths(200, 1000)), 200'000);
    std::size_t got = 0;
    for (RdsSocket::Run one; (one = receive_run()).result > 0;)
        got += one.lengths.size();
    EXPECT_EQ(got, 200u);
}

// Others of the socket wait for the room that the first message took, while the second one is copied.
TEST_P(SendRuns, sender_that_sleeps__leaves_no_full_buffer_behind)
{
    auto sleeper = spawn_sleeper(10'000);
    expect_room_beside(sleeper);
    EXPECT_EQ(receive_run().lengths, (Lengths{4, 10'000, 3, 10}));
}

// Another thread fills the buffer later, with messages for a host that is not there.
TEST_P(SendRuns, sender_that_sleeps__leaves_no_buffer_that_is_filled_later)
{
    auto sleeper = spawn_sleeper(9'000);
    run(a, [&] { EXPECT_EQ(send(from, std::string(2000, 'y'), "10.0.0.3", 7, kNow), 2000); });
    expect_room_beside(sleeper);
}

TEST_P(SendRuns, sender_that_sleeps_again__has_sent_what_came_between)
{
    send_singly(from, {"zero"});
    world.run_for(5 * sim::kSecond); // no timer of its path runs
    from.trouble = {.stall_at = 4, .stall_every = 4, .stall_ns = 10 * sim::kSecond};
    auto sleeper = world.spawn(a, "sleeper",
                               [&] { EXPECT_EQ(from.send_each("onetwothree", 11, target_addr(), {3, 3, 5}), 11); });
    world.run_for(10'100 * sim::kMillisecond);
    EXPECT_FALSE(sleeper->is_done());
    expect_run({"zero", "one", "two"});
    world.run_for(20 * sim::kSecond);
    expect_run({"three"});
}

// sendmmsg() says that more follow: MSG_BATCH in all calls but the last.
class SendBatches : public SendRuns {
protected:
    SendBatches()
    {
        run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
        send_singly(from, {"zero"});
        world.run_for(5 * sim::kSecond); // no timer of its path runs
        expect_run({"zero"});
    }
    void batch(const Texts &texts, unsigned flags = RDS_ABI_MSG_BATCH)
    {
        run(a, [&] {
            for (const std::string &text : texts)
                EXPECT_EQ(send(from, text, target(), 7, flags), static_cast<long>(text.size()));
        });
    }
    void expect_soon(const Texts &texts)
    {
        world.run_for(5 * sim::kMillisecond);
        texts.empty() ? expect_nothing() : expect_run(texts);
    }
    /** Over loopback all arrive at once. */
    void expect_only_over_loopback(const Texts &texts) { expect_soon(loops() ? texts : Texts{}); }
};

TEST_P(SendBatches, are_transmitted_with_the_last_message)
{
    batch({"one", "two"});
    expect_only_over_loopback({"one", "two"});
    batch({"three"}, 0);
    expect_soon(loops() ? Texts{"three"} : Texts{"one", "two", "three"});
}

TEST_P(SendBatches, without_a_last_message__are_transmitted_a_little_later)
{
    batch({"one", "two"});
    world.run_for(10 * sim::kMillisecond);
    expect_soon({"one", "two"});
}

TEST_P(SendBatches, are_transmitted_when_the_next_call_fails)
{
    batch({"one", "two"});
    from.trouble.fault_at = 1;
    run(a, [&] { EXPECT_EQ(send(from, "three", target(), 7, RDS_ABI_MSG_BATCH), -KAPI_EFAULT); });
    expect_soon({"one", "two"});
    batch({"four", "five"});
    run(a, [&] { EXPECT_EQ(send(from, "six", "224.0.0.1", 7, RDS_ABI_MSG_BATCH), -KAPI_EINVAL); });
    expect_soon({"four", "five"});
}

TEST_P(SendBatches, are_transmitted_when_the_next_message_is_for_another_host)
{
    batch({"one", "two"});
    run(a, [&] { EXPECT_EQ(send(from, "three", "10.0.0.3", 7, RDS_ABI_MSG_BATCH | kNow), 5); });
    expect_soon({"one", "two"});
}

// They hold the connection until then, and no longer.
TEST_P(SendBatches, that_are_transmitted__hold_no_connection)
{
    run(a, [&] {
        from.sk().sndbuf = 20'000;
        rds_net_sysctl(host_a.net().rds)->idle_connection_ms = 10'000;
    });
    batch({"one", std::string(9'999, 'y')}); // the second one fills the buffer
    expect_soon({"one", std::string(9'999, 'y')});
    run(a, [&] { EXPECT_EQ(send(from, "elsewhere", "10.0.0.3", 7, kNow), 9); });
    world.run_for(200 * sim::kSecond);
    run(a, [&] {
        auto left = sim::dump(a.initial_net(), HAWSER_CMD_RDS_CONNECTION_GET);
        ASSERT_EQ(left.size(), 1u);
        EXPECT_NE(sim::Report::text(left[0].attributes, HAWSER_RDS_CONNECTION_REMOTE).find("10.0.0.3"), std::string::npos);
    });
}

TEST_P(SendBatches, are_transmitted_when_the_socket_is_closed)
{
    batch({"one", "two"});
    run(a, [&] { from.close(); });
    expect_soon({"one", "two"});
    run(a, [&] { ASSERT_EQ(from.open(), 0); });
}

// Its room comes with their acknowledgements.
TEST_P(SendBatches, that_fill_the_buffer__are_transmitted)
{
    std::string first(5'000, 'x'), second(5'000, 'y');
    run(a, [&] { from.sk().sndbuf = 20'000; });
    batch({first});
    expect_only_over_loopback({first});
    batch({second});
    expect_soon(loops() ? Texts{second} : Texts{first, second});
}

// Each thread keeps its own for its next call, and transmits those that it finds in their place.
TEST_P(SendBatches, of_two_threads__are_all_transmitted)
{
    if (loops())
        return;
    b.initial_net().add(sim::address("10.0.0.4"));
    RdsSocket second(host_b);
    run(b, [&] { open(second, "10.0.0.4", 7); });
    run(a, [&] { EXPECT_EQ(send(from, "zero", "10.0.0.4", 7), 4); });
    world.run_for(5 * sim::kSecond);
    run(b, [&] { EXPECT_EQ(receive(second, kNow), "zero"); });
    from.trouble = {.stall_at = 1, .stall_ns = 2 * sim::kMillisecond};
    auto sleeper = world.spawn(a, "sleeper", [&] { EXPECT_EQ(send(from, "one", target(), 7, RDS_ABI_MSG_BATCH), 3); });
    world.run_for(sim::kMillisecond);
    run(a, [&] { EXPECT_EQ(send(from, "two", "10.0.0.4", 7, RDS_ABI_MSG_BATCH), 3); });
    expect_soon({});
    EXPECT_TRUE(sleeper->is_done());
    run(b, [&] { EXPECT_EQ(receive(second, kNow), "two"); });
    batch({"three"}, 0);
    expect_soon({"one", "three"});
    run(b, [&] { second.close(); });
}

// Another thread takes the room while the second message is copied.
TEST_P(SendBatches, sender_that_waits_for_room__has_transmitted_what_was_taken)
{
    if (loops())
        return;
    run(a, [&] { from.sk().sndbuf = 20'000; });
    from.trouble = {.stall_at = 3, .stall_ns = 2 * sim::kMillisecond};
    auto sleeper = world.spawn(a, "sleeper", [&] { EXPECT_EQ(from.send_each("onetwo", 6, target_addr(), {3, 3}), 6); });
    world.run_for(sim::kMillisecond);
    run(a, [&] { EXPECT_EQ(send(from, std::string(9'998, 'y'), "10.0.0.3", 7, kNow), 9'998); });
    expect_soon({"one", "two"}); // before a timer transmits the first one, whose acknowledgement makes room
    EXPECT_TRUE(sleeper->is_done());
}

// As by a call for each: in the queue of the receiver when the call returns.
TEST_P(SendRuns, over_loopback__all_are_there)
{
    if (!loops())
        return;
    std::string bytes(200, 'x');
    run(a, [&] {
        std::size_t got = 0;
        EXPECT_EQ(from.send_each(bytes.data(), 200, target_addr(), Lengths(200, 1)), 200);
        for (RdsSocket::Run one; (one = to.receive_run(bytes.data(), 200, kNow)).result > 0;)
            got += one.lengths.size();
        EXPECT_EQ(got, 200u);
    });
}

TEST_P(SendRuns, sender_that_waits_for_a_congested_port__goes_on)
{
    run(there(), [&] { to.sk().rcvbuf = 20'000; });
    std::string bytes(500 * 1000, 'x');
    long sent = 0;
    run(a, [&] { from.sk().sndbuf = 4'000'000; });
    auto sender = world.spawn(a, "sender", [&] {
        for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(sent)) {
            sent = from.send_each(bytes.data() + at, bytes.size() - at, target_addr(),
                                  Lengths((bytes.size() - at) / 1000, 1000));
            ASSERT_GT(sent, 0);
        }
    });
    std::size_t got = 0;
    for (int i = 0; i < 1000 && got < 500; i++) {
        got += receive_run().lengths.size();
        world.run_for(100 * sim::kMillisecond);
    }
    EXPECT_EQ(got, 500u);
    EXPECT_TRUE(sender->is_done());
}

// A program of the peer's host makes the port congested while this sender copies.
TEST_P(SendRuns, sender_that_waits_for_a_congested_port__has_sent_what_was_taken)
{
    RdsSocket filler(loops() ? host_a : host_b);
    run(there(), [&] { open(filler, target(), 8); });
    send_singly(from, {"zero"}); // there is a connection
    from.trouble.stall_at = 4; // in the second message
    from.trouble.stall_ns = 4 * sim::kMillisecond;
    long sent = 0;
    auto sender = world.spawn(a, "sender", [&] { sent = from.send_each("onetwo", 6, target_addr(), {3, 3}); });
    world.run_for(sim::kMillisecond); // it copies the second message
    run(there(), [&] {
        while (send(filler, std::string(100'000, 'x'), target(), 7, kNow) == 100'000)
            ;
    });
    world.run_for(8 * sim::kMillisecond); // then no timer has transmitted it
    EXPECT_FALSE(sender->is_done());
    std::string got;
    auto take_all = [&] {
        std::string bytes(1 << 23, '\0');
        RdsSocket::Run one;
        while ((one = to.receive_run(bytes.data(), bytes.size(), kNow)).result > 0)
            if (one.from.port == 5)
                got.append(bytes.data(), static_cast<std::size_t>(one.result));
    };
    run(there(), take_all); // at one time: only what is there
    EXPECT_TRUE(got.starts_with("zeroone")) << got;
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(sent, 6);
    run(there(), take_all);
    EXPECT_EQ(got, "zeroonetwo");
    run(there(), [&] { filler.close(); });
}

// The time-out is that of the call, and not of each message.
TEST_P(SendRuns, time_out__ends_a_call_that_goes_on)
{
    run(a, [&] {
        from.sk().sndbuf = 20'000;
        from.sk().sndtimeo_ns = sim::kSecond;
    });
    run(there(), [&] { to.sk().rcvbuf = 20'000; });
    std::string bytes(200 * 5000, 'x');
    std::uint64_t ended_ns = 0;
    auto sender = world.spawn(a, "sender", [&] {
        EXPECT_LT(from.send_each(bytes.data(), bytes.size(), target_addr(), Lengths(200, 5000)), 200 * 5000);
        ended_ns = world.now_ns();
    });
    std::uint64_t began_ns = world.now_ns();
    for (int i = 0; i < 10; i++) {
        world.run_for(600 * sim::kMillisecond);
        receive_run();
    }
    EXPECT_TRUE(sender->is_done());
    EXPECT_LT(ended_ns - began_ns, 1500 * sim::kMillisecond);
}

INSTANTIATE_TEST_SUITE_P(Ways, SendRuns, ::testing::Bool(), RunsTest::name_of);
INSTANTIATE_TEST_SUITE_P(Ways, SendBatches, ::testing::Bool(), RunsTest::name_of);

} // namespace
