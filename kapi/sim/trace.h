// SPDX-License-Identifier: GPL-2.0
// What happened, in order: a hash over all of it (two runs of a seed must agree) and the last events for the reader.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

namespace sim {

class Trace {
public:
    struct Event {
        std::uint64_t time_ns;
        std::uint32_t task;
        const char *what; // a string literal
        std::uint64_t a, b;
    };

    explicit Trace(bool live) : live_(live) {}

    void add(const Event &event);
    /** A line of text: kept like an event, its bytes hashed. */
    void text(std::uint64_t time_ns, std::uint32_t task, const char *line);
    std::uint64_t hash() const { return hash_; }
    std::uint64_t count() const { return count_; }
    void print_last(std::FILE *out, std::size_t count) const;

private:
    static constexpr std::size_t kKept = 4096;
    struct Kept {
        Event event;
        char line[112];
    };

    void mix(std::uint64_t value);
    Kept &slot();
    static void print(std::FILE *out, const Kept &kept);

    std::vector<Kept> kept_ = std::vector<Kept>(kKept);
    std::uint64_t hash_ = 0xcbf29ce484222325ULL;
    std::uint64_t count_ = 0;
    bool live_;
};

} // namespace sim
