// SPDX-License-Identifier: GPL-2.0
// A user's message, as it was when its request began. The chunk is not enough: a client with several paths has a key for each,
// and would change the message over another path between the user's checks and its use. RNBD's server looks for "..", then
// builds the name of the disk; and it trusts that a name ends before its message does.
#pragma once

#include <hawser/memory.h>
#include <hawser/result.h>

namespace rtrs_srv {

using namespace hw;

class UserMessage {
public:
    // Sleeps if it is a large one. ENOMEM. Valid until the next copy or forget(); a few zeros follow it.
    Result<const u8*> copy(const u8* from, u32 bytes)
    {
        u8* to = small_;
        if (bytes > small) {
            large_.reset(static_cast<u8*>(kapi_alloc(bytes + zeros, KAPI_SLEEP)));
            if (!large_)
                return fail(KAPI_ENOMEM);
            to = large_.get();
        }
        kapi_copy(to, from, bytes);
        kapi_fill(to + bytes, 0, zeros);
        return to;
    }
    void forget() { large_.reset(); } // any context

private:
    static constexpr u32 small = 504; // RNBD's are smaller
    static constexpr u32 zeros = 8;
    static void free_large(u8* large) { kapi_free(large); }
    Own<u8, free_large> large_;
    u8 small_[small + zeros] = {}; // its last ones are never another value
};

} // namespace rtrs_srv
