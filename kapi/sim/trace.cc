// SPDX-License-Identifier: GPL-2.0
#include "trace.h"

#include <algorithm>
#include <cstring>

namespace sim {

void Trace::mix(std::uint64_t value)
{
    hash_ = (hash_ ^ value) * 0x100000001b3ULL;
    hash_ ^= hash_ >> 29;
}

Trace::Kept &Trace::slot()
{
    return kept_[count_++ % kKept];
}

void Trace::add(const Event &event)
{
    mix(event.time_ns);
    mix(event.task);
    for (const char *c = event.what; *c; c++)
        mix(static_cast<unsigned char>(*c));
    mix(event.a);
    mix(event.b);
    Kept &kept = slot();
    kept.event = event;
    kept.line[0] = '\0';
    if (live_)
        print(stderr, kept);
}

void Trace::text(std::uint64_t time_ns, std::uint32_t task, const char *line)
{
    mix(time_ns);
    for (const char *c = line; *c; c++)
        mix(static_cast<unsigned char>(*c));
    Kept &kept = slot();
    kept.event = {time_ns, task, "log", 0, 0};
    std::snprintf(kept.line, sizeof(kept.line), "%s", line);
    if (live_)
        print(stderr, kept);
}

void Trace::print(std::FILE *out, const Kept &kept)
{
    const Event &e = kept.event;
    std::fprintf(out, "%12.6f ms  task %-4u ", static_cast<double>(e.time_ns) / 1e6, e.task);
    if (kept.line[0])
        std::fprintf(out, "log: %s\n", kept.line);
    else
        std::fprintf(out, "%-22s %llu %llu\n", e.what, static_cast<unsigned long long>(e.a),
                     static_cast<unsigned long long>(e.b));
}

void Trace::print_last(std::FILE *out, std::size_t count) const
{
    std::uint64_t have = std::min<std::uint64_t>({count, count_, kKept});
    for (std::uint64_t i = count_ - have; i < count_; i++)
        print(out, kept_[i % kKept]);
}

} // namespace sim
