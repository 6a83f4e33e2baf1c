// SPDX-License-Identifier: GPL-2.0
// Shared state of one run of KCM.
#pragma once

#include <functional>
#include <string>

#include "kcm_ledger.h"
#include "kcm_profile.h"
#include "profile.h"

struct KcmCourse {
    explicit KcmCourse(std::uint64_t seed) : world(seed), profile(world.random()) {}

    /** Prints what each task waits for, then fails the run. */
    [[noreturn]] void fail(const std::string &why);
    /** Runs body as a task of a machine, to its end. */
    void in_task(sim::Node &node, const char *name, std::function<void()> body);
    /** Of a message. */
    std::size_t size();
    /** Messages of each sender during faults; more follow afterwards. */
    unsigned wanted() const { return profile.messages + (calm ? kCalmMessages : 0); }
    bool may_break() const { return over || profile.may_break(); }

    static constexpr unsigned kCalmMessages = 5;
    static constexpr std::uint64_t kSettleNs = 60 * sim::kSecond; // without faults everything arrives within this time
    static constexpr kapi_u16 kPort = 7000;

    sim::World world;
    const KcmProfile profile;
    KcmLedger ledger;
    std::uint32_t next_sender = 1;
    std::uint64_t next_place = 1;
    bool still = false; // connections are no longer unattached for a while
    bool calm = false; // no fault begins any more
    bool over = false; // connections end
    Outcome outcome{};
};
