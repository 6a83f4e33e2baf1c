// SPDX-License-Identifier: GPL-2.0
// The RTRS server and clients that do what the protocol forbids.
#include "kapi/sim/slow.h"
#include "rtrs_srv_test.h"

namespace {

class SrvHostile : public SrvTest {
protected:
    static void set(std::string &bytes, std::size_t at, unsigned char value) { bytes[at] = static_cast<char>(value); }
    /** A header that is nonsense at an offset of a chunk, as a request; its answer's error. */
    int ask_with(unsigned chunk, std::size_t offset, const std::string &header)
    {
        first.answers.erase(chunk);
        run(a, [&] { first.put(*first.links[1], chunk, offset, header, first.imm_of(chunk, offset)); });
        return answer(first, chunk);
    }
    static std::string words(std::initializer_list<unsigned> values)
    {
        std::string bytes;
        for (unsigned value : values)
            bytes += {static_cast<char>(value), static_cast<char>(value >> 8)};
        return bytes;
    }
    bool is_served(SrvPath &path, unsigned chunk = 3)
    {
        write(path, 1, chunk, "data", "wserved");
        return answer(path, chunk) == 0;
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvHostile, ::testing::Range(1, 4));

TEST_P(SrvHostile, requests_for_connections_that_cannot_be)
{
    load(true);
    std::string magic = request(0, 3), version = request(0, 3), beyond = request(0, 3), many = request(0, 3);
    set(magic, 2, 0);
    set(version, 5, 3); // the major number
    set(beyond, 6, 3);
    set(many, 9, 0x20);
    for (const std::string &bytes : {magic, version, beyond, many, std::string(), request(0, 3, 1, 100, false)})
        EXPECT_EQ(rejected(ask(first, bytes)), KAPI_ECONNRESET);
    drop(first);
    connect(first);
    EXPECT_EQ(rejected(ask(first, request(1, 3))), KAPI_ECONNRESET) << "there is one";
    EXPECT_EQ(rejected(ask(first, request(1, 4))), KAPI_ECONNRESET) << "of another number";
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), KAPI_EEXIST) << "between the same addresses";
    exchange(first);
    EXPECT_EQ(rejected(ask(first, request(1, 3))), KAPI_ECONNRESET) << "it is connected";
    EXPECT_TRUE(is_served(first));
}

TEST_P(SrvHostile, connections_of_another_number_do_not_belong_to_a_path)
{
    load(true);
    ASSERT_TRUE(ask(first, request(0, 3)).established);
    for (auto [connection, connections] : {std::pair(1u, 2u), std::pair(1u, 4u), std::pair(5u, 9u)})
        EXPECT_EQ(rejected(ask(first, request(connection, connections))), KAPI_ECONNRESET) << connection;
    EXPECT_TRUE(ask(first, request(1, 3)).established);
}

TEST_P(SrvHostile, what_comes_before_the_information_is_asked_for)
{
    load(true);
    for (kapi_u32 imm : {rtrs::write_immediate(rtrs::ImmediateType::request), 0x70000000u}) {
        connect(first);
        run(a, [&] { first.send_immediate(*first.links[1], imm); });
        EXPECT_TRUE(ends(first));
        drop(first);
        EXPECT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 0; })) << "gone at the server, too";
    }
    connect(first, 2);
    std::string type = info_request("x"), name = info_request("a/b"), none = info_request("");
    set(type, 0, 1);
    for (const std::string &bytes : {type, name, none, std::string("short")}) {
        drop(first);
        world.run_for(sim::kSecond);
        connect(first);
        run(a, [&] { first.send(*first.links[0], bytes.data(), bytes.size()); });
        EXPECT_TRUE(ends(first));
    }
    EXPECT_TRUE(user.links.empty());
}

TEST_P(SrvHostile, information_too_soon_twice_and_under_another_name)
{
    load(true);
    ask(first, request(0, 2));
    ask_info(first);
    EXPECT_TRUE(ends(first)) << "not all connections are there";
    drop(first);
    world.run_for(sim::kSecond);
    establish(first);
    ask(second, request(0, 1, 2, 101));
    ask_info(second, "session");
    EXPECT_TRUE(ends(second)) << "the name is another session's";
    drop(second);
    world.run_for(sim::kSecond);
    ask(second, request(0, 1, 2, 100));
    ask_info(second, "other");
    EXPECT_TRUE(ends(second)) << "the session has a name";
    EXPECT_TRUE(is_served(first));
    ask_info(first);
    EXPECT_TRUE(ends(first)) << "a message where none is expected";
}

TEST_P(SrvHostile, malformed_requests_are_answered)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        const std::vector<std::string> &traced = b.traced.emplace();
        EXPECT_EQ(ask_with(0, 0, words({9, 0})), KAPI_EINVAL) << "no such type";
        EXPECT_EQ(traced, std::vector<std::string>{"rtrs_server_answer local=10.0.0.2 remote=10.0.0.1 chunk=0 write length=0 "
                                                   "error=22 latency_ns=0"});
        EXPECT_EQ(ask_with(0, 4, words({2, 5})), KAPI_EINVAL) << "a message that begins before the chunk";
        EXPECT_EQ(ask_with(0, kChunk - 2, words({2})), KAPI_EINVAL) << "a header behind it";
        EXPECT_EQ(ask_with(0, kChunk - 8, words({3, 0, 0, 1})), KAPI_EINVAL) << "a target behind it";
        EXPECT_EQ(ask_with(0, 100, words({3, 0, 0, 2, 0, 0, 0, 0, 7, 0, 4, 0, 0, 0, 0, 0})), KAPI_EINVAL) << "two targets";
        EXPECT_EQ(ask_with(0, 100, words({3, 0, 0, 1, 0, 0, 0, 0, 7, 0, 200, 0})), KAPI_EINVAL) << "a target that is too long";
        EXPECT_EQ(ask_with(0, 100, words({3, 0, 0, 1, 0, 0, 0, 0, 7, 0, 0, 0})), KAPI_EINVAL) << "an empty one";
        EXPECT_TRUE(user.calls.empty());
        EXPECT_EQ(traced.size(), 7u) << "an answer each";
        EXPECT_EQ(ask_with(0, kChunk - 4, words({2, 0})), KAPI_EINVAL) << "RNBD would read its message behind the chunk";
        EXPECT_EQ(ask_with(0, kChunk - rtrs::header_bytes + 1, words({2, 0})), KAPI_EINVAL) << "more data than was offered";
        EXPECT_TRUE(user.calls.empty());
        EXPECT_EQ(ask_with(0, kChunk - rtrs::header_bytes, words({2, 0})), 0) << "as much";
        EXPECT_EQ(ask_with(0, kChunk - 4, words({2, rtrs::header_bytes - 4})), 0) << "and the longest message";
        EXPECT_EQ(ask_with(0, 100, words({3, 0, 0, 0})), 0) << "no target: nothing is written";
        EXPECT_TRUE(is_served(first));
        drop(first);
        unload();
        user.calls.clear();
    }
}

TEST_P(SrvHostile, a_place_in_no_chunk_ends_the_path)
{
    load(true, 5); // three bits hold numbers of chunks that are not there
    establish(first);
    run(a, [&] { first.send_immediate(*first.links[1], first.imm_of(4, 0) + (1u << 25)); });
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(user.calls.empty());
}

TEST_P(SrvHostile, a_target_that_is_not_the_clients_ends_the_path)
{
    load(true);
    establish(first);
    run(a, [&] { first.put(*first.links[1], 0, 100, words({3, 0, 0, 1, 0, 0, 0, 0, 7, 0, 50, 0, 0, 0}), first.imm_of(0, 100)); });
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; })) << "nothing is left";
}

/** Its immediate data would be a request. */
TEST_P(SrvHostile, a_message_that_is_no_write_ends_the_path)
{
    load(true);
    for (kapi_wr_op op : {KAPI_WR_SEND, KAPI_WR_SEND_IMM}) {
        establish(first);
        run(a, [&] {
            kapi_wr wr{};
            wr.op = static_cast<kapi_u8>(op);
            wr.imm = first.imm_of(0, 100);
            EXPECT_EQ(first.post(*first.links[1], wr), 0);
        });
        EXPECT_TRUE(ends(first)) << op;
        drop(first);
        world.run_for(sim::kSecond);
    }
    EXPECT_EQ(std::ranges::count(b.log, "rtrs_server: a client violates the protocol, its path ends"), 2);
}

TEST_P(SrvHostile, chunks_of_other_sessions_are_out_of_reach)
{
    load(true);
    establish(first);
    connect(second, 2, 2, 101);
    exchange(second, "other");
    second.chunks = first.chunks;
    run(a, [&] { second.put(*second.links[1], 0, 0, "stolen", std::nullopt); });
    EXPECT_TRUE(ends(second));
    ASSERT_TRUE(wait([&] { return !second.links[1]->sent.empty(); }));
    EXPECT_EQ(second.links[1]->sent.back().status, KAPI_WC_REMOTE_ACCESS);
    EXPECT_TRUE(is_served(first));
}

TEST_P(SrvHostile, a_chunk_that_the_user_has_does_not_change)
{
    load(true);
    establish(first);
    keep_write(first, "right");
    run(a, [&] { first.put(*first.links[2], 0, 0, "wrong", std::nullopt); });
    EXPECT_TRUE(ends(first));
    ASSERT_TRUE(wait([&] { return !first.links[2]->sent.empty(); }));
    EXPECT_EQ(first.links[2]->sent.back().status, KAPI_WC_REMOTE_ACCESS);
    answer_call();
    EXPECT_EQ(user.disk["x"], "right");
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; })) << "after the last request";
}

// The bound of what always_invalidate promises: the key of the path that a request came over ends, those of other paths do not.
TEST_P(SrvHostile, a_chunk_that_the_user_has_changes_over_another_path_of_its_client)
{
    load(true);
    establish(first);
    connect(second, 2, 2);
    exchange(second);
    keep_write(first, "right");
    run(a, [&] { second.put(*second.links[1], 0, 0, "wrong", std::nullopt); });
    ASSERT_TRUE(wait([&] { return !second.links[1]->sent.empty(); }));
    EXPECT_EQ(second.links[1]->sent.back().status, KAPI_WC_OK);
    answer_call();
    EXPECT_EQ(user.disk["x"], "wrong");
    write(second, 1, 1, "right", "wy"); // of another chunk, which the first path has a key to
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    run(a, [&] { second.put(*second.links[1], 1, 0, "wrong", std::nullopt); });
    EXPECT_TRUE(ends(second)) << "the path of the request has none";
    answer_call(1);
    EXPECT_EQ(user.disk["y"], "right");
}

/** RNBD checks the name of a disk, and then uses it. */
TEST_P(SrvHostile, a_message_that_the_user_has_does_not_change_over_another_path)
{
    load(true);
    establish(first);
    connect(second, 2, 2);
    exchange(second);
    user.keeps = true;
    for (std::size_t size : {1u, 40u, 508u, 509u, 4092u}) {
        SCOPED_TRACE(size);
        std::string message = "w" + contents(size - 1, 3);
        write(first, 1, 0, "data", message);
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        EXPECT_TRUE(user.calls[0].message == message);
        run(a, [&] { second.put(*second.links[1], 0, 4, std::string(size + 8, '!'), std::nullopt); });
        ASSERT_TRUE(wait([&] { return !second.links[1]->sent.empty(); }));
        EXPECT_EQ(std::exchange(second.links[1]->sent, {}).back().status, KAPI_WC_OK);
        auto *now = static_cast<const char *>(user.calls[0].usr);
        EXPECT_TRUE(std::string(now, size) == message);
        EXPECT_EQ(std::string(now + size, 4), std::string(4, '\0')) << "so text ends there";
        answer_call();
        EXPECT_EQ(answer(first, 0), 0);
        first.answers.clear();
        user.calls.clear();
    }
    write(first, 1, 0, "data", "w" + contents(4092, 3));
    EXPECT_EQ(answer(first, 0), KAPI_EINVAL) << "more than the server has offered room for";
}

// The answer of chunk 1 is not received, and behind it the registration of chunk 0 waits in the send queue.
TEST_P(SrvHostile, a_key_is_not_ended_before_it_begins)
{
    load(true);
    first.deaf_link = 1;
    establish(first);
    user.keeps = true;
    write(first, 1, 0, "right", "wx");
    write(first, 1, 1, "other", "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1);
    world.run_for(10 * sim::kMillisecond); // the server waits until it sends it again
    answer_call();
    kapi_u32 old_key = first.chunks[0].key;
    run(a, [&] { first.send_immediate(*first.links[2], first.imm_of(0, 7)); });
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] { first.post_recvs(*first.links[1]); });
    ASSERT_TRUE(wait([&] { return user.calls.size() == 3 && first.chunks[0].key != old_key; }));
    run(a, [&] { first.put(*first.links[2], 0, 0, "wrong", std::nullopt); });
    ASSERT_TRUE(wait([&] { return first.links[2]->sent.size() == 2; }));
    EXPECT_EQ(first.links[2]->sent.back().status, KAPI_WC_REMOTE_ACCESS);
    EXPECT_EQ(std::string(reinterpret_cast<const char *>(user.calls[2].data), 5), "right");
    answer_call(2);
}

TEST_P(SrvHostile, connections_of_other_hosts_do_not_belong_to_a_path)
{
    load(true);
    ask(first, request(0, 2));
    EXPECT_EQ(rejected(ask(second, request(1, 2))), KAPI_ECONNRESET) << "the same path, between other addresses";
    ask(first, request(1, 2));
    exchange(first);
    EXPECT_TRUE(is_served(first, 2));
}

TEST_P(SrvHostile, connections_that_wait_for_the_end_of_a_path_are_few)
{
    constexpr unsigned kWaiting = 128;
    load(true);
    establish(first);
    connect(second, 2, 2, 101);
    exchange(second, "other");
    user.keeps = true;
    write(first, 1, 0, "data", "wx");
    write(second, 1, 0, "data", "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    drop(first);
    world.run_for(sim::kSecond);
    SrvPath many(a, "10.0.0.1", "10.0.0.2");
    for (unsigned i = 0; i < kWaiting + 10; i++)
        begin(many, request(0, 1, static_cast<unsigned char>(2 + i % 250)));
    auto refused = [&] {
        return std::count_if(many.links.begin(), many.links.end(), [](const auto &link) { return link->end.has_value(); });
    };
    EXPECT_TRUE(wait([&] { return refused() == 10; }, sim::kSecond)) << refused();
    EXPECT_EQ(rejected(*many.links.back()), KAPI_ENOMEM);
    SrvPath again(a, "10.0.1.1", "10.0.1.2");
    auto &link = begin(again, request(0, 2, 2, 101, true, 1));
    world.run_for(sim::kSecond);
    EXPECT_FALSE(link.end || link.established) << "another client has a place";
    run(b, [&] {
        for (const auto &call : user.calls)
            user.answer(call);
    });
    EXPECT_TRUE(wait([&] { return link.established; }));
    drop(again);
    drop(many);
}

class SrvSlowMotion : public SrvHostile {
protected:
    ~SrvSlowMotion() override { sim::stand_still_after(nullptr, 0); }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvSlowMotion, ::testing::Range(1, 3));

/** It is refused path by path, which takes longer than to ask. */
TEST_P(SrvSlowMotion, a_crowd_that_asks_without_a_pause_does_not_keep_what_has_ended)
{
    load(true);
    connect(second, 2, 2, 101);
    exchange(second, "other");
    const unsigned before = b.live_queues;
    establish(first);
    ASSERT_EQ(b.live_queues, before + 1) << "a session has one";
    sim::stand_still_after("rtrs_srv session", 20 * sim::kMillisecond);
    SrvPath crowd(a, "10.0.0.1", "10.0.0.2");
    auto ask_more = [&] { begin(crowd, request(0, 2, 2, 101)); };
    for (unsigned i = 0; i < 60; i++)
        ask_more();
    drop(first);
    for (unsigned i = 0; i < 200 && b.live_queues != before; i++)
        ask_more();
    EXPECT_EQ(b.live_queues, before) << "while it still asks";
    sim::stand_still_after(nullptr, 0);
    drop(crowd);
}

/** The path's work has not seen it. */
TEST_P(SrvSlowMotion, a_path_whose_client_has_just_ended_it_is_waited_for)
{
    load(true);
    establish(first);
    sim::stand_still_after("rtrs_srv path", 200 * sim::kMillisecond);
    drop(first);
    auto &link = begin(first, request(0, 3, 2));
    world.run_for(300 * sim::kMillisecond);
    sim::stand_still_after(nullptr, 0);
    EXPECT_TRUE(wait([&] { return link.established || link.end; }, 30 * sim::kSecond));
    EXPECT_EQ(rejected(link), 0);
}

TEST_P(SrvHostile, a_second_request_in_a_chunk_waits_and_a_third_ends_the_path)
{
    load(false);
    establish(first);
    keep_write(first, "one");
    write(first, 2, 0, "two", "wy");
    world.run_for(sim::kSecond);
    EXPECT_EQ(user.calls.size(), 1u);
    answer_call();
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    EXPECT_EQ(user.calls[1].message, "wy");
    write(first, 1, 0, "one", "wx");
    write(first, 2, 0, "two", "wy");
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(user.links.size(), 1u) << "the user still has a request";
    answer_call(1);
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
    EXPECT_EQ(user.calls.size(), 2u) << "what waited is given up";
}

} // namespace
