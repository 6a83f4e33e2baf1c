// SPDX-License-Identifier: GPL-2.0
// When the last path is lost, the server's user ends all that the client's session had there, and begins anew with the next path,
// as RNBD does. Nothing that was asked for before reaches what is there afterwards: its numbers mean something else then.
#include "rtrs_pair_test.h"

namespace {

/** A message is the number of the session that it is meant for. "open" reads the present one. */
struct Numbering {
    sim::World &world;
    sim::Node &node;
    unsigned number = 0;
    unsigned taken = 0, strange = 0; // requests: all, and those that were meant for another session
    int priv = 0;

    static int rdma_ev(void *user, void *, rtrs_srv_op *op, void *data, kapi_size size, const void *usr, kapi_size usr_size)
    {
        auto &self = *static_cast<Numbering *>(user);
        std::string message{static_cast<const char *>(usr), usr_size};
        if (message == "open") {
            EXPECT_EQ(size, sizeof(number));
            std::memcpy(data, &self.number, sizeof(number));
            rtrs_srv_core_resp(op, 0);
            return 0;
        }
        self.taken++;
        self.strange += message != std::to_string(self.number);
        self.world.spawn(self.node, "disk", [&self, op] {
            self.world.sleep(self.world.random().below(20 * sim::kMillisecond));
            rtrs_srv_core_resp(op, 0);
        });
        return 0;
    }
    static int link_ev(void *user, rtrs_srv_sess *session, rtrs_srv_core_event event, void *)
    {
        auto &self = *static_cast<Numbering *>(user);
        self.number++; // also when it ends
        if (event == RTRS_SRV_CORE_CONNECTED)
            rtrs_srv_core_set_priv(session, &self.priv);
        return 0;
    }
    static constexpr rtrs_srv_core_ops ops{rdma_ev, link_ev};
};

class RtrsRenewed : public RtrsPairTest {
protected:
    ~RtrsRenewed() override { end(); }
    /** Programs make requests for the session that they know of. */
    void start(unsigned paths, unsigned count = 6)
    {
        load();
        start_server({65536, 16, true}, Numbering::ops, &numbers);
        when_told = [this](int up) {
            known = 0;
            if (up)
                ask();
        };
        open(paths);
        run(a, [&] { ask(); });
        EXPECT_NE(known, 0u);
        EXPECT_EQ(put(root + "no_path_timeout_ms", "5000"), 0);
        for (unsigned n = 0; n < count; n++)
            programs.push_back(world.spawn(a, "program", [this] {
                while (!stop)
                    make_request();
            }));
    }
    void ask()
    {
        std::string got(sizeof(known), '\0');
        if (call(true, "open", got) == 0)
            std::memcpy(&known, got.data(), sizeof(known));
    }
    void make_request()
    {
        Ended ended;
        ended.data = contents(2000, 1);
        rtrs_clt_chunk *permit = rtrs_clt_core_get_permit(session, 0, 1);
        bool begun = permit && known && begin(permit, ended, false, std::to_string(known)) == 0;
        while (begun && !ended.done)
            world.sleep(100 * sim::kMicrosecond);
        if (permit) // else its session was over while it waited
            rtrs_clt_core_put_permit(session, permit);
        world.sleep(world.random().below(20 * sim::kMillisecond));
    }
    /** From either side. */
    void lose(unsigned nth)
    {
        bool by_server = world.random().one_in(2);
        std::string file = by_server ? "/sys/class/rtrs-server/session/paths/" + path_name(nth) + "/disconnect"
                                     : path(nth) + "reconnect";
        world.spawn(by_server ? b : a, "administrator", [file] { sim::sysfs_write(file, "1"); });
    }
    void finish()
    {
        world.run_for(8 * kSecond);
        stop = true;
        EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(programs, [](auto &task) { return task->is_done(); }); },
                                    60 * kSecond));
        EXPECT_EQ(known, numbers.number) << "the session that there is was reported to the user";
        EXPECT_EQ(numbers.strange, 0u);
    }

    Numbering numbers{world, b};
    unsigned known = 0; // the session's number, or 0
    bool stop = false;
    std::vector<sim::TaskRef> programs;
};

TEST_P(RtrsRenewed, no_request_goes_to_the_next_session_of_one_path)
{
    start(1);
    for (unsigned round = 0; round < 5; round++) {
        unsigned taken = numbers.taken;
        lose(0);
        world.run_for(2 * kSecond);
        EXPECT_GT(numbers.taken, taken);
        EXPECT_GE(numbers.number, 2 * round + 3) << "a new one each time";
    }
    finish();
}

TEST_P(RtrsRenewed, nor_of_two_which_are_lost_one_after_the_other)
{
    start(2);
    for (unsigned round = 0; round < 40; round++) {
        lose(round % 2);
        world.run_for(world.random().below(300 * sim::kMillisecond));
        lose(1 - round % 2);
        world.run_for(world.random().below(kSecond));
    }
    EXPECT_GT(numbers.number, 5u);
    finish();
}

/** The other path has asked for a session before this one came up, and comes up when the server alone has lost this one. */
TEST_P(RtrsRenewed, nor_when_the_other_path_asked_for_a_session_before)
{
    start(2, 0);
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "5000"), 0);
    for (unsigned nth : {0u, 1u})
        EXPECT_EQ(put(path(nth) + "disconnect", "1"), 0);
    world.network().link(a, b).delay_ns = 4 * kSecond;
    auto late = world.spawn(a, "reconnect", [this] { sim::sysfs_write(path(1) + "reconnect", "1"); });
    world.run_for(800 * sim::kMillisecond); // it has asked
    world.network().link(a, b).delay_ns = 50 * sim::kMicrosecond;
    auto begun = world.now_ns();
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    ASSERT_LT(world.now_ns() - begun, 3 * kSecond);
    world.run_for(100 * sim::kMillisecond);
    ASSERT_EQ(links, (std::vector<int>{0, 1}));
    unsigned number = numbers.number;
    EXPECT_EQ(known, number);
    cut(true);
    run(b, [&] { sim::sysfs_write("/sys/class/rtrs-server/session/paths/" + path_name(0) + "/disconnect", "1"); });
    ASSERT_TRUE(world.run_until([&] { return numbers.number == number + 1; }, 100 * sim::kMillisecond));
    cut(false);
    EXPECT_TRUE(world.run_until([&] { return numbers.number > number + 1; }, 5 * kSecond)) << "a new one";
    EXPECT_TRUE(world.run_until([&] { return late->is_done(); }, 30 * kSecond));
    finish();
}

/** The server has ended the session by the time that it has taken the new path, and the client notices that meanwhile. */
TEST_P(RtrsRenewed, a_path_is_added_while_the_only_one_is_lost)
{
    start(1, 0);
    world.network().link(a, b).delay_ns = 100 * sim::kMillisecond;
    int error = 1;
    auto adds = world.spawn(a, "administrator", [&] { error = sim::sysfs_write(root + "add_path", path_name(1)); });
    world.run_for(250 * sim::kMillisecond); // it has asked for the first connection
    run(b, [&] { sim::sysfs_write("/sys/class/rtrs-server/session/paths/" + path_name(0) + "/disconnect", "1"); });
    EXPECT_TRUE(world.run_until([&] { return adds->is_done(); }, 30 * kSecond));
    EXPECT_EQ(error, 0);
    world.network().link(a, b).delay_ns = 50 * sim::kMicrosecond;
    finish();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsRenewed, ::testing::Range(1, 7));

} // namespace
