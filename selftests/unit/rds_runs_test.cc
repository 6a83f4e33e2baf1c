// SPDX-License-Identifier: GPL-2.0
// net/rds/receive_run: RDS_RECV_LENGTHS.
#include "rds_runs_test.h"

#include <memory>
#include <tuple>
#include <utility>

namespace {

constexpr std::size_t kHead = sizeof(rds_abi_cmsghdr);

class Runs : public RunsTest {};

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
        EXPECT_EQ(got.flags, unsigned{RDS_ABI_MSG_CTRUNC});
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
    auto texts = some(70);
    send_singly(from, texts);
    to.trouble.control_faults = true;
    EXPECT_EQ(receive_run().result, -KAPI_EFAULT);
    expect_run({texts.begin(), texts.begin() + 64});
    expect_run({texts.begin() + 64, texts.end()});
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
    for (int i = 0; i < 60 && got < 60; i++) {
        world.run_for(sim::kSecond);
        got += receive_run(bytes.size()).lengths.size();
    }
    EXPECT_EQ(got, 60u);
    EXPECT_TRUE(sender->is_done());
}

// Cookies of zerocopy go behind the lengths, when both have room, and are not lost with them.
TEST_P(Runs, cookies__come_with_the_lengths)
{
    if (loops())
        return; // no zerocopy there
    run(there(), [&] {
        to.sk().zerocopy = true;
        std::string page(4096, 'p');
        ASSERT_EQ(to.send_pinned(page.data(), page.size(), sim::address("10.0.0.1", 5), 42), 4096);
        world.sleep(sim::kSecond);
    });
    send_singly(from, some(13));
    to.trouble.control_faults = true;
    EXPECT_EQ(receive_run().result, -KAPI_EFAULT);
    auto got = receive_run(1 << 20, kHead + 10 * 4); // as much as a control message of cookies takes
    EXPECT_EQ(got.lengths.size(), 10u);
    EXPECT_TRUE(got.cookies.empty());
    got = receive_run(1 << 20, kHead + 8 + 56);
    EXPECT_EQ(got.lengths.size(), 2u);
    EXPECT_EQ(got.cookies, Lengths{42});
    EXPECT_EQ(receive_run().lengths.size(), 1u);
}

// ---- other threads

/** Threads that read from the same socket. */
class RunReaders : public RunsTest {
protected:
    struct Reader {
        std::string bytes;
        RdsSocket::Run got;
        sim::TaskRef task;
    };
    Reader &spawn(const sim::Trouble &trouble, std::size_t room = 100'000)
    {
        Reader &reader = *readers_.emplace_back(std::make_unique<Reader>());
        reader.bytes.resize(room);
        reader.task = world.spawn(there(), "reader", [this, &reader, trouble] {
            to.trouble = trouble;
            reader.got = to.receive_run(reader.bytes.data(), reader.bytes.size(), kNow, 4096);
        });
        world.run_for(sim::kMillisecond);
        return reader;
    }
    static sim::Trouble stall_at(std::size_t at)
    {
        sim::Trouble trouble;
        trouble.stall_at = at;
        trouble.stall_ns = sim::kSecond;
        return trouble;
    }

    std::vector<std::unique_ptr<Reader>> readers_;
};

// What it has not copied is nobody's yet.
TEST_P(RunReaders, thread_that_sleeps__holds_what_it_copies)
{
    send_singly(from, {"one", "two", "three", "four"});
    Reader &reader = spawn(stall_at(4)); // in "two"
    expect_run({"three", "four"});
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(reader.got.lengths, (Lengths{3, 3}));
}

TEST_P(RunReaders, run__has_no_gap)
{
    send_singly(from, {"one", "two", "three"});
    Reader &reader = spawn(stall_at(1)); // in "one"
    run(there(), [&] {
        std::string bytes(3, '\0');
        EXPECT_EQ(to.receive_run(bytes.data(), 3, kNow).lengths, Lengths{3});
        EXPECT_EQ(bytes, "two");
    });
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(reader.got.lengths, Lengths{3}); // "three" does not follow "one"
    expect_run({"three"});
}

// All of it may have to be put back, under the lock.
TEST_P(RunReaders, threads_that_sleep__hold_few_messages)
{
    constexpr unsigned kReaders = 30;
    run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
    send_singly(from, Texts(kReaders * 64, "x"));
    for (unsigned i = 0; i < kReaders; i++) {
        sim::Trouble trouble = stall_at(63);
        trouble.stall_ns = (i + 1) * sim::kSecond;
        trouble.control_faults = true;
        spawn(trouble);
    }
    sim::forget_steps();
    world.run_for((kReaders + 2) * sim::kSecond);
    EXPECT_GT(sim::most_steps_under("rds socket"), 64u);
    EXPECT_LE(sim::most_steps_under("rds socket"), 3 * 64u + 8);
    for (unsigned i = 0; i < kReaders; i++)
        expect_run(Texts(64, "x"));
    expect_nothing();
}

// A program has any number of threads, each with a message in hand. The place of one is behind those that have failed before.
TEST_P(RunReaders, threads_that_fail__look_for_their_place_in_pieces)
{
    constexpr unsigned kReaders = 300;
    Texts texts;
    for (unsigned i = 0; i < kReaders; i++)
        texts.emplace_back(1, static_cast<char>('a' + i % 26));
    send_singly(from, texts);
    sim::Trouble trouble = stall_at(0);
    trouble.control_faults = true;
    for (unsigned i = 0; i < kReaders; i++)
        spawn(trouble, 1); // they end in this order
    sim::forget_steps();
    world.run_for(3 * sim::kSecond);
    EXPECT_LE(sim::most_steps_under("rds socket"), 64u + 8);
    for (const auto &reader : readers_)
        EXPECT_EQ(reader->got.result, -KAPI_EFAULT);
    std::string all;
    for (auto got = receive_run(); got.result > 0; got = receive_run())
        all += bytes_;
    EXPECT_EQ(all, joined(texts));
}

TEST_P(RunReaders, threads_that_sleep__hold_256_messages)
{
    run(there(), [&] { to.sk().rcvbuf = 4'000'000; });
    send_singly(from, Texts(5 * 64, "x"));
    for (int i = 0; i < 4; i++)
        spawn(stall_at(63)); // with 63 beside the first one
    EXPECT_EQ(receive_run().lengths.size(), 1u + 256 - 4 * 63);
    world.run_for(2 * sim::kSecond);
    for (const auto &reader : readers_)
        EXPECT_EQ(reader->got.lengths.size(), 64u);
    expect_run(Texts(59, "x"));
}

// One for each, as when they came: of threads in epoll_wait() with EPOLLEXCLUSIVE a wake-up is for one.
TEST_P(RunReaders, those_put_back__wake_as_many_threads)
{
    send_singly(from, {"one", "two", "three"});
    run(there(), [&] { to.poll(); }); // shows that there is a map, once
    sim::Trouble trouble = stall_at(6); // in "three"
    trouble.control_faults = true;
    Reader &reader = spawn(trouble);
    unsigned woken = 0;
    for (int i = 0; i < 4; i++)
        world.spawn(there(), "thread", [&] {
            auto poller = to.poller(KAPI_IN, sim::Poller::Kind::epoll_exclusive);
            woken += poller.wait(5 * sim::kSecond) != 0;
        });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(woken, 0u);
    world.run_for(sim::kSecond);
    EXPECT_EQ(reader.got.result, -KAPI_EFAULT);
    EXPECT_EQ(woken, 3u);
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(woken, 3u);
    expect_run({"one", "two", "three"});
}

INSTANTIATE_TEST_SUITE_P(Ways, Runs, ::testing::Bool(), RunsTest::name_of);
INSTANTIATE_TEST_SUITE_P(Ways, RunReaders, ::testing::Bool(), RunsTest::name_of);

} // namespace
