// SPDX-License-Identifier: GPL-2.0
// Bundles in the order in which they arrived at the multiplexor.
//
// Bundles come in two ways: new ones, which belong at the end, and ones that move here from another queue and belong
// somewhere in between. There may be a million of those, and all happens under a lock with bottom halves off, so no
// operation may walk along the queue. New bundles form a chain; the others form a leftist heap: the oldest is at the
// top, and the way to the right from any node has at most log2(size) nodes. The oldest bundle of the queue is the first
// of the chain or the top of the heap. A chain is a leftist heap, too: each node has only a left child. So a queue takes
// in another one as a whole, at the cost of one insertion.
#pragma once

#include "bundle.h"

namespace kcm {

// Each member holds a reference.
class BundleQueue : Pinned {
public:
    BundleQueue() = default;
    ~BundleQueue() { HW_ASSERT(empty()); }

    bool empty() const { return !first_ && !top_; }
    // The oldest one, or null.
    Bundle* front() const;
    Ref<Bundle> pop_front();
    // At its place by arrival. One step when it is the newest, else some 2 log2(size).
    void insert(Ref<Bundle> bundle);
    // Takes everything that other has, each at its place by arrival. Some 4 log2(size) steps.
    void take_all(BundleQueue& other);
    // Drops every member. Without locks: the last references may go. Sleeps.
    void clear();

private:
    static u32 rank(const Bundle* node) { return node ? node->rank_ : 0; }
    static Bundle* meld(Bundle* a, Bundle* b);

    // Chain: Bundle::left_ is the next one.
    Bundle* first_ = nullptr;
    Bundle* last_ = nullptr;
    Bundle* top_ = nullptr; // heap
};

} // namespace kcm
