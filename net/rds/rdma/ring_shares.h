// SPDX-License-Identifier: GPL-2.0
// The limits of the memory that connections take for what they receive and send, which no program is charged for.
//
// Peers can have as many connections as there are types of service, between any two addresses. So those that peers made have one
// half of the memory, of which each remote address has a share (kapi/share.h). The other half is for connections that local users
// made, each user with a share: no peer can take it. The number of buffers, which the administrator limits, is shared
// in the same way.
#pragma once

#include <hawser/atomic.h>
#include <hawser/hash_table.h>
#include <kapi/share.h>
#include <kapi/stream.h>
#include <kapi/verbs_queue.h>

namespace rds_rdma {

using namespace hw;

// What a connection has.
struct Ring {
    u32 buffers = 0; // to receive into
    u32 payer = 0; // to whom they and the bytes count
    u64 bytes = 0; // of all that it has for what it receives and sends
};

// Entries of each completion queue beside those for what is posted, for the drain.
inline constexpr u32 completions_besides = 2;

class RingShares : Pinned {
public:
    RingShares();
    // How many buffers a new connection may have in its ring, of those wanted: all, fewer when there is little room, 0 when
    // there is none. payer: rds_conn_payer(). allowed: buffers in all rings. caps: of its queue pair, where a receive has a piece
    // for the header and one for each of its buffers; max_recv follows from the buffers.
    Ring take(u32 payer, const kapi_addr& remote, u32 wanted, u64 allowed, const kapi_qp_caps& caps);
    void give(const Ring& ring, const kapi_addr& remote);

private:
    struct Pool {
        u64 limit = 0; // bytes
        Atomic<u64> used{0}, buffers{0};
    };
    struct Held {
        Atomic<u64> bytes{0}, buffers{0};
    };
    static constexpr unsigned addresses = 256; // two with the same number have one share

    Pool& pool_of(u32 payer) { return payer < KAPI_USERS ? users_ : peers_; }
    Held& held_by(u32 payer, const kapi_addr& remote);
    static bool take(Atomic<u64>& held, Atomic<u64>& used, u64 limit, u64 amount, bool may_be_last);
    static void give(Atomic<u64>& held, Atomic<u64>& used, u64 amount);

    Pool users_, peers_;
    Held of_user_[KAPI_USERS], of_address_[addresses];
    HashSeed seed_;
};

} // namespace rds_rdma
