// SPDX-License-Identifier: GPL-2.0
// Every allocation of the RTRS server, and every kapi call that can fail for want of memory, is failed once over a fixed course
// of events: a client that tries again is served, and nothing leaks.
#include "rtrs_srv_test.h"

namespace {

class Course : public SrvWorld {
public:
    Course() : SrvWorld(7) {}
    void TestBody() override {}
    /** How many calls could have failed. */
    std::uint64_t go(bool always_invalidate, std::uint64_t fail_at)
    {
        b.faults().fail_at = fail_at;
        EXPECT_TRUE(opens(always_invalidate));
        EXPECT_TRUE(serves_after_replugging());
        drop(first);
        unload();
        EXPECT_EQ(b.faults().failed, fail_at ? 1u : 0u);
        return b.faults().count;
    }

private:
    /** Whether the server is open; the failure is injected once. */
    bool opens(bool always_invalidate)
    {
        rtrs_srv_core_params params{kChunk, kDepth, always_invalidate};
        for (int i = 0; i < 3 && !server; i++)
            run(b, [&] {
                if (!loaded)
                    loaded = init(params) == 0;
                if (loaded)
                    static_cast<void>(rtrs_srv_core_open(&b.initial_net(), &SrvUser::ops, &user, kPort, &server));
            });
        return server != nullptr;
    }
    bool connects()
    {
        for (unsigned i = 0; i < 2; i++)
            if (!ask(first, request(i, 2)).established)
                return false;
        ask_info(first);
        wait([&] { return !first.info.empty() || first.links[0]->end; }, 60 * sim::kSecond);
        first.chunks.resize(kDepth);
        return !first.info.empty() &&
               rtrs::parse_info_response(SrvPath::bytes_of(first.info), first.offer->geometry, first.chunks).has_value();
    }
    /** Writes and reads; false: the path was lost. */
    bool works()
    {
        auto answered = [&] { return first.answers.count(0) || first.links[0]->end || first.links[1]->end; };
        run(a, [&] { first.write(*first.links[1], 0, contents(700, 5), "wx"); });
        if (!wait(answered, 60 * sim::kSecond) || !first.answers.count(0) || first.answers[0].error)
            return false;
        run(a, [&] { first.read(*first.links[0], 0, 700, "rx"); });
        return wait(answered, 60 * sim::kSecond) && first.answers.count(0) && !first.answers[0].error &&
               first.fetched(0, 700) == contents(700, 5);
    }
    bool serves()
    {
        for (int i = 0; i < 3; i++) {
            if (connects() && works())
                return true;
            drop(first);
            world.run_for(5 * sim::kSecond);
        }
        return false;
    }
    /** Without memory for it a device is not used until it comes again. */
    bool serves_after_replugging()
    {
        if (serves())
            return true;
        run(b, [&] { sim::unplug_rdma(*dev_b); }, 100 * sim::kSecond);
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
        world.run_for(sim::kSecond);
        return serves();
    }
};

void fail_each_once(bool always_invalidate)
{
    std::uint64_t calls = Course().go(always_invalidate, 0);
    EXPECT_GT(calls, 400u);
    // Most of them are receives of the first connection in a row, of which every tenth fails.
    for (std::uint64_t i = 1; i <= calls && !testing::Test::HasFailure(); i += i > 150 && i + 250 < calls ? 10 : 1) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Course().go(always_invalidate, i);
    }
}

TEST(SrvFaults, each_call_fails_once_with_keys_that_end)
{
    fail_each_once(true);
}

TEST(SrvFaults, each_call_fails_once_with_keys_that_last)
{
    fail_each_once(false);
}

} // namespace
