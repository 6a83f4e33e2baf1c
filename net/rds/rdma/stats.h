// SPDX-License-Identifier: GPL-2.0
// The counters of RDS over RDMA in a namespace, as RDS_INFO_COUNTERS shows them.
#pragma once

#include <hawser/memory.h>

namespace rds_rdma {

using namespace hw;

// Names and order as in the kernel's own, without those that would count nothing (Documentation/networking/rds-rdma.rst).
enum class Stat : unsigned {
    connect_raced,
    listen_closed_stale,
    tasklet_call,
    tx_cq_event,
    tx_ring_full,
    tx_sg_mapping_failure,
    rx_cq_event,
    rx_ring_empty,
    rx_refill_from_cq,
    rx_refill_from_thread,
    rx_alloc_limit,
    rx_total_frags,
    rx_total_incs,
    ack_sent,
    ack_send_failure,
    ack_send_delayed,
    ack_send_piggybacked,
    ack_received,
    mr_8k_alloc, // the three of each size in the same order
    mr_8k_free,
    mr_8k_used,
    mr_1m_alloc,
    mr_1m_free,
    mr_1m_used,
    atomic_cswp,
    atomic_fadd,
    count
};
extern const char* const stat_names[];

class Counters : Pinned {
public:
    ~Counters()
    {
        if (counters_)
            kapi_counters_destroy(counters_);
    }
    Result<> make()
    {
        counters_ = kapi_counters_create(static_cast<unsigned>(Stat::count));
        return counters_ ? Result<>() : fail(KAPI_ENOMEM);
    }
    // Any context.
    void count(Stat stat, u64 n = 1) { kapi_counters_add(counters_, static_cast<unsigned>(stat), n); }
    u64 counted(unsigned index) const { return kapi_counters_read(counters_, index); }

private:
    kapi_counters* counters_ = nullptr;
};

} // namespace rds_rdma
