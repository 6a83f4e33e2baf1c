// SPDX-License-Identifier: GPL-2.0
// The RTRS server's folders and files below /sys/class.
#include "drivers/infiniband/ulp/rtrs/server/context.h"
#include "kapi/sim/sysfs.h"
#include "rtrs_srv_test.h"

#include <optional>

namespace {

class SrvSysfs : public SrvTest {
protected:
    static constexpr const char *kSession = "/sys/class/rtrs-server/session";

    static std::string path(const std::string &name = "")
    {
        return std::string(kSession) + "/paths/ip:10.0.0.1@ip:10.0.0.2" + name;
    }
    std::string text(const std::string &file)
    {
        std::string got;
        run(b, [&] { EXPECT_GE(sim::sysfs_read(file, got), 0) << file; });
        return got;
    }
    int put(const std::string &file, const std::string &value)
    {
        int err = 1;
        run(b, [&] { err = sim::sysfs_write(file, value); });
        return err;
    }
    std::vector<std::string> names(const std::string &folder)
    {
        std::vector<std::string> got;
        run(b, [&] { got = sim::sysfs_list(folder); });
        return got;
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvSysfs, ::testing::Range(1, 4));

TEST_P(SrvSysfs, folders_come_and_go_with_paths)
{
    load(true);
    EXPECT_TRUE(names("/sys/class/rtrs-server").empty());
    connect(first);
    EXPECT_TRUE(names("/sys/class/rtrs-server").empty()) << "it has no name yet";
    exchange(first);
    EXPECT_EQ(names("/sys/class/rtrs-server"), std::vector<std::string>{"session"});
    establish(second, 1, 2);
    using Names = std::vector<std::string>;
    EXPECT_EQ(names(std::string(kSession) + "/paths"), (Names{"ip:10.0.0.1@ip:10.0.0.2", "ip:10.0.1.1@ip:10.0.1.2"}));
    EXPECT_EQ(names(path()), (Names{"disconnect", "dst_addr", "hca_name", "hca_port", "src_addr", "stats"}));
    EXPECT_EQ(names(path("/stats")), (Names{"rdma", "reset_all", "wc_completion"}));
    drop(first);
    EXPECT_TRUE(wait([&] { return names(std::string(kSession) + "/paths") == Names{"ip:10.0.1.1@ip:10.0.1.2"}; }));
    drop(second);
    EXPECT_TRUE(wait([&] { return names("/sys/class/rtrs-server").empty(); }));
    establish(first, 1, 3);
    EXPECT_EQ(names("/sys/class/rtrs-server"), Names{"session"});
}

/** A second namespace of b has a server, with which a third client's path makes a session of the given name. */
class SrvSysfsOfTwo : public SrvSysfs {
protected:
    using Names = std::vector<std::string>;

    void serve_second(const std::string &name)
    {
        kapi_net &inside = b.add_net();
        inside.add(sim::address("10.0.2.2"), 2);
        sim::plug_rdma(inside, "rxe_n", 2);
        load(true);
        other.world = &world;
        run(b, [&] { ASSERT_EQ(rtrs_srv_core_open(&inside, &SrvUser::ops, &other, kPort, &served), 0); });
        connect(first);
        exchange(first, name);
        third.emplace(a, "10.0.0.1", "10.0.2.2");
        connect(*third, 2, 3, 102);
        exchange(*third, name);
    }
    void stop_second()
    {
        drop(*third);
        third.reset();
        run(b, [&] { rtrs_srv_core_close(served); }, 200 * sim::kSecond);
    }

    SrvUser other;
    rtrs_srv_core *served = nullptr;
    std::optional<SrvPath> third;
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvSysfsOfTwo, ::testing::Range(1, 4));

/** Each client says the name, and does not know of the other. */
TEST_P(SrvSysfsOfTwo, sessions_of_one_name_have_a_folder_each)
{
    serve_second("session");
    EXPECT_EQ(names("/sys/class/rtrs-server"), (Names{"session", "session#2"}));
    EXPECT_EQ(names("/sys/class/rtrs-server/session#2/paths"), Names{"ip:10.0.0.1@ip:10.0.2.2"});
    EXPECT_EQ(names(std::string(kSession) + "/paths"), Names{"ip:10.0.0.1@ip:10.0.0.2"});
    drop(first);
    EXPECT_TRUE(wait([&] { return names("/sys/class/rtrs-server") == Names{"session#2"}; }));
    establish(first, 3, 4);
    EXPECT_EQ(names("/sys/class/rtrs-server"), (Names{"session", "session#2"}));
    stop_second();
}

TEST_P(SrvSysfsOfTwo, a_number_has_room_behind_the_longest_name)
{
    std::string longest(rtrs::max_name, 'n');
    serve_second(longest);
    EXPECT_EQ(names("/sys/class/rtrs-server"), (Names{longest.substr(0, 251) + "#2", longest}));
    stop_second();
}

TEST_P(SrvSysfs, values_of_a_path)
{
    load(true);
    establish(first);
    EXPECT_EQ(text(path("/hca_name")), "rxe_b\n");
    EXPECT_EQ(text(path("/hca_port")), "1\n");
    EXPECT_EQ(text(path("/src_addr")), "ip:10.0.0.1\n");
    EXPECT_EQ(text(path("/dst_addr")), "ip:10.0.0.2\n");
    EXPECT_EQ(text(path("/disconnect")), "Usage: echo 1 > disconnect\n");
    run(b, [&] { EXPECT_EQ(sim::sysfs_mode(path("/hca_name")), 0444u); });
    for (const char *value : {"0", "2", "x", "\n", "11"})
        EXPECT_EQ(put(path("/disconnect"), value), -KAPI_EINVAL);
    EXPECT_EQ(put(path("/disconnect"), "1\n"), 0);
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
}

TEST_P(SrvSysfs, statistics)
{
    load(true);
    establish(first);
    EXPECT_EQ(text(path("/stats/rdma")), "0 0 0 0 0\n");
    write(first, 1, 0, contents(1000, 1), "wx");
    EXPECT_EQ(answer(first, 0), 0);
    read(first, 1, 1, 500, "rx");
    EXPECT_EQ(answer(first, 1), 0);
    EXPECT_EQ(text(path("/stats/rdma")), "1 502 1 1002 0\n");
    user.keeps = true;
    write(first, 1, 0, contents(10, 1), "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 3; }));
    EXPECT_EQ(text(path("/stats/rdma")), "1 502 2 1014 1\n");
    EXPECT_EQ(put(path("/stats/reset_all"), "2"), -KAPI_EINVAL);
    EXPECT_EQ(put(path("/stats/reset_all"), "0"), 0);
    EXPECT_EQ(text(path("/stats/rdma")), "0 0 0 0 1\n") << "what is in flight stays";
    EXPECT_EQ(text(path("/stats/wc_completion")), "0 0 0\n");
    answer_call(2);
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_EQ(text(path("/stats/rdma")), "0 0 0 0 0\n");
    write(first, 1, 0, contents(10, 1), "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 4; }));
    EXPECT_NE(text(path("/stats/wc_completion")), "0 0 0\n");
    EXPECT_EQ(put(path("/stats/reset_all"), "1\n"), 0);
    EXPECT_EQ(text(path("/stats/reset_all")), "echo 1 to reset all statistics\n");
    answer_call(3);
}

/** The user does not get it. */
TEST_P(SrvSysfs, statistics_do_not_count_a_request_without_memory_for_its_message)
{
    load(true);
    establish(first);
    std::uint64_t taken = 0;
    auto take_all = [&] {
        for (std::uint64_t step = b.total_memory; step; step /= 2)
            taken += rtrs_srv::Module::get().budget.take(step) ? step : 0;
    };
    run(b, take_all);
    write(first, 1, 0, "data", "w" + std::string(600, 'x'));
    EXPECT_EQ(answer(first, 0), KAPI_ENOMEM);
    EXPECT_TRUE(user.calls.empty());
    EXPECT_EQ(text(path("/stats/rdma")), "0 0 0 0 0\n");
    run(b, [&] { rtrs_srv::Module::get().budget.give(taken); });
}

TEST_P(SrvSysfs, heartbeats_are_settings_of_a_session)
{
    load(true);
    establish(first);
    std::string interval = std::string(kSession) + "/heartbeat_interval_ms", missed = std::string(kSession) + "/heartbeat_missed";
    EXPECT_EQ(text(interval), "800\n");
    EXPECT_EQ(text(missed), "4\n");
    for (const char *value : {"9", "3600001", "-1", "x", "\n"})
        EXPECT_EQ(put(interval, value), -KAPI_EINVAL);
    for (const char *value : {"0", "1001", "x"})
        EXPECT_EQ(put(missed, value), -KAPI_EINVAL);
    EXPECT_EQ(put(interval, "100\n"), 0);
    EXPECT_EQ(put(missed, "2\n"), 0);
    EXPECT_EQ(text(interval), "100\n");
    world.run_for(6 * sim::kSecond);
    EXPECT_EQ(user.links.size(), 1u);
    EXPECT_EQ(put(interval, "3600000\n"), 0);
    world.run_for(sim::kSecond);
    EXPECT_EQ(put(interval, "100\n"), 0) << "holds at once";
    first.answers_heartbeats = false;
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }, sim::kSecond));
}

} // namespace
