// SPDX-License-Identifier: GPL-2.0
// What is inside a kapi_rxbuf in the simulator.
#pragma once

#include <kapi/stream.h>

#include "node.h"

struct kapi_rxbuf {
    kapi_rxbuf *next;
    kapi_size length, capacity;
    sim::Node *payer; // whose share of memory it is charged to; or null
    unsigned char bytes[];
};

namespace sim {

/** A packet buffer costs far more than a few bytes. */
inline kapi_size rxbuf_true_size(kapi_size length)
{
    return 768 + ((length + 255) & ~kapi_size{255});
}

/** Memory for what arrived on a program's TCP socket. False: its share is used up. */
bool charge_kept(Node &node, kapi_size size);
void uncharge_kept(Node &node, kapi_size size);

} // namespace sim
