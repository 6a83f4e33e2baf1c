// SPDX-License-Identifier: GPL-2.0
// The limits of the memory that peers make the machine use and that is charged to no program, for all namespaces together.
//
// A peer can have any number of addresses, and a user without privileges any number of namespaces, which have no other common
// limit. It grows with the machine's memory. Of two equal parts the initial namespace has one for itself. The other is for
// all other namespaces, by the rule of kapi/share.h: those of one user together may use as much as they leave to others.
#pragma once

#include <hawser/atomic.h>
#include <kapi/memory.h>
#include <kapi/share.h>
#include <kapi/types.h>

namespace rds {

using namespace hw;

struct PeersPool {
    u64 limit = 0; // bytes
    Atomic<u64> used{0};
    Atomic<u64> waiting{0}; // bytes that were refused, and are tried again
};

// The part of one pool that the namespaces of one user hold. Any context.
class PeersAccount : Pinned {
public:
    // As kapi_share(): 0: there is room for so much; 1: but not for much; -ENOMEM: there is none.
    int share(u64 bytes) const { return share_of(held_.load_relaxed(), pool_->used.load_relaxed(), bytes); }
    [[nodiscard]] bool take(u64 bytes)
    {
        u64 held = held_.fetch_add(bytes), used = pool_->used.fetch_add(bytes);
        if (share_of(held, used, bytes) >= 0) [[likely]]
            return true;
        give(bytes);
        return false;
    }
    // Regardless of the limit.
    void add(u64 bytes)
    {
        held_.fetch_add(bytes);
        pool_->used.fetch_add(bytes);
    }
    void give(u64 bytes)
    {
        pool_->used.fetch_sub(bytes);
        held_.fetch_sub(bytes);
    }

    // The most that it may hold, with the present use of the others.
    u64 most() const
    {
        u64 held = held_.load_relaxed(), used = pool_->used.load_relaxed(), others = used - min(used, held);
        return (pool_->limit - min(others, pool_->limit)) / 2;
    }
    // It has something, and its share of twice the limit. Others alone, whatever they have, do not make it so.
    bool has_all() const
    {
        u64 held = held_.load_relaxed(), all = 2 * pool_->limit, used = pool_->used.load_relaxed();
        return held && kapi_share(0, held, all - min(used, all), 1) < 0;
    }
    void note_waiting(u64 before, u64 now) { pool_->waiting.fetch_add(now - before); }
    u64 waiting() const { return pool_->waiting.load_relaxed(); }

private:
    friend class PeersShare;
    int share_of(u64 held, u64 used, u64 bytes) const
    {
        return kapi_share(0, held, pool_->limit - min(used, pool_->limit), bytes);
    }

    PeersPool* pool_ = nullptr;
    Atomic<u64> held_{0};
};

class PeersShare : Pinned {
public:
    enum Kind : unsigned {
        connections, // that a peer made, with their paths and maps; and streams
        partials,    // messages of which only a part has arrived
        answers,     // to pings and handshakes
        uncharged,   // messages for sockets whose users have their share: of_socket()
        overdrawn,   // such messages beyond that, for which all programs that use a ring would wait: of_socket()
        kinds
    };
    PeersShare();
    // By the user of the socket, whatever its namespace.
    PeersAccount& of_socket(kapi_sk* sk, Kind kind = uncharged) { return of_user_[kind][kapi_sk_user(sk) % users]; }
    // Does any socket have memory that nobody is charged for?
    bool has_uncharged() const { return pools_[1][uncharged].used.load_relaxed() != 0; }
    PeersAccount& account(Kind kind, bool initial, u32 owner)
    {
        return initial ? initial_[kind] : of_user_[kind][owner % users];
    }

private:
    static constexpr unsigned users = 256; // two users with the same number share it
    PeersPool pools_[2][kinds];
    PeersAccount initial_[kinds];
    PeersAccount of_user_[kinds][users];
};

} // namespace rds
