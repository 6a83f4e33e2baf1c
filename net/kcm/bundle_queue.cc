// SPDX-License-Identifier: GPL-2.0
#include "bundle_queue.h"

#include <hawser/steps.h>
#include <kapi/host.h>

#include <utility>

namespace kcm {

Bundle* BundleQueue::front() const
{
    if (!first_ || !top_)
        return first_ ? first_ : top_;
    return first_->arrival < top_->arrival ? first_ : top_;
}

// The heap of two heaps. Goes down the right side of both at once, then mends the ranks (the length of the way to the right)
// on its way back.
Bundle* BundleQueue::meld(Bundle* a, Bundle* b)
{
    constexpr unsigned deepest = 64; // two ways of log2(2^32)
    Bundle* way[deepest];
    unsigned depth = 0;
    while (a && b) {
        HW_STEP();
        if (b->arrival < a->arrival)
            std::swap(a, b);
        HW_ASSERT(depth < deepest);
        way[depth++] = a;
        a = a->right_;
    }
    Bundle* heap = a ? a : b;
    while (depth) {
        Bundle* node = way[--depth];
        node->right_ = heap;
        if (rank(node->left_) < rank(node->right_))
            std::swap(node->left_, node->right_);
        node->rank_ = rank(node->right_) + 1;
        heap = node;
    }
    return heap;
}

void BundleQueue::insert(Ref<Bundle> bundle)
{
    Bundle* b = bundle.leak();
    HW_STEP();
    b->rank_ = 1; // without children
    if (first_ && b->arrival < last_->arrival) {
        top_ = meld(top_, b);
        return;
    }
    if (first_)
        last_->left_ = b;
    else
        first_ = b;
    last_ = b;
}

Ref<Bundle> BundleQueue::pop_front()
{
    HW_STEP();
    Bundle* b = front();
    if (!b)
        return nullptr;
    if (b == first_) {
        first_ = b->left_;
        if (!first_)
            last_ = nullptr;
    } else {
        top_ = meld(b->left_, b->right_);
    }
    b->left_ = b->right_ = nullptr;
    return Ref<Bundle>::adopt(b);
}

void BundleQueue::take_all(BundleQueue& other)
{
    top_ = meld(top_, std::exchange(other.top_, nullptr));
    top_ = meld(top_, std::exchange(other.first_, nullptr));
    other.last_ = nullptr;
}

void BundleQueue::clear()
{
    while (pop_front())
        kapi_resched(); // there may be millions
}

} // namespace kcm
