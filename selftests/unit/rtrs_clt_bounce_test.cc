// SPDX-License-Identifier: GPL-2.0
// The RTRS client over devices that do not reach memory themselves, while the buffer for copies is full.
#include "rtrs_clt_test.h"

#include <kapi/sim/rdma.h>

namespace {

class RtrsClientBounce : public RtrsClientTest {
protected:
    RtrsClientBounce()
    {
        for (auto *device : devices)
            sim::make_bounce(*device);
        ready(2);
    }
    void fill_buffers()
    {
        for (auto *device : devices)
            device->bounce_room = 0;
    }
    void empty_buffers()
    {
        for (auto *device : devices)
            device->bounce_room = SIZE_MAX / 2;
    }
    /** The first request is not answered; after a second its path is ended, and the other one's buffer is full. */
    void lose_path_of_first_request()
    {
        server.on_request = [this](WireServer::Request &) { return taken++ == 0; };
        world.after(sim::kSecond, [this] {
            ASSERT_EQ(taken, 1u);
            fill_buffers();
            server.reject = KAPI_EBUSY; // what the lost path has freed stays free
            world.spawn(b, "end", [this] {
                rtrs::Uuid path = server.requests.front().on->request.path;
                for (auto &connection : server.connections)
                    if (connection->request.path == path)
                        kapi_cm_disconnect(connection->cm);
            });
        });
    }
    unsigned taken = 0;
};

TEST_P(RtrsClientBounce, a_request_that_is_moved_waits_until_it_can_be_mapped)
{
    lose_path_of_first_request();
    world.after(5 * sim::kSecond, [this] {
        EXPECT_EQ(taken, 1u);
        empty_buffers();
    });
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(5000, 1)), 0);
    EXPECT_EQ(server.disk["block"], contents(5000, 1));
    EXPECT_LT(world.now_ns() - begun, 5 * sim::kSecond + 100 * sim::kMillisecond);
    server.on_request = nullptr;
    EXPECT_EQ(read("block", 5000), contents(5000, 1));
}

TEST_P(RtrsClientBounce, a_request_that_can_never_be_mapped_ends_after_some_seconds)
{
    lose_path_of_first_request();
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(5000, 1)), -KAPI_EIO);
    EXPECT_GT(world.now_ns() - begun, 10 * sim::kSecond);
    EXPECT_LT(world.now_ns() - begun, 14 * sim::kSecond);
    empty_buffers();
    world.run_for(5 * sim::kSecond);
    server.on_request = nullptr;
    EXPECT_EQ(write("block", contents(5000, 2)), 0);
    EXPECT_EQ(server.disk["block"], contents(5000, 2));
}

TEST_P(RtrsClientBounce, a_new_request_waits_as_well)
{
    fill_buffers();
    world.after(8 * sim::kSecond, [this] { empty_buffers(); });
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(5000, 1)), 0);
    EXPECT_GT(world.now_ns() - begun, 8 * sim::kSecond);
    fill_buffers(); // each waits as long
    world.after(8 * sim::kSecond, [this] { empty_buffers(); });
    EXPECT_EQ(read("block", 5000), contents(5000, 1));
    fill_buffers();
    begun = world.now_ns();
    EXPECT_EQ(write("block", contents(5000, 2)), -KAPI_EIO);
    EXPECT_LT(world.now_ns() - begun, 11 * sim::kSecond);
    EXPECT_EQ(server.disk["block"], contents(5000, 1));
    empty_buffers();
}

TEST_P(RtrsClientBounce, a_request_that_waits_ends_when_it_is_late)
{
    EXPECT_EQ(put(root + "io_timeout_ms", "2000"), 0);
    fill_buffers();
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(5000, 1)), -KAPI_ETIMEDOUT);
    EXPECT_LT(world.now_ns() - begun, 2100 * sim::kMillisecond);
    empty_buffers();
    EXPECT_EQ(write("block", contents(5000, 2)), 0);
}

TEST_P(RtrsClientBounce, a_request_that_waits_ends_with_its_session)
{
    fill_buffers();
    Ended ended;
    ended.data = contents(5000, 1);
    rtrs_clt_session *closed = session;
    rtrs_clt_chunk *permit = nullptr;
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(closed, 0, 1);
        EXPECT_EQ(begin(permit, ended, false, "block"), 0);
    });
    auto user = world.spawn(a, "user", [&] {
        while (!ended.done)
            world.sleep(sim::kMillisecond);
        rtrs_clt_core_put_permit(closed, permit);
    });
    std::uint64_t begun = world.now_ns();
    close();
    EXPECT_LT(world.now_ns() - begun, 2 * sim::kSecond);
    EXPECT_TRUE(user->is_done());
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
    EXPECT_EQ(ended.times, 1u);
    empty_buffers();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientBounce, ::testing::Range(1, 6));

} // namespace
