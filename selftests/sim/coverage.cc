// SPDX-License-Identifier: GPL-2.0
#include "coverage.h"

#include "net/rds/path.h"

namespace {

std::string name_of(rds::PathState from, rds::PathEvent event)
{
    static const char *const kStates[] = {"down", "connecting", "up", "closing"};
    static const char *const kEvents[] = {"connect", "establish", "adopt", "lose", "closed"};
    return std::string("path ") + kStates[static_cast<int>(from)] + " " + kEvents[static_cast<int>(event)];
}

} // namespace

std::map<std::string, unsigned long> &transitions_taken()
{
    static std::map<std::string, unsigned long> counts = [] {
        std::map<std::string, unsigned long> all;
        for (const auto &row : rds::PathRules::table)
            all[name_of(row.from, row.event)] = 0;
        return all;
    }();
    return counts;
}

void rds::PathRules::taken(PathState from, PathEvent event)
{
    transitions_taken()[name_of(from, event)]++;
}
