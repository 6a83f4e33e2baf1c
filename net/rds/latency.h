// SPDX-License-Identifier: GPL-2.0
// How long a path's messages wait for their acknowledgement, from when they are queued: a histogram.
//
// Every seventh message is timed, from the first on, unless another one is at that moment. To time each would need room for its
// time in each, and two looks at the clock, which are 0.7 % of a round trip of a small message. Seven, so that programs with
// messages of two or four kinds in turn have all of them timed. When all stand still, so does the one that is timed. Over
// loopback nothing is acknowledged, and no time ends.
#pragma once

#include <hawser/base.h>
#include <kapi/host.h>
#include <uapi/hawser_netlink.h>

namespace rds {

using namespace hw;

// Of one queue, under its lock.
class Latency {
public:
    static constexpr unsigned buckets = HAWSER_RDS_LATENCY_BUCKETS, every = 7;
    // Messages that took less than 1 us; less than 2; 4, and so on; the last one has all that took longer.
    struct Counts {
        u64 messages[buckets];
    };

    // The message with this number, from 1 on, was queued.
    void queued(u64 number)
    {
        if (timed_ || number % every != 1)
            return;
        timed_ = number;
        since_ns_ = kapi_now_ns();
    }
    // The message with this number was acknowledged, as all before it were that are still queued.
    void acked(u64 number)
    {
        if (!timed_ || number < timed_)
            return;
        if (number == timed_)
            add(kapi_now_ns() - since_ns_);
        timed_ = 0; // or it was cancelled, given up, or moved to another path
    }
    void add(u64 ns) { counts_.messages[bucket_of(ns)]++; }
    const Counts& counts() const { return counts_; }

private:
    static unsigned bucket_of(u64 ns)
    {
        u64 us = ns / 1000;
        unsigned bits = us ? 64 - static_cast<unsigned>(__builtin_clzll(us)) : 0;
        return bits < buckets ? bits : buckets - 1;
    }

    u64 timed_ = 0; // its number, 0: none is
    u64 since_ns_ = 0;
    Counts counts_{};
};

} // namespace rds
