// SPDX-License-Identifier: GPL-2.0
#include "operation.h"

#include "region.h"

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
        pages += op.local[i].pin ? kapi_pin_pages(op.local[i].pin) : 1;
    return pages;
}

} // namespace

bool Operation::needs_regions(const rds_rdma_op& op, const Device& device)
{
    return op.kind == RDS_OP_READ && device.is_iwarp();
}

u32 Operation::most_requests(const rds_rdma_op& op, const Device& device, unsigned pieces)
{
    if (!device.can(op.kind))
        return 0;
    if (needs_regions(op, device))
        return requests_of_region * op.count;
    unsigned each = pieces_of(op, device, pieces);
    return each ? (pages_of(op) + each - 1) / each : 0;
}

usize Operation::tail_of(const rds_rdma_op& op, u32 pages, bool with_regions)
{
    static_assert(alignof(Mapping) <= alignof(u64) && sizeof(Mapping) % alignof(u64) == 0);
    static_assert(alignof(kapi_sge) <= alignof(u64) && sizeof(kapi_sge) % alignof(u64) == 0);
    static_assert(sizeof(Operation) % alignof(u64) == 0);
    usize of_pin = sizeof(Mapping) + (with_regions ? sizeof(kapi_mr*) : 0);
    return op.count * of_pin + pages * sizeof(kapi_sge);
}

Operation::Operation(rds_out* out, const rds_rdma_op& op, unsigned pieces, u32 pages, bool with_regions)
    : out_(out), op_(op), pieces_(pieces), pages_(pages), maps_(reinterpret_cast<Mapping*>(this + 1)),
      sges_(reinterpret_cast<kapi_sge*>(maps_ + op.count)),
      regions_(with_regions ? reinterpret_cast<kapi_mr**>(sges_ + pages) : nullptr)
{
}

Result<Own<Operation>> Operation::create(rds_out* out, const rds_rdma_op& op, const Domain& domain, unsigned pieces)
{
    u32 pages = pages_of(op);
    bool with_regions = needs_regions(op, domain.device);
    Own<Operation> operation(make_with_tail<Operation>(Alloc::sleep, tail_of(op, pages, with_regions), out, op,
                                                       pieces_of(op, domain.device, pieces), pages, with_regions));
    if (!operation)
        return fail(KAPI_ENOMEM);
    TRY(operation->build(domain));
    return operation;
}

Result<> Operation::build(const Domain& domain)
{
    kapi_map_direction direction = op_.kind == RDS_OP_WRITE ? KAPI_MAP_TO_DEVICE : KAPI_MAP_FROM_DEVICE;
    for (unsigned i = 0; i < op_.count; i++) {
        const rds_local& local = op_.local[i];
        if (local.mr) {
            TRY(add_on_demand(*reinterpret_cast<const UserRegion*>(local.mr), domain));
            continue;
        }
        Mapping& map = *::new (maps_ + mapped_) Mapping;
        TRY(map.begin([&](kapi_map* to) { return kapi_map_pin(to, domain.device.dev, local.pin, direction, KAPI_SLEEP); }));
        mapped_++;
        kapi_map_place place{};
        kapi_size left = map.length();
        count_ += kapi_map_sges(map.c(), &place, &left, domain.pd.get(), sges_ + count_, pages_ - count_);
        if (!HW_ASSERT(left == 0))
            return fail(KAPI_EIO);
        if (regions_)
            TRY(add_region(domain));
    }
    return {};
}

// Of the last mapping.
Result<> Operation::add_region(const Domain& domain)
{
    const Mapping& map = maps_[made_];
    kapi_mr*& mr = regions_[made_];
    TRY(check(kapi_mr_alloc(domain.pd.get(), kapi_pin_pages(op_.local[made_].pin), 0, &mr)));
    made_++;
    return check(kapi_mr_map(mr, map.c()));
}

// One that ended with its device, or is of another, is of no use any more.
Result<> Operation::add_on_demand(const UserRegion& region, const Domain& domain)
{
    if (regions_ || !region.serves(domain) || !domain.device.can_fetch(op_.kind))
        return fail(KAPI_EINVAL);
    sges_[count_++] = region.sge();
    return {};
}

void Operation::free_regions()
{
    bool kept = false;
    while (made_) {
        made_--;
        if (kapi_mr_free(regions_[made_]) == 0 || !has_failed() || made_ >= mapped_)
            continue; // where all has ended well it is not valid any more
        maps_[made_].leak();
        kept = true;
    }
    if (!kept)
        return;
    rds_out_hold(out_);
    rds_out_abandon(out_);
}

void Operation::unmap()
{
    while (mapped_)
        maps_[--mapped_].~Mapping();
}

Operation::~Operation()
{
    free_regions();
    unmap();
}

// The invalidations wait for the reads.
void Operation::fill_of_region(kapi_wr& wr, u32 request)
{
    u32 index = request % made_, step = request / made_;
    kapi_mr* mr = regions_[index];
    if (step == 1) {
        kapi_sge& sge = sges_[index];
        sge = {kapi_mr_address(mr), static_cast<u32>(maps_[index].length()), kapi_mr_local_key(mr)};
        wr.op = KAPI_WR_READ;
        wr.sges = &sge;
        wr.n_sges = 1;
        wr.key = op_.key;
        wr.remote = remote_;
        remote_ += sge.length;
        return;
    }
    wr.op = step ? KAPI_WR_INVALIDATE : KAPI_WR_REGISTER;
    wr.flags = step ? KAPI_WR_FENCE : 0;
    wr.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
    wr.mr = mr;
    wr.key = kapi_mr_key(mr);
}

void Operation::fill(kapi_wr& wr, u32 request)
{
    if (regions_)
        return fill_of_region(wr, request);
    u32 first = request * pieces_;
    wr.sges = sges_ + first;
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
    if (!has_failed())
        rds_out_rdma_done(out_, RDS_RDMA_SUCCESS);
    else if (status_ == KAPI_WC_REMOTE_ACCESS)
        rds_out_rdma_done(out_, RDS_RDMA_REMOTE_ERROR);
    else if (status_ != KAPI_WC_FLUSHED) // that was another's fault: it goes with the connection
        rds_out_rdma_done(out_, RDS_RDMA_OTHER_ERROR);
}

} // namespace rds_rdma
