// SPDX-License-Identifier: GPL-2.0
// What a machine's programs have open. Its programs share one table.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

struct kapi_filter;

namespace sim {

struct ProgramSocket;
using ProgramSocketRef = std::shared_ptr<ProgramSocket>;

/** The object of a descriptor; neither is set: no socket. */
struct Descriptor {
    ProgramSocketRef socket;
    kapi_filter *filter = nullptr; // a reference
};

class Descriptors {
public:
    int open(Descriptor descriptor);
    /** Null when fd is not open. */
    const Descriptor *find(int fd) const;
    Descriptor take(int fd);
    std::size_t size() const { return open_.size(); }
    void forget() { open_.clear(); }

private:
    static constexpr int kFirst = 3;
    std::map<int, Descriptor> open_;
};

} // namespace sim
