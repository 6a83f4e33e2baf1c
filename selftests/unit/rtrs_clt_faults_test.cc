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
        server.geometry = *rtrs::Geometry::create(2, 65536); // fewer chunks: of each the calls are alike
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

TEST_P(RtrsClientFaults, each_call_fails_once)
{
    std::uint64_t calls;
    {
        Course course(0);
        course.go();
        calls = course.calls;
    }
    EXPECT_GT(calls, 50u);
    for (std::uint64_t i = 1 + GetParam() * kStride; i <= calls && !testing::Test::HasFailure(); i += kParts * kStride) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Course course(i);
        course.go();
    }
}

INSTANTIATE_TEST_SUITE_P(Parts, RtrsClientFaults, ::testing::Range<std::uint64_t>(0, kParts));

} // namespace
