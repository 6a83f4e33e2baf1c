// SPDX-License-Identifier: GPL-2.0
// An operation on the peer's memory, in the requests that it takes on a device.
#pragma once

#include "queue_ends.h"

namespace rds_rdma {

class Operation : Pinned {
public:
    // Sleeps. pieces: of a request. ENOMEM; EIO: there is no room for what the device does not reach itself; EINVAL or EMSGSIZE:
    // the device cannot do it.
    static Result<Own<Operation>> create(rds_out* out, const rds_rdma_op& op, const Domain& domain, unsigned pieces);
    ~Operation();
    // 0: the device cannot do it.
    static u32 most_requests(const rds_rdma_op& op, const Device& device, unsigned pieces);

    u32 requests() const { return regions_ ? requests_of_region * made_ : (count_ + pieces_ - 1) / pieces_; }
    // Fills wr but for the cookie; in order, the first is 0.
    void fill(kapi_wr& wr, u32 request);
    // From the completion queue: one of its requests, or the last one of its message, has ended.
    void note(kapi_wc_status status) { status_ = status_ == KAPI_WC_OK ? status : status_; }
    bool has_failed() const { return status_ != KAPI_WC_OK; }
    // The last one has ended. Reports how.
    void finish();

    // Over iWARP the memory that a read fills is in regions. Each has three requests: it becomes valid, it is read into, and it
    // becomes invalid.
    bool has_regions() const { return regions_ != nullptr; }
    // Sleeps. None of its requests is outstanding. The memory of one that the device does not give up stays for ever.
    void free_regions();
    rds_out* out() const { return out_; }
    Operation* next = nullptr; // in its sender's list

private:
    HW_MADE_BY_CREATE;
    Operation(rds_out* out, const rds_rdma_op& op, unsigned pieces, u32 pages, bool with_regions);
    static constexpr u32 requests_of_region = 3;
    static bool needs_regions(const rds_rdma_op& op, const Device& device);
    static usize tail_of(const rds_rdma_op& op, u32 pages, bool with_regions);
    Result<> build(const Domain& domain);
    Result<> add_region(const Domain& domain);
    Result<> add_on_demand(const UserRegion& region, const Domain& domain);
    void fill_of_region(kapi_wr& wr, u32 request);
    void unmap();

    rds_out* const out_; // held by who owns this
    const rds_rdma_op& op_;
    const unsigned pieces_;
    const u32 pages_; // sges_ has room for
    u32 mapped_ = 0;
    u32 count_ = 0; // pieces
    u64 remote_ = op_.remote; // of the next request
    kapi_wc_status status_ = KAPI_WC_OK;
    u32 made_ = 0;
    // They lie behind this object: one allocation for each operation instead of several.
    Mapping* const maps_; // of the pins, mapped_ of them
    kapi_sge* const sges_;
    kapi_mr** const regions_; // of the mappings, made_ of them. They end before those. Null: it needs none
};

} // namespace rds_rdma
