// SPDX-License-Identifier: GPL-2.0
// The shares of users and peers in the connections of a namespace. A local user can make one to any address, and a peer one
// from each address that it can use. In any case some are left for others (kapi/share.h).
//
// Those that try to connect are counted, too, because they divide the time of the works. A user can have any number of
// namespaces, each with its share, so there all namespaces of the user count.
#pragma once

#include <hawser/atomic.h>
#include <kapi/share.h>

namespace rds {

using namespace hw;

class ConnectionShares : Pinned {
public:
    // A payer is a kapi_sk_user(), or all peers together.
    static constexpr u32 peers = KAPI_USERS;

    // of_owner: those that try in all namespaces of the user who made this one. Null: that is the administrator.
    explicit ConnectionShares(Atomic<u32>* of_owner) : of_owner_(of_owner) {}
    bool is_users() const { return of_owner_ != nullptr; }

    // One more for payer, of limit that all may have. False: payer has its share. Any context.
    bool take(u32 payer, u32 limit)
    {
        u32 held = of_[payer].fetch_add(1), all = all_.fetch_add(1);
        if (kapi_share(0, held, left_of(limit, all), 1) >= 0)
            return true;
        give_back(payer);
        return false;
    }
    void give_back(u32 payer)
    {
        of_[payer].fetch_sub(1);
        all_.fetch_sub(1);
    }
    // A path of a connection of payer needs a stream and has none, or has one no more. Any context.
    void begin_trying(u32 payer) { (of_owner_ ? *of_owner_ : trying_[payer]).fetch_add(1); }
    void end_trying(u32 payer) { (of_owner_ ? *of_owner_ : trying_[payer]).fetch_sub(1); }
    // How many divide the time of the host with those of payer.
    u32 trying(u32 payer) const { return (of_owner_ ? *of_owner_ : trying_[payer]).load_relaxed(); }
    // Little is left for payer: its unused connections end early.
    bool is_crowded(u32 payer, u32 limit) const
    {
        return kapi_share(0, of_[payer].load_relaxed(), left_of(limit, all_.load_relaxed()), 0) != 0;
    }

private:
    static u32 left_of(u32 limit, u32 all) { return limit > all ? limit - all : 0; }

    Atomic<u32> all_{0};
    Atomic<u32> of_[KAPI_USERS + 1];
    Atomic<u32> trying_[KAPI_USERS + 1];
    Atomic<u32>* const of_owner_;
};

} // namespace rds
