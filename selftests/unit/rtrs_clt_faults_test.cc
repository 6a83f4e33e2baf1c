// SPDX-License-Identifier: GPL-2.0
// Every allocation of the RTRS client, and every kapi call that can fail for want of memory, is failed once over a fixed course:
// a call may report it, a path may be lost, but everything goes on afterwards and nothing leaks.
#include "rtrs_clt_test.h"

namespace {

class Course : public RtrsClientBase {
public:
    // Rings, in which all calls are alike, are as short as the client can use.
    explicit Course(std::uint64_t fail_at) : RtrsClientBase(7, 64)
    {
        server.geometry = *rtrs::Geometry::create(3, 65536); // fewer chunks: of each the calls are alike
        server.poll_ns = 2 * sim::kMillisecond;
        a.faults().fail_at = fail_at;
    }
    void TestBody() override {}

    void go()
    {
        module = &a.load_module("rtrs_client");
        run(a, [&] {
            int err = rtrs_clt_core_init(module, &params);
            ASSERT_TRUE(!err || rtrs_clt_core_init(module, &params) == 0);
        });
        loaded = true;
        serve();
        run(a, [&] {
            int err = try_open(2);
            // A device that there was no memory for is not used until the module is loaded anew.
            ASSERT_TRUE(!err || !try_open(2) || err == -KAPI_ENODEV) << err;
        });
        if (!session)
            return;
        for (unsigned i = 0; i < 3; i++) {
            std::string data = contents(5000, i), name = "block";
            EXPECT_EQ(until_done(false, name, data), 0);
            std::string got(data.size(), '-');
            EXPECT_EQ(until_done(true, name, got), 0);
            EXPECT_TRUE(got == data);
        }
        run(b, [&] { server.disconnect_all(); });
        world.run_for(sim::kSecond);
        std::string data = contents(100, 9);
        EXPECT_EQ(until_done(false, "last", data), 0);
        calls = a.faults().count;
    }
    int until_done(bool read, const std::string &name, std::string &data)
    {
        int error = request(read, name, data);
        for (int i = 0; error && i < 5; i++) {
            world.run_for(3 * sim::kSecond);
            error = request(read, name, data);
        }
        return error;
    }
    std::uint64_t calls = 0;
};

/** A path is lost that has requests, which move to the other one; then it is removed and added again. */
class CourseOfALostPath : public Course {
public:
    explicit CourseOfALostPath(std::uint64_t fail_at) : Course(0), fail_at(fail_at) {}

    void go()
    {
        load();
        serve();
        open(2);
        server.on_request = [&](WireServer::Request &request) {
            if (!lost)
                lost = request.on->request.path;
            return lost == request.on->request.path;
        };
        Ended ended[2];
        rtrs_clt_chunk *permits[2];
        run(a, [&] {
            for (unsigned i : {0, 1}) {
                ended[i].data = contents(5000, i);
                permits[i] = rtrs_clt_core_get_permit(session, 1, 1);
                EXPECT_EQ(begin(permits[i], ended[i], i, i ? "nothing" : "block"), 0);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return lost.has_value(); }, sim::kSecond));
        a.faults() = {.count = 0, .fail_at = fail_at, .one_in = 0, .failed = 0};
        run(b, [&] {
            for (auto &connection : server.connections)
                if (connection->request.path == lost)
                    kapi_cm_disconnect(connection->cm);
        });
        EXPECT_TRUE(world.run_until([&] { return ended[0].done && ended[1].done; }, 10 * sim::kSecond));
        EXPECT_TRUE(fail_at || (!ended[0].error && ended[1].error == -KAPI_ENOENT)) << "nothing is stored under this name";
        EXPECT_EQ(ended[0].times + ended[1].times, 2u);
        server.on_request = nullptr;
        run(a, [&] {
            for (auto *permit : permits)
                rtrs_clt_core_put_permit(session, permit);
        });
        EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        int err = put(root + "add_path", path_name(0));
        EXPECT_TRUE(!err || put(root + "add_path", path_name(0)) == 0) << err;
        std::string data = contents(100, 9);
        EXPECT_EQ(until_done(false, "last", data), 0);
        calls = a.faults().count;
    }
    const std::uint64_t fail_at;
    std::optional<rtrs::Uuid> lost{};
};

/** In parts, which run at the same time. With a sanitizer a course takes ten times as long: of ten calls it sees one. */
class RtrsClientFaults : public ::testing::TestWithParam<std::uint64_t> {};
constexpr std::uint64_t kParts = 4;
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#ifdef SANITIZED
constexpr std::uint64_t kStride = 10;
#else
constexpr std::uint64_t kStride = 1;
#endif

template <class Of> void fail_each_call_once(std::uint64_t part)
{
    std::uint64_t calls;
    {
        Of course(0);
        course.go();
        calls = course.calls;
    }
    EXPECT_GT(calls, 50u);
    for (std::uint64_t i = 1 + part * kStride; i <= calls && !testing::Test::HasFailure(); i += kParts * kStride) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Of course(i);
        course.go();
    }
}

TEST_P(RtrsClientFaults, each_call_fails_once) { fail_each_call_once<Course>(GetParam()); }
TEST_P(RtrsClientFaults, each_call_fails_once_when_a_path_is_lost) { fail_each_call_once<CourseOfALostPath>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Parts, RtrsClientFaults, ::testing::Range<std::uint64_t>(0, kParts));

} // namespace
