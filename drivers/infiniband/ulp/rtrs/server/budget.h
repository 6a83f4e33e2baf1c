// SPDX-License-Identifier: GPL-2.0
// How much memory the peers of all sessions make the host hold: chunks, regions, queues, large messages.
#pragma once

#include "lock_order.h"

#include <hawser/lock.h>
#include <hawser/result.h>

namespace rtrs_srv {

using namespace hw;

class Budget : Pinned {
public:
    explicit Budget(u64 bytes) : limit_(bytes) {}

    // Any context. Fails with ENOMEM: the limit would be exceeded.
    Result<> take(u64 bytes)
    {
        bool fits = used_.with([&](u64& used) {
            if (bytes > limit_ - used)
                return false;
            used += bytes;
            return true;
        });
        return fits ? Result<>() : fail(KAPI_ENOMEM);
    }
    void give(u64 bytes)
    {
        used_.with([&](u64& used) { used -= bytes; });
    }

private:
    const u64 limit_;
    Guarded<u64, BudgetLock> used_;
};

// Bytes of a budget, which go back to it.
class Share {
public:
    Share() = default;
    static Result<Share> of(Budget& budget, u64 bytes)
    {
        TRY(budget.take(bytes));
        Share share;
        share.budget_ = &budget;
        share.bytes_ = bytes;
        return share;
    }
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept
    {
        std::swap(budget_, other.budget_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Share()
    {
        if (budget_)
            budget_->give(bytes_);
    }
    // The memory stays for ever, and counted.
    void leak() { budget_ = nullptr; }

private:
    Budget* budget_ = nullptr;
    u64 bytes_ = 0;
};

} // namespace rtrs_srv
