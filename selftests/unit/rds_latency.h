// SPDX-License-Identifier: GPL-2.0
// How long messages of a connection waited for their acknowledgement, as programs read it over netlink.
#pragma once

#include <kapi/sim/report.h>
#include <uapi/hawser_netlink.h>

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

/** The numbers of messages in each bucket, of all paths. connection: of HAWSER_CMD_RDS_CONNECTION_GET. */
inline std::vector<std::uint64_t> latency_of(const sim::Report &connection)
{
    std::vector<std::uint64_t> sum(HAWSER_RDS_LATENCY_BUCKETS);
    for (const auto *path : sim::Report::all(connection.attributes, HAWSER_RDS_CONNECTION_PATH))
        for (const auto *array : sim::Report::all(path->nested, HAWSER_RDS_PATH_LATENCY)) {
            std::vector<std::uint64_t> numbers(array->bytes.size() / sizeof(std::uint64_t));
            std::memcpy(numbers.data(), array->bytes.data(), array->bytes.size());
            EXPECT_NE(numbers.back(), 0u) << "it ends with the last number that is not 0";
            for (std::size_t i = 0; i < numbers.size(); i++)
                sum.at(i) += numbers[i];
        }
    return sum;
}

inline std::uint64_t timed(const std::vector<std::uint64_t> &counts)
{
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}
