// SPDX-License-Identifier: GPL-2.0
// What is inside a kapi_rxbuf in the simulator.
#pragma once

#include <kapi/stream.h>

#include <memory>

#include "node.h"
#include "tcp.h"

namespace sim {
struct Payer;
}

struct kapi_rxbuf {
    kapi_rxbuf *next;
    kapi_size length, capacity;
    sim::Payer *payer; // to whom it is charged; or null
    unsigned char bytes[];
};

namespace sim {

/** A packet buffer costs far more than a few bytes. */
inline kapi_size rxbuf_true_size(kapi_size length)
{
    return 768 + ((length + 255) & ~kapi_size{255});
}

/** Who pays for what arrives on a program's TCP socket. */
struct Payer : std::enable_shared_from_this<Payer> {
    explicit Payer(Node &of) : node(of) {}
    Node &node;
    std::size_t held = 0;
    std::shared_ptr<Payer> self; // while it holds anything
};

/** Memory for what arrived on a program's TCP socket, by the kernel's rule of shares. False: its share is used up. */
bool charge_kept(Payer &payer, kapi_size size);
void uncharge_kept(Payer &payer, kapi_size size);

} // namespace sim
