// SPDX-License-Identifier: GPL-2.0
#include "rtrs_profile.h"

RtrsProfile::RtrsProfile(sim::Random &random)
{
    constexpr std::size_t header = 4096; // of a chunk
    always_invalidate = !random.one_in(3);
    waits = random.one_in(3);
    one_path_lives = random.one_in(2);
    bool all = !one_path_lives;
    cuts = all && random.one_in(2);
    devices = random.one_in(2);
    disconnects = random.one_in(2);
    reloads = all && random.one_in(3);
    server_crashes = all && random.one_in(3);
    client_crashes = all && random.one_in(3);
    pauses = all && random.one_in(4);
    faults = static_cast<unsigned>(random.between(1, 8));
    fault_time_ns = faults * random.between(20, 700) * sim::kMillisecond;
    fail_one_in = all && random.one_in(4) ? random.between(3000, 30'000) : 0; // receives that are posted count
    programs = static_cast<unsigned>(random.between(1, 10));
    rounds = static_cast<unsigned>(random.between(5, 40));
    depth = static_cast<unsigned>(random.between(1, 16));
    chunk = random.one_in(2) ? 8192 : 65536;
    largest = random.one_in(3) ? chunk - header : 500;
    bio_ns = random.one_in(2) ? 100 * sim::kMicrosecond : random.between(1, 50) * sim::kMillisecond;
    holds = random.one_in(3);
    heartbeat_ms = random.one_in(2) ? 800 : static_cast<unsigned>(random.between(100, 800));
    slow_one_in = random.one_in(2) ? static_cast<unsigned>(random.between(5, 50)) : 0;
    whole_answers = random.one_in(2);
}

std::string RtrsProfile::describe() const
{
    auto number = [](const char *name, std::uint64_t value) { return std::string(", ") + name + " " + std::to_string(value); };
    return std::string("always_invalidate ") + (always_invalidate ? "Y" : "N") + number("programs", programs) +
           number("rounds", rounds) + number("depth", depth) + number("chunks of", chunk) +
           number("requests of at most", largest) + number("bios of ns", bio_ns) +
           number("slow one in", slow_one_in) + number("faults", faults) +
           number("within ns", fault_time_ns) + number("allocations fail one in", fail_one_in) + (waits ? ", waits" : "") +
           (one_path_lives ? ", one path lives" : "") + (cuts ? ", cuts" : "") + (devices ? ", devices" : "") +
           (disconnects ? ", disconnects" : "") + (reloads ? ", reloads" : "") + (server_crashes ? ", server crashes" : "") +
           (client_crashes ? ", client crashes" : "") + (pauses ? ", pauses" : "") + (holds ? ", holds" : "") +
           (whole_answers ? ", whole answers" : "") +
           number("heartbeats of ms", heartbeat_ms);
}
