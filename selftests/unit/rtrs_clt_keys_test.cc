// SPDX-License-Identifier: GPL-2.0
// Keys of the client's regions come back. A server that has invalidated one does not make the client believe that a later request
// with the same key cannot be written to any more, when its memory is given back.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientKeys : public RtrsClientTest {};

/**
 * Keys come back after 256 uses of a region. The server invalidates one over other connections than that of the request, and
 * sends nothing over those until it answers a request with the same key, which is valid, over one of them.
 */
TEST_P(RtrsClientKeys, an_invalidation_counts_for_no_later_request_with_the_same_key)
{
    ready();
    std::string data(5000, '-');
    kapi_u32 key = 0;
    server.on_request = [&](WireServer::Request &request) {
        EXPECT_TRUE(request.on->is_service());
        key = request.parsed.target.key;
        for (auto &other : server.connections)
            if (!other->is_service())
                server.invalidate(*other, key);
        world.sleep(10 * sim::kMillisecond);
        server.answer(*request.on, request.chunk, 0);
        return true;
    };
    EXPECT_EQ(request(true, "block", data, sim::kSecond, true), 0);
    server.on_request = [&](WireServer::Request &request) { return server.answer(*request.on, request.chunk, 0), true; };
    for (int i = 0; i < 255; i++)
        EXPECT_EQ(request(true, "block", data, sim::kSecond, true), 0);
    EXPECT_EQ(request(true, "block", data, sim::kSecond), 0);
    EXPECT_FALSE(server.requests.back().on->is_service());
    EXPECT_EQ(server.requests.back().parsed.target.key, key);
    EXPECT_TRUE(links.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientKeys, ::testing::Range(1, 4));

/** A region's key also changes with each attempt that finds the queue full, and the connection may be the same. */
class RtrsClientKeysFull : public RtrsClientBase, public ::testing::WithParamInterface<int> {
protected:
    RtrsClientKeysFull() : RtrsClientBase(static_cast<std::uint64_t>(GetParam()), 64)
    {
        server.geometry = *rtrs::Geometry::create(32, 65536);
    }
    rtrs_clt_chunk *admin_permit()
    {
        rtrs_clt_chunk *permit = nullptr;
        run(a, [&] { permit = rtrs_clt_core_get_permit(session, 1, 1); });
        return permit;
    }
    int begin_read(rtrs_clt_chunk *permit, Ended &ended)
    {
        int error = 0;
        ended = {};
        ended.data.resize(5000);
        run(a, [&] { error = begin(permit, ended, true, "block"); });
        return error;
    }
};

TEST_P(RtrsClientKeysFull, an_invalidation_counts_for_no_later_request_with_the_same_key)
{
    constexpr unsigned kHeld = 17; // so few places are left that three heartbeats stop the next one
    load();
    serve();
    open();
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "60000"), 0);
    world.run_for(sim::kSecond);
    Ended ended, others[kHeld];
    rtrs_clt_chunk *permit = admin_permit();
    EXPECT_EQ(begin_read(permit, ended), 0);
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    WireServer::Request first = server.requests.back();
    std::vector<WireServer::Request> held;
    server.on_request = [&](WireServer::Request &request) { return held.push_back(request), true; };
    std::vector<rtrs_clt_chunk *> permits;
    for (auto &other : others) {
        permits.push_back(admin_permit());
        EXPECT_EQ(begin_read(permits.back(), other), 0);
    }
    ASSERT_TRUE(world.run_until([&] { return held.size() == kHeld; }, sim::kSecond));
    world.run_for(100 * sim::kMillisecond);
    sim::hold_packets(*devices[0], 200 * sim::kMillisecond);
    run(b, [&] {
        for (int i = 0; i < 3; i++)
            server.immediate(*first.on, rtrs::write_immediate(rtrs::ImmediateType::heartbeat));
        server.invalidate(*first.on, first.parsed.target.key);
    });
    world.run_for(50 * sim::kMillisecond);
    for (int i = 0; i < 255; i++)
        ASSERT_EQ(begin_read(permit, ended), -KAPI_EAGAIN);
    world.run_for(400 * sim::kMillisecond);
    EXPECT_EQ(begin_read(permit, ended), 0);
    ASSERT_TRUE(world.run_until([&] { return held.size() == kHeld + 1; }, sim::kSecond));
    EXPECT_EQ(held.back().parsed.target.key, first.parsed.target.key);
    run(b, [&] { server.answer(*first.on, held.back().chunk, 0); });
    EXPECT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    run(b, [&] {
        for (unsigned i = 0; i < kHeld; i++)
            server.answer(*first.on, held[i].chunk, 0);
    });
    EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(others, [](auto &one) { return one.done; }); }, sim::kSecond));
    EXPECT_TRUE(links.empty());
    permits.push_back(permit);
    run(a, [&] {
        for (auto *one : permits)
            rtrs_clt_core_put_permit(session, one);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientKeysFull, ::testing::Range(1, 4));

} // namespace
