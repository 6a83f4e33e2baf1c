// SPDX-License-Identifier: GPL-2.0
#include "operation.h"

namespace rds_rdma {

namespace {

constexpr u8 request_of[] = {KAPI_WR_READ,        KAPI_WR_WRITE,      KAPI_WR_ATOMIC_ADD,
                             KAPI_WR_ATOMIC_SWAP, KAPI_WR_MASKED_ADD, KAPI_WR_MASKED_SWAP}; // by rds_rdma_kind

unsigned pieces_of(const rds_rdma_op& op, const Device& device, unsigned pieces)
{
    return op.kind == RDS_OP_READ ? min(pieces, device.attrs.max_read_sge) : pieces;
}

u32 pages_of(const rds_rdma_op& op)
{
    u32 pages = 0;
    for (unsigned i = 0; i < op.count; i++)
        pages += kapi_pin_pages(op.pins[i]);
    return pages;
}

} // namespace

u32 Operation::most_requests(const rds_rdma_op& op, const Device& device, unsigned pieces)
{
    if (op.kind == RDS_OP_READ && device.attrs.flags & KAPI_RDMA_IWARP) // its target needs a region
        return 0;
    if (!device.can(op.kind))
        return 0;
    unsigned each = pieces_of(op, device, pieces);
    return each ? (pages_of(op) + each - 1) / each : 0;
}

Result<Own<Operation>> Operation::create(rds_out* out, const rds_rdma_op& op, const Domain& domain, unsigned pieces)
{
    Own<Operation> operation(make<Operation>(Alloc::sleep, out, op, pieces_of(op, domain.device, pieces)));
    if (!operation)
        return fail(KAPI_ENOMEM);
    TRY(operation->build(domain));
    return operation;
}

Result<> Operation::build(const Domain& domain)
{
    u32 most = pages_of(op_); // pieces
    maps_.reset(static_cast<Mapping*>(kapi_zalloc(op_.count * sizeof(Mapping), KAPI_SLEEP)));
    sges_.reset(static_cast<kapi_sge*>(kapi_alloc(most * sizeof(kapi_sge), KAPI_SLEEP)));
    if (!maps_ || !sges_)
        return fail(KAPI_ENOMEM);
    kapi_map_direction direction = op_.kind == RDS_OP_WRITE ? KAPI_MAP_TO_DEVICE : KAPI_MAP_FROM_DEVICE;
    for (; mapped_ < op_.count; mapped_++) {
        Mapping map = TRY(Mapping::with(
            [&](kapi_map* to) { return kapi_map_pin(to, domain.device.dev, op_.pins[mapped_], direction, KAPI_SLEEP); }));
        kapi_map_place place{};
        kapi_size left = map.length();
        count_ += kapi_map_sges(map.c(), &place, &left, domain.pd.get(), sges_.get() + count_, most - count_);
        ::new (maps_.get() + mapped_) Mapping(std::move(map));
        if (!HW_ASSERT(left == 0))
            return fail(KAPI_EIO);
    }
    return {};
}

void Operation::unmap()
{
    while (mapped_)
        maps_.get()[--mapped_].~Mapping();
}

Operation::~Operation()
{
    unmap();
}

void Operation::fill(kapi_wr& wr, u32 request)
{
    u32 first = request * pieces_;
    wr.sges = sges_.get() + first;
    wr.n_sges = min(pieces_, count_ - first);
    wr.op = request_of[op_.kind];
    wr.add_or_swap = op_.operand;
    wr.compare = op_.compare;
    wr.add_or_swap_mask = op_.operand_mask;
    wr.compare_mask = op_.compare_mask;
    wr.key = op_.key;
    wr.remote = remote_;
    for (u32 i = 0; i < wr.n_sges; i++)
        remote_ += wr.sges[i].length;
}

void Operation::finish()
{
    unmap();
    if (status_ == KAPI_WC_OK)
        rds_out_rdma_done(out_, RDS_RDMA_SUCCESS);
    else if (status_ == KAPI_WC_REMOTE_ACCESS)
        rds_out_rdma_done(out_, RDS_RDMA_REMOTE_ERROR);
    else if (status_ != KAPI_WC_FLUSHED) // that was another's fault: it goes with the connection
        rds_out_rdma_done(out_, RDS_RDMA_OTHER_ERROR);
}

} // namespace rds_rdma
