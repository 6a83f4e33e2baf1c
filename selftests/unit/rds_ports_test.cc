// SPDX-License-Identifier: GPL-2.0
// Which local ports streams have: the number modulo eight is that of the path, which peers rely on, as far as the ports that
// the administrator allows permit.
#include "rds_peer_test.h"

#include <algorithm>
#include <vector>

namespace {

class Ports : public Connecting {
protected:
    /** The ports of the first path's stream: each is reset, and another one comes. */
    std::vector<kapi_u16> first_ports(unsigned count)
    {
        std::vector<kapi_u16> ports;
        run(b, [&] {
            while (ports.size() < count) {
                kapi_stream *stream = nullptr;
                std::uint64_t end = world.now_ns() + 20 * sim::kSecond;
                while (kapi_accept(listener, &stream) && world.now_ns() < end)
                    world.sleep(sim::kMillisecond);
                if (!stream)
                    break;
                kapi_addr local, remote;
                kapi_stream_addrs(stream, &local, &remote);
                ports.push_back(remote.port);
                kapi_stream_close(stream, 1);
            }
        });
        EXPECT_EQ(ports.size(), count);
        std::sort(ports.begin(), ports.end());
        return ports;
    }
    void allow(kapi_u16 low, kapi_u16 high) { a.initial_net().port_low = low, a.initial_net().port_high = high; }
};

TEST_F(Ports, all_groups_that_are_whole__are_used_in_turn)
{
    allow(40001, 40030); // two of them
    EXPECT_EQ(first_ports(4), (std::vector<kapi_u16>{40008, 40008, 40016, 40016}));
}

TEST_F(Ports, range_of_one_group__is_used)
{
    allow(40000, 40007);
    EXPECT_EQ(first_ports(2), (std::vector<kapi_u16>{40000, 40000}));
}

TEST_F(Ports, last_group_of_all__is_used)
{
    allow(65528, 65535);
    EXPECT_EQ(first_ports(1), std::vector<kapi_u16>{65528});
}

TEST_F(Ports, range_without_a_whole_group__any_of_its_ports_is_used)
{
    allow(40001, 40006); // also without the first port of a group
    for (kapi_u16 port : first_ports(8))
        EXPECT_TRUE(port >= 40001 && port <= 40006) << port;
}

TEST_F(Ports, range_that_two_groups_have_in_part__any_of_its_ports_is_used)
{
    allow(40001, 40014);
    for (kapi_u16 port : first_ports(8))
        EXPECT_TRUE(port >= 40001 && port <= 40014) << port;
}

TEST_F(Ports, reserved_ones__are_left_to_whom_they_are_reserved_for)
{
    allow(40000, 40031);
    a.initial_net().reserved_low = 40008, a.initial_net().reserved_high = 40023;
    EXPECT_EQ(first_ports(4), (std::vector<kapi_u16>{40000, 40000, 40024, 40024}));
}

TEST_F(Ports, reserved_ones_in_each_group__any_other_is_used)
{
    allow(40000, 40008);
    a.initial_net().reserved_low = a.initial_net().reserved_high = 40000;
    for (kapi_u16 port : first_ports(4))
        EXPECT_TRUE(port >= 40000 && port <= 40008) << port;
}

} // namespace
