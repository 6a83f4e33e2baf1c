// SPDX-License-Identifier: GPL-2.0
// An RTRS server that breaks the protocol: its path ends, requests end once, no memory is written to afterwards, nothing leaks.
#include "rtrs_clt_test.h"

#include <cstddef>

namespace {

class RtrsClientHostile : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    /** The server does this with the next request, instead of an answer; afterwards the path has been lost and is back. */
    int request_is_met_by(bool read, std::function<void(WireServer::Request &)> act)
    {
        ready();
        bool acted = false;
        server.on_request = [&, act](WireServer::Request &request) {
            if (std::exchange(acted, true))
                return false;
            act(request);
            return true;
        };
        std::string data = contents(5000, 1);
        int error = request(read, "block", data);
        EXPECT_TRUE(acted);
        server.on_request = nullptr;
        return error;
    }
    void expect_lost_and_back()
    {
        ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 20 * kSecond));
        EXPECT_EQ(write("after", contents(100, 1)), 0);
    }
};

TEST_P(RtrsClientHostile, an_answer_for_a_chunk_that_nothing_is_asked_of)
{
    auto act = [&](auto &request) { server.answer(*request.on, request.chunk ^ 1, 0); };
    EXPECT_EQ(request_is_met_by(false, act), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, an_answer_over_another_connection)
{
    EXPECT_EQ(request_is_met_by(false, [&](auto &request) {
        for (auto &other : server.connections)
            if (other.get() != request.on && !other->ended)
                return server.answer(*other, request.chunk, 0);
    }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

/** The second one ends the path, maybe before the request's own part has completed. */
TEST_P(RtrsClientHostile, two_answers)
{
    int error = request_is_met_by(false, [&](auto &request) {
        server.answer(*request.on, request.chunk, 0);
        server.answer(*request.on, request.chunk, KAPI_EIO);
    });
    EXPECT_TRUE(error == 0 || error == -KAPI_ECONNABORTED) << error;
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_chunk_that_does_not_exist)
{
    EXPECT_EQ(request_is_met_by(false, [&](auto &request) { server.answer(*request.on, 8, 0); }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, immediate_data_that_nobody_knows)
{
    EXPECT_EQ(request_is_met_by(true, [&](auto &request) { server.immediate(*request.on, 0x70000000); }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_request_to_the_client)
{
    EXPECT_EQ(request_is_met_by(true, [&](auto &request) { server.immediate(*request.on, request.chunk); }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_message_without_immediate_data)
{
    EXPECT_EQ(request_is_met_by(true, [&](auto &request) { server.send(*request.on, "hello"); }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_message_that_is_too_long)
{
    EXPECT_EQ(request_is_met_by(true, [&](auto &request) { server.send(*request.on, std::string(9, 'x')); }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_key_for_another_chunk)
{
    EXPECT_EQ(request_is_met_by(false, [&](auto &request) {
        auto key = rtrs::write_rkey_response({static_cast<kapi_u16>(request.chunk ^ 1), 77});
        server.send(*request.on, {reinterpret_cast<const char *>(&key), sizeof(key)}, KAPI_WR_SEND_IMM,
                    rtrs::write_immediate(rtrs::ImmediateType::response, request.chunk));
    }), -KAPI_ECONNABORTED);
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, a_key_that_is_wrong_ends_the_path_with_the_next_request)
{
    EXPECT_EQ(request_is_met_by(false, [&](auto &request) {
        auto key = rtrs::write_rkey_response({static_cast<kapi_u16>(request.chunk), 77});
        server.send(*request.on, {reinterpret_cast<const char *>(&key), sizeof(key)}, KAPI_WR_SEND_IMM,
                    rtrs::write_immediate(rtrs::ImmediateType::response, request.chunk));
    }), 0);
    EXPECT_TRUE(links.empty());
    for (int i = 0; i < 8 && links.empty(); i++) // the one with that chunk
        write("block", contents(100, 1));
    expect_lost_and_back();
    auto says_why = [](const std::string &line) { return line.ends_with("the server refuses access to its memory"); };
    EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(), says_why), 1);
}

/** It says that it has invalidated the client's key, and has not: the client does it, and a late write does not arrive. */
TEST_P(RtrsClientHostile, it_lies_about_the_invalidation)
{
    ready();
    server.invalidates = false;
    server.lies = true;
    server.disk["block"] = contents(5000, 3);
    std::string data(5000, '-');
    EXPECT_EQ(request(true, "block", data), 0);
    EXPECT_TRUE(data == contents(5000, 3));
    WireServer::Request &old = server.requests.back();
    EXPECT_TRUE(links.empty());
    run(b, [&] { server.write(*old.on, old.parsed.target.address, old.parsed.target.key, "too late"); });
    // The client's end of the connection may be gone before the server's device has its answer.
    ASSERT_TRUE(world.run_until([&] { return server.failed || !links.empty(); }, 10 * kSecond)) << "the key is dead";
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, it_invalidates_the_key_of_another_request)
{
    ready();
    std::vector<WireServer::Request> held;
    server.on_request = [&](WireServer::Request &request) { return held.push_back(request), true; };
    Ended ended[2];
    rtrs_clt_chunk *permits[2];
    run(a, [&] {
        for (unsigned i : {0, 1}) { // over one connection
            ended[i].data.resize(5000);
            permits[i] = rtrs_clt_core_get_permit(session, 1, 1);
            EXPECT_EQ(begin(permits[i], ended[i], true, "block"), 0);
        }
    });
    ASSERT_TRUE(world.run_until([&] { return held.size() == 2; }, kSecond));
    run(b, [&] {
        server.invalidate(*held[0].on, held[1].parsed.target.key);
        server.answer(*held[0].on, held[0].chunk, 0, true);
        server.answer(*held[0].on, held[1].chunk, 0);
    });
    ASSERT_TRUE(world.run_until([&] { return ended[0].done && ended[1].done; }, kSecond));
    EXPECT_EQ(ended[0].error, 0);
    EXPECT_EQ(ended[1].error, 0);
    EXPECT_TRUE(links.empty());
    run(a, [&] {
        for (auto *permit : permits)
            rtrs_clt_core_put_permit(session, permit);
    });
}

/** Its answers are whole, so it is not asked to invalidate; the client does it, before the memory is its user's again. */
TEST_P(RtrsClientHostile, it_writes_after_a_whole_answer)
{
    server.change_acceptance = [](auto &response) { response.flags = rtrs::wire::flag_whole_answers; };
    ready();
    server.disk["block"] = contents(5000, 3);
    server.invalidates = false;
    std::string data(5000, '-');
    EXPECT_EQ(request(true, "block", data), 0);
    EXPECT_TRUE(data == contents(5000, 3));
    WireServer::Request &old = server.requests.back();
    EXPECT_FALSE(old.parsed.invalidate);
    run(b, [&] { server.write(*old.on, old.parsed.target.address, old.parsed.target.key, "too late"); });
    ASSERT_TRUE(world.run_until([&] { return server.failed || !links.empty(); }, 10 * kSecond)) << "the key is dead";
    expect_lost_and_back();
}

TEST_P(RtrsClientHostile, it_does_not_invalidate)
{
    ready();
    server.invalidates = false;
    server.disk["block"] = contents(5000, 3);
    for (int i = 0; i < 20; i++)
        EXPECT_TRUE(read("block", 5000) == contents(5000, 3));
    EXPECT_TRUE(links.empty());
}

TEST_P(RtrsClientHostile, it_invalidates_and_does_not_say_so)
{
    ready();
    server.disk["block"] = contents(5000, 3);
    server.on_request = [&](WireServer::Request &request) {
        server.write(*request.on, request.parsed.target.address, request.parsed.target.key, server.disk["block"]);
        server.invalidate(*request.on, request.parsed.target.key);
        server.answer(*request.on, request.chunk, 0, false);
        return true;
    };
    for (int i = 0; i < 20; i++)
        EXPECT_TRUE(read("block", 5000) == contents(5000, 3));
    EXPECT_TRUE(links.empty());
}

TEST_P(RtrsClientHostile, its_acceptance_is_wrong)
{
    using Response = rtrs::wire::ConnectResponse;
    const std::function<void(Response &)> bad[] = {
        [](Response &response) { response.magic = 1; },
        [](Response &response) { response.version = 0x0300; },
        [](Response &response) { response.queue_depth = 0; },
        [](Response &response) { response.max_io_bytes = 1u << 28; },
        [](Response &response) { response.max_header_bytes = 8; },
        [](Response &response) { response.max_io_bytes = 4095; },
    };
    load();
    serve();
    for (auto &change : bad) {
        server.change_acceptance = change;
        run(a, [&] { EXPECT_LT(try_open(), 0); });
    }
    server.change_acceptance = nullptr;
    open();
}

/** Linux ends a thread whose write to a file returns EIOCBQUEUED, 529, and takes others for orders to begin the call anew. */
TEST_P(RtrsClientHostile, it_refuses_with_an_error_that_is_the_kernels_own)
{
    load();
    serve();
    for (int error : {512, 516, 529, static_cast<int>(KAPI_ECANCELED)}) { // the last is that of an attempt which a command ends
        server.reject = error;
        run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ECONNRESET); });
    }
    server.reject = 0;
    open();
    server.reject = 529;
    EXPECT_EQ(put(path() + "reconnect", "1"), -KAPI_ECONNRESET);
    run(a, [&] { EXPECT_EQ(sim::sysfs_write(root + "add_path", "ip:10.0.1.2"), -KAPI_ECONNRESET); });
    EXPECT_EQ(get(path() + "last_error"), "-104\n");
}

TEST_P(RtrsClientHostile, it_offers_more_chunks_than_there_is_memory_for)
{
    load();
    serve();
    server.change_acceptance = [](rtrs::wire::ConnectResponse &response) {
        response.queue_depth = 32768;
        response.max_io_bytes = 4096;
        response.max_header_bytes = 4096;
    };
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ENOMEM); });
}

TEST_P(RtrsClientHostile, its_information_is_wrong)
{
    const std::function<void(std::string &)> bad[] = {
        [](std::string &info) { info.resize(7); },
        [](std::string &info) { info[0] = 7; },
        [](std::string &info) { info[2] = 2; },   // a descriptor that is not there
        [](std::string &info) { info[21]++; },    // too long
        [](std::string &info) { info[20] = 1; },  // not whole chunks
        [](std::string &info) { info.resize(600); },
    };
    load();
    serve();
    for (auto &change : bad) {
        server.change_info = change;
        run(a, [&] { EXPECT_LT(try_open(), 0); }, 100 * kSecond);
    }
    server.change_info = nullptr;
    open();
}

TEST_P(RtrsClientHostile, its_geometry_changes)
{
    ready();
    server.geometry = *rtrs::Geometry::create(4, 65536);
    run(b, [&] { server.disconnect_all(); });
    world.run_for(20 * kSecond);
    EXPECT_EQ(links, std::vector<int>{0});
    server.geometry = *rtrs::Geometry::create(8, 65536);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 20 * kSecond));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientHostile, ::testing::Range(1, 4));

} // namespace
