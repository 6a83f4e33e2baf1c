// SPDX-License-Identifier: GPL-2.0
// A program that is killed while it reads what KCM shows of very many objects: the walk ends, which is of no use any more.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

#include <uapi/hawser_netlink.h>

#include <functional>

namespace {

constexpr unsigned kMany = 500, kFew = 20;

class KcmKilled : public KcmTest {
protected:
    void open_many()
    {
        for (unsigned i = 0; i < kMany; i++) {
            KcmSocket &one = new_socket();
            run(a, [&] { ASSERT_EQ(one.open(), 0); });
        }
    }
    /** Steps of a program's call. */
    std::uint64_t steps(bool killed, const std::function<void()> &call)
    {
        std::uint64_t all = 0;
        run(a, [&] {
            if (killed)
                world.signal(*sim::World::current_task());
            sim::forget_steps();
            call();
            all = sim::all_steps();
        }, 100 * sim::kSecond);
        return all;
    }
    std::uint64_t dump_steps(bool killed)
    {
        return steps(killed, [&] {
            EXPECT_TRUE(sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
                return kcm_net_report_connection(host.net(a.initial_net()), place, report);
            }).empty());
        });
    }
    std::uint64_t totals_steps(bool killed)
    {
        return steps(killed, [&] {
            kcm_totals all{};
            kcm_net_totals(host.net(a.initial_net()), &all);
        });
    }
    /** Rows of /proc/net/kcm that are shown to a program, which is killed at this one. */
    unsigned shown_until_killed(unsigned at)
    {
        struct Shown {
            unsigned rows, killed_at;
            int add()
            {
                if (++rows == killed_at)
                    sim::World::current()->signal(*sim::World::current_task());
                return 0;
            }
        } shown{0, at};
        static constexpr kcm_rows rows = {
            .mux = [](void *context, const kcm_mux_row *) { return static_cast<Shown *>(context)->add(); },
            .socket = [](void *context, const kcm_socket_row *) { return static_cast<Shown *>(context)->add(); },
            .connection = [](void *context, const kcm_connection_row *) { return static_cast<Shown *>(context)->add(); },
        };
        run(a, [&] { kcm_net_show(host.net(a.initial_net()), &rows, &shown); }, 100 * sim::kSecond);
        return shown.rows;
    }
};

TEST_F(KcmKilled, walk_along_multiplexors__ends)
{
    open_many();
    EXPECT_GE(dump_steps(false), kMany);
    EXPECT_LE(dump_steps(true), kFew);
    EXPECT_GE(totals_steps(false), kMany);
    EXPECT_LE(totals_steps(true), kFew);
    EXPECT_EQ(shown_until_killed(0), 2 * kMany);
    EXPECT_LE(shown_until_killed(10), 10 + kFew);
}

TEST_F(KcmKilled, walk_along_sockets_of_one__ends)
{
    KcmSocket &first = new_socket();
    run(a, [&] { ASSERT_EQ(first.open(), 0); });
    for (unsigned i = 1; i < kMany; i++) {
        KcmSocket &clone = new_socket();
        run(a, [&] { ASSERT_EQ(clone.open_as_clone(first), 0); });
    }
    EXPECT_EQ(shown_until_killed(0), 1 + kMany);
    EXPECT_LE(shown_until_killed(10), 10 + kFew);
}

} // namespace
