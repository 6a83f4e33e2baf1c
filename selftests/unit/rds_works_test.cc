// SPDX-License-Identifier: GPL-2.0
// How many works the paths of a connection cost: paths that wait for one another must not wake one another in circles.
#include "rds_test.h"

#include <kapi/errno.h>

#include <array>
#include <memory>

#include "net/rds/connection.h"
#include "rds_peer_test.h"

namespace {

constexpr unsigned kPaths = rds::max_paths;

class Works : public RdsTest {
protected:
    Works()
    {
        for (unsigned i = 0; i < kPaths; i++) {
            from[i] = std::make_unique<RdsSocket>(host_a);
            run(a, [&] {
                ASSERT_EQ(from[i]->open(), 0);
                ASSERT_EQ(from[i]->bind(sim::address("10.0.0.1", port_of_path(i))), 0);
            });
        }
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", 70)), 0);
        });
    }
    ~Works() override
    {
        run(a, [&] { from = {}; });
        run(b, [&] { to.close(); });
    }
    void send_on_each_path()
    {
        run(a, [&] {
            for (auto &socket : from)
                EXPECT_EQ(send(*socket, "x", "10.0.0.2", 70), 1);
        });
    }
    void receive_all()
    {
        run(b, [&] {
            for (unsigned i = 0; i < kPaths; i++)
                EXPECT_EQ(receive(to), "x");
        });
    }
    /** All streams end, and none comes up. */
    void lose_all()
    {
        world.network().cut(a, b);
        world.network().reset(a, b, sim::Sees::both);
        world.run_for(sim::kMillisecond);
    }
    void each_path(const std::function<void(rds::Path &)> &visit)
    {
        sim::NodeScope scope(a);
        reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &connection) {
            for (unsigned i = 0; i < kPaths; i++)
                visit(connection.path(i));
        });
    }

    std::array<std::unique_ptr<RdsSocket>, kPaths> from;
    RdsSocket to{host_b};
};

// Each wake-up of a path that waited once woke the one below it and the first one, and each of those did the same.
TEST_F(Works, eight_paths_that_wait_for_the_first__one_work_each)
{
    send_on_each_path();
    receive_all();
    lose_all();
    send_on_each_path();
    world.run_for(10 * sim::kSecond);
    unsigned down = 0;
    each_path([&](rds::Path &path) { down += !path.is_up(); });
    ASSERT_EQ(down, kPaths);
    for (int round = 0; round < 10; round++) {
        std::uint64_t before = a.works_run;
        each_path([](rds::Path &path) { path.notify(RDS_PATH_SEND); });
        world.run_for(300 * sim::kMicrosecond);
        EXPECT_GE(a.works_run - before, kPaths);
        EXPECT_LE(a.works_run - before, kPaths + 2); // each, and the first one for those that wait for it
        world.run_for(137 * sim::kMillisecond);      // in back-off, connecting, closing
    }
    world.network().cut(a, b, false);
    receive_all();
}

TEST_F(Works, eight_paths_come_up_again__a_few_works_each)
{
    send_on_each_path();
    receive_all();
    lose_all();
    send_on_each_path();
    world.network().cut(a, b, false);
    std::uint64_t before = a.works_run;
    receive_all();
    EXPECT_LE(a.works_run - before, 15 * kPaths);
}

} // namespace
