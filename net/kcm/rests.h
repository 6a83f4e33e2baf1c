// SPDX-License-Identifier: GPL-2.0
// What readers left of messages, or could not copy: parts, which stay at the socket that has read the beginning.
//
// There is one as a rule. There are more when copies fail while other threads read on behind them. A program could make any
// number of them out of one message, each time that a reader leaves a part of a part. So when there are some, a reader takes a
// part as a whole, and brings back what it has not read: there are never more than those some, and the threads that read at once.
#pragma once

#include "bundle.h"

#include <hawser/memory.h>

namespace kcm {

using namespace hw;

class Psock;

// A message that a reader has taken, or a part of it, or several whole ones of a bundle.
struct Taken {
    Ref<Bundle> bundle;
    unsigned index = 0, count = 1; // of messages
    Bundle::Entry entry{};
    Ref<Psock> resume; // may continue to read: there is room

    u32 end() const { return bundle->entry(index + count - 1).end(); }
    bool is_whole() const { return entry.length == end() - bundle->entry(index).start; }
    bool has_the_end() const { return entry.end() == end(); }
    u64 marks() const { return ((2ull << (count - 1)) - 1) << index; } // in Bundle::unread
};

// Under the distributor's lock.
class Rests : Pinned {
public:
    struct Rest {
        Taken part;
        Rest* next = nullptr;
    };
    Rests() = default;
    ~Rests() { HW_ASSERT(empty()); }

    bool empty() const { return !first_; }
    // What is read next, or null.
    const Taken* front() const { return first_ ? &first_->part : nullptr; }
    // That, or its first bytes when there is no room for more, unless there are many.
    Taken take(u32 room);
    // The reader has no room for more of a message that is whole; there are no rests yet.
    void split(Taken& taken, u32 room);
    // Brings a part back to its place; what adjoins is one. spare: memory that it may need; null: there was none, and a part that
    // adjoins no other may be lost. True: part is the whole message now, and not kept here.
    bool insert(Taken& part, Own<Rest>& spare);

private:
    static constexpr unsigned many = 4; // rests, of which none is split any more

    void unlink(Rest*& link, Own<Rest>& spare);

    Rest* first_ = nullptr; // in the order in which they arrived
    unsigned count_ = 0;
    Rest own_;              // one of them, when it has a bundle: a reader that leaves a rest needs no memory
};

} // namespace kcm
