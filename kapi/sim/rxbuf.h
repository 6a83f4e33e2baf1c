// SPDX-License-Identifier: GPL-2.0
// What is inside a kapi_rxbuf in the simulator.
#pragma once

#include <kapi/stream.h>

struct kapi_rxbuf {
    kapi_rxbuf *next;
    kapi_size length, capacity;
    unsigned char bytes[];
};

namespace sim {

/** A packet buffer costs far more than a few bytes. */
inline kapi_size rxbuf_true_size(kapi_size length)
{
    return 768 + ((length + 255) & ~kapi_size{255});
}

} // namespace sim
