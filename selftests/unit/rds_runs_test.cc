// SPDX-License-Identifier: GPL-2.0
// Many messages in one call: RDS_RECV_LENGTHS and RDS_CMSG_LENGTHS.
#include "rds_test.h"

#include <kapi/errno.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace {

using Lengths = std::vector<std::uint32_t>;
using Texts = std::vector<std::string>;

constexpr unsigned kNow = RDS_ABI_MSG_DONTWAIT;
constexpr std::size_t kHead = sizeof(rds_abi_cmsghdr);

std::string joined(const Texts &texts) { return std::accumulate(texts.begin(), texts.end(), std::string()); }

Lengths lengths_of(const Texts &texts)
{
    Lengths lengths;
    for (const std::string &text : texts)
        lengths.push_back(static_cast<std::uint32_t>(text.size()));
    return lengths;
}

Texts some(unsigned count, std::size_t size = 10)
{
    Texts texts;
    for (unsigned i = 0; i < count; i++)
        texts.emplace_back(size + i % 3, static_cast<char>('a' + i % 26));
    return texts;
}

/** Between two machines, and on one. */
class Runs : public RdsTest, public ::testing::WithParamInterface<bool> {
protected:
    Runs() : from(host_a), other(host_a), to(loops() ? host_a : host_b)
    {
        run(a, [&] {
            open(from, "10.0.0.1", 5);
            open(other, "10.0.0.1", 6);
        });
        run(there(), [&] {
            open(to, target(), 7);
            set_lengths(1);
        });
    }
    ~Runs() override
    {
        run(a, [&] { from.close(), other.close(); });
        run(there(), [&] { to.close(); });
    }
    static bool loops() { return GetParam(); }
    sim::Node &there() { return loops() ? a : b; }
    static const char *target() { return loops() ? "10.0.0.1" : "10.0.0.2"; }
    static kapi_addr target_addr() { return sim::address(target(), 7); }
    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    void set_lengths(int on) { ASSERT_EQ(to.set_option(RDS_ABI_RECV_LENGTHS, &on, sizeof(on)), 0); }
    void send_singly(RdsSocket &socket, const Texts &texts)
    {
        run(a, [&] {
            for (const std::string &text : texts)
                ASSERT_EQ(send(socket, text, target(), 7), static_cast<long>(text.size()));
        });
        world.run_for(100 * sim::kMillisecond);
    }
    long send_as(const std::string &bytes, const Lengths &lengths, unsigned flags = 0)
    {
        long result = 0;
        run(a, [&] { result = from.send_each(bytes.data(), bytes.size(), target_addr(), lengths, flags); });
        world.run_for(100 * sim::kMillisecond);
        return result;
    }
    RdsSocket::Run receive_run(std::size_t room = 1 << 20, std::size_t control_room = 4096, unsigned flags = kNow)
    {
        RdsSocket::Run got;
        bytes_.assign(room, '\0');
        run(there(), [&] { got = to.receive_run(bytes_.data(), room, flags, control_room); });
        bytes_.resize(got.result > 0 ? std::min(room, static_cast<std::size_t>(got.result)) : 0);
        return got;
    }
    void expect_run(const Texts &texts)
    {
        auto got = receive_run();
        EXPECT_EQ(bytes_, joined(texts));
        EXPECT_EQ(got.lengths, lengths_of(texts));
    }
    void expect_nothing() { EXPECT_EQ(receive_run().result, -KAPI_EAGAIN); }

    RdsSocket from, other, to;
    std::string bytes_; // that were received last
};

// ---- receiving

TEST_P(Runs, what_waits__is_returned_by_few_calls)
{
    auto texts = some(100);
    send_singly(from, texts);
    expect_run({texts.begin(), texts.begin() + 64});
    expect_run({texts.begin() + 64, texts.end()});
    expect_nothing();
}

TEST_P(Runs, run__is_of_one_sender)
{
    send_singly(from, {"one", "two"});
    send_singly(other, {"three"});
    send_singly(from, {"four"});
    for (const auto &[texts, port] : {std::pair<Texts, int>{{"one", "two"}, 5}, {{"three"}, 6}, {{"four"}, 5}}) {
        auto got = receive_run();
        EXPECT_EQ(bytes_, joined(texts));
        EXPECT_EQ(got.lengths, lengths_of(texts));
        EXPECT_EQ(got.from.port, port);
    }
    expect_nothing();
}

TEST_P(Runs, buffer__is_filled_with_whole_messages)
{
    send_singly(from, Texts(10, std::string(24, 'x')));
    for (unsigned count : {3u, 3u, 3u, 1u}) {
        auto got = receive_run(3 * 24 + 23);
        EXPECT_EQ(got.lengths, Lengths(count, 24));
        EXPECT_EQ(got.flags, 0u);
    }
    expect_nothing();
}

TEST_P(Runs, room_for_lengths__is_a_limit)
{
    send_singly(from, some(12));
    for (unsigned count : {1u, 2u, 4u, 5u})
        EXPECT_EQ(receive_run(1 << 20, kHead + count * 4).lengths.size(), count);
    expect_nothing();
}

// As a program without the option.
TEST_P(Runs, without_room_for_a_length__there_is_one_message)
{
    send_singly(from, {"one", "two", "three", "four"});
    Texts texts{"one", "two", "three"};
    for (std::size_t room : {std::size_t{0}, kHead, kHead + 3}) {
        auto got = receive_run(100, room);
        EXPECT_EQ(bytes_, texts.front());
        EXPECT_TRUE(got.lengths.empty());
        EXPECT_EQ(got.flags, 0u); // nothing of the control messages is missing
        texts.erase(texts.begin());
    }
    expect_run({"four"});
}

TEST_P(Runs, longer_message__is_cut_off_and_alone)
{
    send_singly(from, {std::string(100, 'x'), "two", std::string(100, 'y'), "four"});
    auto got = receive_run(30);
    EXPECT_EQ(got.result, 30);
    EXPECT_EQ(got.lengths, Lengths{30});
    EXPECT_EQ(got.flags, unsigned{RDS_ABI_MSG_TRUNC});
    got = receive_run(30);
    EXPECT_EQ(bytes_, "two");
    got = receive_run(30, 4096, kNow | RDS_ABI_MSG_TRUNC);
    EXPECT_EQ(got.result, 100);
    EXPECT_EQ(got.lengths, Lengths{100});
    expect_run({"four"});
}

TEST_P(Runs, empty_messages__are_counted)
{
    send_singly(from, {"", "one", "", ""});
    expect_run({"", "one", "", ""});
    expect_nothing();
}

TEST_P(Runs, peek__shows_the_first)
{
    send_singly(from, {"one", "two"});
    auto got = receive_run(100, 4096, kNow | RDS_ABI_MSG_PEEK);
    EXPECT_EQ(bytes_, "one");
    EXPECT_EQ(got.lengths, Lengths{3});
    expect_run({"one", "two"});
}

TEST_P(Runs, time_stamp__is_of_one_message)
{
    int on = 1;
    run(there(), [&] { ASSERT_EQ(to.set_option(RDS_ABI_SO_TIMESTAMP_NEW, &on, sizeof(on)), 0); });
    send_singly(from, {"one", "two"});
    expect_run({"one"});
    expect_run({"two"});
}

TEST_P(Runs, traces__are_of_one_message)
{
    rds_abi_rx_trace_so traces{1, {2}};
    run(there(), [&] { ASSERT_EQ(to.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0); });
    send_singly(from, {"one", "two"});
    expect_run({"one"});
    EXPECT_EQ(to.control().size(), 2u);
    expect_run({"two"});
}

TEST_P(Runs, option__can_be_read_and_turned_off)
{
    send_singly(from, {"one", "two"});
    run(there(), [&] {
        int value = 0, size = sizeof(value);
        EXPECT_EQ(to.get_option(RDS_ABI_RECV_LENGTHS, &value, &size), 0);
        EXPECT_EQ(std::tie(value, size), std::tuple(1, 4));
        for (int bad : {-1, 2})
            EXPECT_EQ(to.set_option(RDS_ABI_RECV_LENGTHS, &bad, sizeof(bad)), -KAPI_EINVAL);
        EXPECT_EQ(to.set_option(RDS_ABI_RECV_LENGTHS, &value, 3), -KAPI_EINVAL);
        set_lengths(0);
        EXPECT_EQ(to.get_option(RDS_ABI_RECV_LENGTHS, &value, &size), 0);
        EXPECT_EQ(value, 0);
        EXPECT_EQ(receive(to), "one");
        EXPECT_TRUE(to.control().empty());
        EXPECT_EQ(receive(to), "two");
    });
}

TEST_P(Runs, those_that_cannot_be_copied__are_the_next_calls)
{
    send_singly(from, {"one", "two", "three", "four"});
    to.trouble.fault_at = 8; // in "three"
    receive_run(100);
    EXPECT_EQ(bytes_, "onetwo");
    to.trouble.fault_at = 2;
    EXPECT_EQ(receive_run(100).result, -KAPI_EFAULT);
    expect_run({"three", "four"});
    expect_nothing();
}

TEST_P(Runs, with_bad_memory_for_lengths__nothing_is_lost)
{
    send_singly(from, {"one", "two", "three"});
    to.trouble.control_faults = true;
    EXPECT_EQ(receive_run(100).result, -KAPI_EFAULT);
    expect_run({"one", "two", "three"});
    expect_nothing();
}

// The room of all of them is free again.
TEST_P(Runs, full_socket__takes_more_after_a_run)
{
    run(there(), [&] { to.sk().rcvbuf = 20'000; });
    for (int round = 0; round < 3; round++) {
        Texts sent;
        run(a, [&] {
            while (send(from, std::string(1000, 'x'), target(), 7, kNow) == 1000 && sent.size() < 500)
                sent.emplace_back(1000, 'x');
        });
        world.run_for(100 * sim::kMillisecond);
        ASSERT_GT(sent.size(), 9u);
        std::size_t got = 0;
        for (RdsSocket::Run one; (one = receive_run()).result > 0; world.run_for(10 * sim::kMillisecond))
            got += one.lengths.size();
        EXPECT_EQ(got, sent.size());
        world.run_for(3 * sim::kSecond); // the map reaches the sender
    }
}

// One message more than it may hold stops the path until the run is taken.
TEST_P(Runs, path_that_waits_for_room__goes_on_after_a_run)
{
    run(a, [&] { from.sk().sndbuf = 16'000'000; });
    run(there(), [&] { to.sk().rcvbuf = 20'000; });
    Texts texts(1, "x");
    texts.resize(60, std::string(90'000, 'y'));
    std::string bytes = joined(texts);
    auto sender = world.spawn(a, "sender", [&] {
        EXPECT_EQ(from.send_each(bytes.data(), bytes.size(), target_addr(), lengths_of(texts)), static_cast<long>(bytes.size()));
    });
    world.run_for(10 * sim::kSecond);
    std::size_t got = receive_run(bytes.size()).lengths.size();
    EXPECT_TRUE(loops() || got < 60);
    for (int i = 0; i < 20 && got < 60; i++) {
        world.run_for(sim::kSecond);
        got += receive_run(bytes.size()).lengths.size();
    }
    EXPECT_EQ(got, 60u);
    EXPECT_TRUE(sender->is_done());
}

TEST_P(Runs, lock__is_held_for_a_run_at_most)
{
    send_singly(from, some(200));
    sim::forget_steps();
    EXPECT_EQ(receive_run().lengths.size(), 64u);
    EXPECT_GE(sim::most_steps_under("rds socket"), 63u);
    EXPECT_LE(sim::most_steps_under("rds socket"), 66u);
}

// ---- sending

TEST_P(Runs, messages_of_one_call__arrive_singly)
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

TEST_P(Runs, wrong_lengths__are_refused)
{
    for (const Lengths &lengths : {Lengths{3, 4}, Lengths{3, 2}, Lengths{6, 0}, Lengths{0xfffffffe, 8}, Lengths{}})
        EXPECT_EQ(send_as("onetwo", lengths), -KAPI_EINVAL);
    EXPECT_EQ(send_as(std::string(RDS_ABI_MOST_LENGTHS + 1, 'x'), Lengths(RDS_ABI_MOST_LENGTHS + 1, 1)), -KAPI_EINVAL);
    expect_nothing();
    EXPECT_EQ(send_as(std::string(RDS_ABI_MOST_LENGTHS, 'x'), Lengths(RDS_ABI_MOST_LENGTHS, 1)), RDS_ABI_MOST_LENGTHS);
    expect_run(Texts(64, "x"));
}

TEST_P(Runs, message_that_is_too_large__ends_the_call)
{
    std::string large(200'000, 'x');
    EXPECT_EQ(send_as(large, {200'000}), -KAPI_EMSGSIZE);
    EXPECT_EQ(send_as("onetwo" + large, {3, 3, 200'000}), 6);
    expect_run({"one", "two"});
}

TEST_P(Runs, byte_that_faults__ends_the_call_before_its_message)
{
    from.trouble.fault_at = 1;
    EXPECT_EQ(send_as("onetwo", {3, 3}), -KAPI_EFAULT);
    from.trouble.fault_at = 4;
    EXPECT_EQ(send_as("onetwo", {3, 3}), 3);
    expect_run({"one"});
}

TEST_P(Runs, without_waiting__what_has_room_is_taken)
{
    run(a, [&] { from.sk().sndbuf = 20'000; });
    run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
    world.network().cut(a, b);
    std::string bytes(1000 * 1000, 'x');
    long sent = send_as(bytes, Lengths(1000, 1000), kNow);
    EXPECT_GT(sent, 9'000);
    EXPECT_LT(sent, 1'000'000);
    EXPECT_EQ(sent % 1000, 0);
}

// What was taken is on its way while the sender waits for room: its acknowledgement makes it.
TEST_P(Runs, sender_that_waits_for_room__gets_it)
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

TEST_P(Runs, sender_that_waits_for_a_congested_port__goes_on)
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
TEST_P(Runs, sender_that_waits_for_a_congested_port__has_sent_what_was_taken)
{
    RdsSocket filler(loops() ? host_a : host_b);
    run(there(), [&] { open(filler, target(), 8); });
    send_singly(from, {"zero"}); // there is a connection
    from.trouble.stall_at = 4; // in the second message
    from.trouble.stall_ns = 500 * sim::kMillisecond;
    long sent = 0;
    auto sender = world.spawn(a, "sender", [&] { sent = from.send_each("onetwo", 6, target_addr(), {3, 3}); });
    run(there(), [&] {
        while (send(filler, std::string(100'000, 'x'), target(), 7, kNow) == 100'000)
            ;
    });
    world.run_for(600 * sim::kMillisecond);
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

// The time-out is that of the call.
TEST_P(Runs, time_out__is_not_of_each_message)
{
    run(a, [&] {
        from.sk().sndbuf = 20'000;
        from.sk().sndtimeo_ns = sim::kSecond;
    });
    run(there(), [&] { to.sk().rcvbuf = 20'000; });
    std::string bytes(1000 * 1000, 'x');
    std::uint64_t began = world.now_ns();
    long sent = send_as(bytes, Lengths(1000, 1000));
    EXPECT_LT(sent, 1'000'000);
    EXPECT_LT(world.now_ns() - began, 2 * sim::kSecond);
    EXPECT_EQ(send_as(bytes, Lengths(1000, 1000)), -KAPI_ETIMEDOUT);
}

INSTANTIATE_TEST_SUITE_P(Ways, Runs, ::testing::Bool(), [](const auto &way) { return way.param ? "loopback" : "machines"; });

} // namespace
