// SPDX-License-Identifier: GPL-2.0
// The requests of an operation, which go before its message.
#include "sender.h"

namespace rds_rdma {

namespace {

// What is behind an operation waits as long as that is tried again. The device will never do it: not so many pages in a region.
bool may_pass(Errno error)
{
    return error.code() != KAPI_EINVAL && error.code() != KAPI_EMSGSIZE;
}

} // namespace

void Sender::add_operation(rds_out* out, Own<Operation> operation)
{
    Operation& all = *operation; // which may end as soon as its last request is posted
    const u32 requests = all.requests();
    for (u32 i = 0; i < requests; i++) {
        Slot& to = slot(head_);
        to.operation = &all;
        kapi_wr& wr = next_request();
        all.fill(wr, i);
        if (wr.op == KAPI_WR_WRITE && std::exchange(fence_, false)) // else it overtakes a read that is sent again
            add_fence(wr);
        if (i + 1 == requests) {
            wr.flags |= KAPI_WR_SIGNALED;
            rds_out_hold(out);
            to.out = out;
            static_cast<void>(operation.release());
            unsignaled_ = 0;
        }
        if (chain_->count == Chain::most)
            flush(i + 1 == requests);
    }
}

// On the first request that may change what an operation reads: a write, or the message that informs the peer.
void Sender::add_fence(kapi_wr& wr)
{
    wr.flags |= KAPI_WR_FENCE;
    if (!ends_.device.fence_hangs())
        return;
    wr.flags |= KAPI_WR_SIGNALED;
    unsignaled_ = 0;
    fenced_ = head_;
}

// An atomic operation needs no fence behind another, but behind a read, and waits for it here: with FENCE it would be one that a
// device whose fences hang does not end.
bool Sender::waits_for_fence(rds_rdma_kind kind)
{
    u64 before = kind > RDS_OP_WRITE && fence_ ? max(fenced_, read_) : fenced_;
    return kind != RDS_OP_WRITE && waits_for([&] { return tail_.load() >= before; });
}

// From the completion queue: the last request of an operation with regions has ended. Those are freed by the path's worker, and
// what they cover after them: a device in software may go on with a copy that it began before a region became invalid.
void Sender::retire(Own<Operation> operation)
{
    Operation* added = operation.release();
    added->next = retired_.load();
    while (!retired_.compare_exchange(added->next, added))
        ;
    rds_path_notify(ends_.conn, 0, RDS_PATH_RESUME);
}

void Sender::free_retired()
{
    Operation* next = nullptr; // the first that ended
    for (Operation* last = retired_.exchange(nullptr); last;) {
        Operation* before = std::exchange(last->next, next);
        next = std::exchange(last, before);
    }
    while (next) {
        Own<Operation> operation(next);
        next = operation->next;
        operation->free_regions();
        operation->finish();
        rds_out* out = operation->out();
        operation.reset();
        rds_out_put(out);
    }
}

// The message may have to wait for room after it: both together can be more than the queue has room for.
Sender::Operated Sender::post_operation(rds_out* out, const rds_rdma_op& op)
{
    u32 most = Operation::most_requests(op, ends_.device, pieces_);
    bool may = ends_.may_read || op.kind == RDS_OP_WRITE; // else a device tries for ever, or refuses it with all that follows
    if (!may || !most || most > capacity_)
        return rds_out_rdma_done(out, RDS_RDMA_OTHER_ERROR), Operated::alone;
    if (waits_for_room(head_ + most) || waits_for_fence(op.kind))
        return Operated::later;
    auto made = Operation::create(out, op, ends_.domain, pieces_);
    if (!made) {
        ends_.counters.count(Stat::tx_sg_mapping_failure);
        if (may_pass(made.error()) && map_later())
            return Operated::later;
    }
    unmapped_since_ns_ = 0;
    if (!made)
        return rds_out_rdma_done(out, RDS_RDMA_OTHER_ERROR), Operated::alone;
    if (op.kind > RDS_OP_WRITE)
        ends_.counters.count(op.kind == RDS_OP_ADD || op.kind == RDS_OP_MASKED_ADD ? Stat::atomic_fadd : Stat::atomic_cswp);
    rds_out_rdma_begins(out);
    add_operation(out, std::move(*made));
    fence_ |= op.kind != RDS_OP_WRITE;
    if (op.kind == RDS_OP_READ)
        read_ = head_;
    return op.alone ? Operated::alone : Operated::done;
}

} // namespace rds_rdma
