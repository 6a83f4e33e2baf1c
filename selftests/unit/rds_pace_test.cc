// SPDX-License-Identifier: GPL-2.0
// What goes over all connections of a namespace pauses in proportion to what it has looked at. No cgroup pays for works, and any
// user can be the administrator of a namespace, with any settings, or have a program that changes something all the time.
#include "rds_test.h"

#include <ostream>
#include <string>
#include <vector>

#include "net/rds/connection.h"

namespace {

constexpr unsigned kMany = 4000, kMilliseconds = 1000;

struct Namespace {
    rds::Net &net;
    rds_tcp_net *tcp;
    std::vector<rds::Ref<rds::Connection>> connections; // in use

    void make_connection(rds_transport_type type)
    {
        std::size_t number = connections.size();
        std::string peer = type == RDS_TRANSPORT_LOOP ? "127.1." : "10.7.";
        peer += std::to_string(number / 250) + "." + std::to_string(number % 250 + 1);
        const rds_transport *transport = rds::Module::get().transport(type);
        rds::Endpoint remote{rds::Ip::from(sim::address(peer.c_str()).ip), 0, 0};
        auto made = net.connections.get(net, *transport, own(), remote, 0, 0, rds::Alloc::charged);
        rds::Module::drop_transport(transport);
        ASSERT_TRUE(made);
        connections.push_back(*made);
    }
    static rds::Endpoint own() { return {rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0}; }
};

void use_connections(Namespace &, unsigned) {}

void use_a_full_table(Namespace &in, unsigned)
{
    in.net.connections.limit = kMany * 11 / 4; // so that unused connections end early, and there is room for some more
    in.make_connection(RDS_TRANSPORT_TCP);
}

void change_own_map(Namespace &in, unsigned step)
{
    auto map = in.net.own_maps.find(Namespace::own());
    ASSERT_TRUE(map);
    EXPECT_TRUE(map->set(1, step % 2 == 0));
}

void write_same_buffers(Namespace &in, unsigned) { rds_tcp_net_sysctl_changed(in.tcp); }

void write_other_buffers(Namespace &in, unsigned step)
{
    rds_tcp_net_sysctl(in.tcp)->rds_tcp_sndbuf = static_cast<int>(5000 + step % 2);
    rds_tcp_net_sysctl_changed(in.tcp);
}

void write_other_time(Namespace &in, unsigned step)
{
    rds_tcp_net_sysctl(in.tcp)->rds_tcp_dead_peer_ms = 1000 + step;
    rds_tcp_net_sysctl_changed(in.tcp);
}

void keep_a_message_waiting(Namespace &in, unsigned step)
{
    if (step == 0) {
        EXPECT_TRUE(in.net.peers_memory.take_partial(1000));
        in.net.peers_memory.note_waiting(0, 1000);
    } else if (step + 1 == kMilliseconds) {
        in.net.peers_memory.note_waiting(1000, 0);
        in.net.peers_memory.give_partial(1000);
    }
}

struct Row {
    const char *name;
    rds_transport_type type; // of the connections
    unsigned idle_ms;        // the setting
    void (*each_millisecond)(Namespace &in, unsigned step);
    unsigned most_works;

    friend std::ostream &operator<<(std::ostream &out, const Row &row) { return out << row.name; }
};

constexpr unsigned kFew = 10, kShort = 1, kLong = 600'000;
constexpr Row kRows[] = {
    {"collector", RDS_TRANSPORT_TCP, kShort, use_connections, kMany / 4},
    {"collector_that_is_hurried", RDS_TRANSPORT_TCP, kShort, use_a_full_table, kMany / 4},
    {"own_map_of_peers_that_are_down", RDS_TRANSPORT_TCP, kLong, change_own_map, 2 * kMany},
    {"own_map_without_peers", RDS_TRANSPORT_LOOP, kLong, change_own_map, kFew},
    {"same_buffers", RDS_TRANSPORT_TCP, kLong, write_same_buffers, kMany / 8},
    {"other_buffers", RDS_TRANSPORT_TCP, kLong, write_other_buffers, kMany},
    {"other_time_of_dead_peers", RDS_TRANSPORT_TCP, kLong, write_other_time, kMany / 8},
    {"messages_that_do_not_go_on", RDS_TRANSPORT_TCP, kLong, keep_a_message_waiting, kMany},
};

class Pace : public RdsTest, public ::testing::WithParamInterface<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, Pace, ::testing::ValuesIn(kRows), [](const auto &row) { return row.param.name; });

TEST_P(Pace, is_in_proportion)
{
    run(a, [&] {
        Namespace in{*reinterpret_cast<rds::Net *>(host_a.net().rds), host_a.net().tcp, {}};
        in.net.sysctl.idle_connection_ms = GetParam().idle_ms;
        for (unsigned i = 0; i < kMany; i++)
            in.make_connection(GetParam().type);
        world.sleep(100 * sim::kMillisecond);
        std::uint64_t before = a.works_run;
        for (unsigned step = 0; step < kMilliseconds; step++) {
            GetParam().each_millisecond(in, step);
            world.sleep(sim::kMillisecond);
        }
        EXPECT_LE(a.works_run - before, GetParam().most_works);
    }, 100 * sim::kSecond);
}

} // namespace
