// SPDX-License-Identifier: GPL-2.0
// Memory of a program that a peer may read and write: RDS_GET_MR and its kin. It is its socket's, and ends with it at the latest.
#pragma once

#include "address.h"
#include "transport.h"
#include "wire.h"

#include <hawser/list.h>

namespace rds {

struct OwnedRegions; // list tag: the regions of a socket

class MemoryRegion : public RefCounted<MemoryRegion>, public ListNode<OwnedRegions> {
public:
    static void destroy(MemoryRegion* region); // Sleeps. The key is dead afterwards
    u32 key = 0;
    bool use_once = false; // until the peer says that it has used it
    Ip peer;
    const rds_transport* transport = nullptr; // the socket holds its module
    rds_mr* mr = nullptr;
};

} // namespace rds
