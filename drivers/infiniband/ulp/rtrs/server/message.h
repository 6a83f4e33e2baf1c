// SPDX-License-Identifier: GPL-2.0
// A user's message, as it was when its request began. The chunk is not enough: a client with several paths has a key for each,
// and would change the message over another path between the user's checks and its use. RNBD's server looks for "..", then
// builds the name of the disk; and it trusts that a name ends before its message does.
#pragma once

#include "../common/request.h"
#include "budget.h"

#include <hawser/memory.h>
#include <hawser/result.h>

namespace rtrs_srv {

using namespace hw;
using namespace rtrs;

class UserMessage {
public:
    // Sleeps if it is a large one. ENOMEM. Valid until the next copy or forget(); a few zeros follow it.
    Result<const u8*> copy(const u8* from, u32 bytes, Budget& budget)
    {
        u8* to = small_;
        if (bytes > small) {
            static_assert(most_user_bytes + zeros <= 4096, "more than a page may be freed by vfree(), which sleeps");
            Share share = TRY(Share::of(budget, bytes + zeros));
            to = static_cast<u8*>(kapi_alloc(bytes + zeros, KAPI_SLEEP));
            if (!to)
                return fail(KAPI_ENOMEM);
            large_.reset(to);
            share_ = std::move(share);
        }
        kapi_copy(to, from, bytes);
        kapi_fill(to + bytes, 0, zeros);
        return to;
    }
    // Any context.
    void forget()
    {
        if (!large_) [[likely]]
            return;
        large_.reset();
        share_ = Share();
    }

private:
    static constexpr u32 small = 508; // RNBD's are smaller
    static constexpr u32 zeros = 4;
    static void free_large(u8* large) { kapi_free(large); }
    Own<u8, free_large> large_;
    Share share_;
    u8 small_[small + zeros] = {}; // its last ones are never another value
};

} // namespace rtrs_srv
