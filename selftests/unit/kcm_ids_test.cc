// SPDX-License-Identifier: GPL-2.0
// Connections are found by their ids in few steps, whichever ids a program chose.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

namespace {

constexpr unsigned kBatch = KCM_ABI_MSG_BATCH;
constexpr unsigned kConnections = 40, kStride = 128; // a power of two, as tables have buckets
constexpr std::uint64_t kFewSteps = 12;

class KcmIds : public KcmTest {
protected:
    /** A socket whose connections have ids that differ by multiples of kStride. */
    std::vector<std::uint64_t> open_with_chosen_ids(KcmSocket &socket)
    {
        std::vector<std::uint64_t> ids;
        std::vector<Ends> ends;
        for (unsigned i = 0; i < kConnections; i++)
            ends.push_back(connect());
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            for (const Ends &each : ends) {
                for (unsigned skipped = 1; skipped < kStride; skipped++) {
                    ASSERT_EQ(socket.attach(each.here, by_length), 0);
                    ASSERT_EQ(socket.unattach(each.here), 0);
                }
                ASSERT_EQ(socket.attach(each.here, by_length), 0);
                ids.push_back(static_cast<std::uint64_t>(socket.id_of(each.here)));
                ASSERT_EQ(ids.back() % kStride, ids.front() % kStride);
            }
        });
        return ids;
    }
};

TEST_F(KcmIds, chosen_ids__do_not_meet_in_one_bucket)
{
    KcmSocket &socket = new_socket();
    std::vector<std::uint64_t> ids = open_with_chosen_ids(socket);
    sim::forget_steps();
    for (std::uint64_t id : ids) // each has a queue of its own from now on
        EXPECT_EQ(send(socket, "x", kBatch, id), 1);
    for (std::uint64_t id : ids)
        EXPECT_EQ(send(socket, "y", kBatch, id), 1);
    EXPECT_LE(sim::most_steps_under("kcm members"), kFewSteps);
    EXPECT_LE(sim::most_steps_under("kcm send"), kFewSteps);
    EXPECT_EQ(send(socket, ""), 0);
}

} // namespace
