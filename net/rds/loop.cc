// SPDX-License-Identifier: GPL-2.0
#include "loop.h"

#include "address.h"

namespace rds {

namespace {

// Bound to loopback itself: 127.0.0.0/8 or ::1. Other local addresses belong to their own transport.
int check_local(kapi_net*, const kapi_addr* addr)
{
    Ip ip = Ip::from(addr->ip);
    bool loopback = ip.is_v4() ? ip.v4()[0] == 127 : ip == Ip::from({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    return loopback ? 0 : -KAPI_EADDRNOTAVAIL;
}

} // namespace

constinit const rds_transport loop_transport = {
    .name = "loopback",
    .type = RDS_TRANSPORT_LOOP,
    .owner = nullptr,
    .max_paths = 1,
    .zerocopy = 0,
    .names_peer = 0,
    .check_local = check_local,
    .socket_bound = nullptr,
    .socket_closed = nullptr,
    .map_tos = nullptr,
    .create = nullptr,
    .destroy = nullptr,
    .connect = nullptr,
    .established = nullptr,
    .adopt = nullptr,
    .has_accepted = nullptr,
    .close = nullptr,
    .send = nullptr,
    .post = nullptr,
    .pin = nullptr,
    .unpin = nullptr,
    .pin_pages = nullptr,
    .check_atomic = nullptr,
    .hold = nullptr,
    .let_go = nullptr,
    .get_mr = nullptr,
    .get_local = nullptr,
    .put_local = nullptr,
    .end_mr = nullptr,
    .free_mr = nullptr,
    .sync_mr = nullptr,
    .resume = nullptr,
    .tick = nullptr,
    .counters = 0,
    .counter_names = nullptr,
    .counter = nullptr,
    .socket_row = nullptr,
    .rdma_row = nullptr,
};

} // namespace rds
