// SPDX-License-Identifier: GPL-2.0
// The settings of RDS: names, defaults and ranges as in the table "Settings" of Documentation/networking/rds.rst.
#include "rds_test.h"

#include <cstring>
#include <map>
#include <string>

#include "net/rds/glue/rds_core.h"
#include "net/rds/tcp/glue/rds_tcp_core.h"

namespace {

struct Setting {
    unsigned long initial, min, max;
    bool operator==(const Setting &) const = default;
};
std::ostream &operator<<(std::ostream &out, const Setting &setting)
{
    return out << setting.initial << " in " << setting.min << ".." << setting.max;
}
using Settings = std::map<std::string, Setting>;

unsigned long read(const void *values, unsigned offset, unsigned size)
{
    unsigned long value = 0; // little endian
    std::memcpy(&value, static_cast<const char *>(values) + offset, size);
    return value;
}

class SettingsTest : public RdsTest {};

TEST_F(SettingsTest, of_rds__are_those_of_the_documentation)
{
    Settings found;
    const void *values = rds_net_sysctl(host_a.net().rds);
    auto bound = [&](int row, unsigned long fixed) {
        return row < 0 ? fixed : read(values, rds_sysctl_table[row].offset, rds_sysctl_table[row].size);
    };
    for (unsigned i = 0; i < rds_sysctl_rows; i++) {
        const rds_sysctl_row &row = rds_sysctl_table[i];
        found[row.name] = {read(values, row.offset, row.size), bound(row.min_is, row.min), bound(row.max_is, row.max)};
    }
    EXPECT_EQ(found, (Settings{{"reconnect_min_delay_ms", {4, 1, 1000}},
                               {"reconnect_max_delay_ms", {1000, 4, 3600000}},
                               {"max_unacked_packets", {8, 0, 2147483647}},
                               {"max_unacked_bytes", {16777216, 0, 2147483647}},
                               {"ping_enable", {1, 0, 1}},
                               {"congestion_refresh_ms", {50, 10, 3600000}},
                               {"receive_limit_factor", {4, 2, 64}},
                               {"send_limit_max", {524288, 0, 1073741823}},
                               {"idle_connection_ms", {600000, 0, 86400000}}}));
}

TEST_F(SettingsTest, of_tcp__are_those_of_the_documentation)
{
    Settings found;
    const void *values = rds_tcp_net_sysctl(host_a.net().tcp);
    for (unsigned i = 0; i < rds_tcp_sysctl_rows; i++) {
        const rds_tcp_sysctl_row &row = rds_tcp_sysctl_table[i];
        found[row.name] = {read(values, row.offset, row.size), row.min, row.max};
    }
    EXPECT_EQ(found, (Settings{{"rds_tcp_sndbuf", {0, 4608, 0x3fffffff}},
                               {"rds_tcp_rcvbuf", {0, 2304, 0x3fffffff}},
                               {"rds_tcp_dead_peer_ms", {10000, 1000, 3600000}}}));
}

} // namespace
