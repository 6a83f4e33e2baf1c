// SPDX-License-Identifier: GPL-2.0
// What the client asks of the two devices of a connection.
#pragma once

#include "../common/connect.h"

#include <kapi/verbs.h>

namespace rtrs_clt {

// request is used until the connection was asked for.
inline kapi_cm_options cm_options(const rtrs::wire::ConnectRequest& request)
{
    using namespace hw;
    // A peer's device that does not answer for some four seconds (seven times 2^17 units of 4.096 us) is gone: a host that stands
    // still for less loses no path, and a dead one is noticed as soon as by heartbeats. Soft-RoCE takes 7 for ever.
    constexpr u8 retries = 6, ack_timeout = 17;
    constexpr u8 for_ever = 7;   // while the peer has no receive posted, it lives
    constexpr u8 rnr_timer = 10; // 0.32 ms
    kapi_cm_options options{};
    options.data = &request;
    options.size = sizeof(request);
    options.reads_in = options.reads_out = 1; // RTRS reads nothing, but a connection without any is refused by some devices
    options.retry = retries;
    options.rnr_retry = for_ever;
    options.rnr_timer = rnr_timer;
    options.ack_timeout = ack_timeout;
    return options;
}

} // namespace rtrs_clt
