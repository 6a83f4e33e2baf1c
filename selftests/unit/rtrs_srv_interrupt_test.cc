// SPDX-License-Identifier: GPL-2.0
// A user of the RTRS server that answers from a hard interrupt, as disks do: with what it may have to begin or to end then.
#include "rtrs_srv_test.h"

namespace {

class SrvInterrupt : public SrvTest {
protected:
    void answer_from_interrupts(std::size_t count)
    {
        ASSERT_TRUE(wait([&] { return user.calls.size() == count; }));
        run(b, [&] {
            for (const auto &call : user.calls)
                user.answer(call);
        });
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvInterrupt, ::testing::Range(1, 4));

TEST_P(SrvInterrupt, the_last_answer_of_a_lost_path)
{
    load(true);
    establish(first);
    user.keeps = true;
    write(first, 1, 0, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    drop(first);
    world.run_for(sim::kSecond);
    EXPECT_EQ(user.links.size(), 1u) << "the path waits for it";
    answer_from_interrupts(1);
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
}

TEST_P(SrvInterrupt, an_answer_behind_which_another_request_waits_for_the_chunk)
{
    load(false);
    establish(first);
    user.keeps = true;
    write(first, 1, 0, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    write(first, 1, 0, "more", "wy");
    world.run_for(100 * sim::kMillisecond);
    answer_from_interrupts(1);
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; })) << "it begins";
    run(b, [&] { user.answer(user.calls[1]); });
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_EQ(user.disk["y"], "more");
}

TEST_P(SrvInterrupt, an_answer_that_the_device_does_not_take)
{
    load(true);
    establish(first);
    user.keeps = true;
    for (unsigned chunk = 0; chunk < 4; chunk++)
        write(first, 1, chunk, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 4; }));
    b.faults().fail_at = b.faults().count + 1;
    answer_from_interrupts(4);
    EXPECT_TRUE(ends(first));
}

} // namespace
