// SPDX-License-Identifier: GPL-2.0
#include "rdma_operation.h"

#include "message.h"
#include "wire.h"

#include <kapi/socket.h>

namespace rds {

namespace {

// The largest operation in pieces of which each lies in one page. So many fit into a send queue together with a message.
constexpr u32 max_pages = max_rdma_vectors + max_message / 4096;
constexpr u64 atomic_size = 8;
constexpr u64 whole = ~0ull;

void set_add(rds_rdma_op& op, u64 operand, u64 last_bits)
{
    op.operand = operand;
    op.operand_mask = last_bits;
    bool one_field = !(last_bits & ~(1ull << 63)); // nothing is carried out of the last bit anyway
    op.kind = one_field ? RDS_OP_ADD : RDS_OP_MASKED_ADD;
}

// With the whole compared, what stays is known: then any device can do it that has atomics.
void set_swap(rds_rdma_op& op, u64 compare, u64 swap, u64 compare_mask, u64 swap_mask)
{
    op.compare = compare;
    op.compare_mask = compare_mask;
    op.operand_mask = swap_mask;
    bool is_plain = compare_mask == whole;
    op.operand = is_plain ? (compare & ~swap_mask) | (swap & swap_mask) : swap;
    op.kind = is_plain ? RDS_OP_SWAP : RDS_OP_MASKED_SWAP;
}

void set_atomic(rds_rdma_op& op, const AtomicRequest& request)
{
    const u64(&operand)[4] = request.args.operand;
    switch (request.type) {
    case RDS_ABI_CMSG_ATOMIC_FADD:
        return set_add(op, operand[0], 0);
    case RDS_ABI_CMSG_MASKED_ATOMIC_FADD:
        return set_add(op, operand[0], operand[1]);
    case RDS_ABI_CMSG_ATOMIC_CSWP:
        return set_swap(op, operand[0], operand[1], whole, whole);
    default:
        return set_swap(op, operand[0], operand[1], operand[2], operand[3]);
    }
}

} // namespace

Result<Own<RdmaOperation>> RdmaOperation::allocate(const rds_transport& transport, u64 pieces)
{
    static_assert(sizeof(RdmaOperation) % alignof(rds_rdma_op) == 0);
    usize tail = sizeof(rds_rdma_op) + pieces * sizeof(rds_local);
    Own<RdmaOperation> operation(make_with_tail<RdmaOperation>(Alloc::charged, tail, transport));
    if (!operation)
        return fail(KAPI_ENOMEM);
    operation->true_size_ = kapi_alloc_true_size(sizeof(RdmaOperation) + tail);
    return operation;
}

Result<Own<RdmaOperation>> RdmaOperation::create(const Place& place, const rds_abi_rdma_args& args, bool with_payload)
{
    u64 remote = args.remote_vec.addr + offset_of(args.cookie);
    TRY(check_rdma_size(args));
    if (remote < args.remote_vec.addr || remote + args.remote_vec.bytes < remote)
        return fail(KAPI_EINVAL);
    Own<RdmaOperation> operation = TRY(allocate(place.transport, args.nr_local));
    rds_rdma_op& op = *operation->op_;
    op.remote = remote;
    op.key = key_of(args.cookie);
    op.kind = args.flags & RDS_ABI_RDMA_READWRITE ? RDS_OP_WRITE : RDS_OP_READ;
    op.alone = (args.flags & RDS_ABI_RDMA_SILENT) && !with_payload;
    TRY(operation->read_vector(place, args));
    return operation;
}

Result<Own<RdmaOperation>> RdmaOperation::create_atomic(const Place& place, const AtomicRequest& request, bool with_payload)
{
    const rds_abi_atomic_args& args = request.args;
    u64 remote = args.remote_addr + offset_of(args.cookie);
    if (args.local_addr % atomic_size) // as the kernel's own says it
        return fail(KAPI_EFAULT);
    if (remote < args.remote_addr || remote + atomic_size < remote || remote % atomic_size)
        return fail(KAPI_EINVAL);
    Own<RdmaOperation> operation = TRY(allocate(place.transport, 1));
    rds_rdma_op& op = *operation->op_;
    op.remote = remote;
    op.key = key_of(args.cookie);
    op.alone = (args.flags & RDS_ABI_RDMA_SILENT) && !with_payload;
    set_atomic(op, request);
    TRY(operation->add(place, {args.local_addr, atomic_size}, atomic_size));
    return operation;
}

Result<> RdmaOperation::add(const Place& place, const rds_abi_iovec& vector, u64 most)
{
    rds_rdma_op& op = *op_;
    if (vector.addr + vector.bytes <= vector.addr || op.bytes + vector.bytes > most || vector.bytes > most)
        return fail(KAPI_EINVAL);
    rds_local local{};
    int err = transport_.pin(vector.addr, vector.bytes, changes_memory(), &local.pin);
    if (err == -KAPI_EOPNOTSUPP && place.held)
        err = transport_.get_local(place.held, vector.addr, vector.bytes, changes_memory(), place.user, &local.mr);
    TRY(check(err));
    op.local[op.count++] = local;
    op.bytes += static_cast<u32>(vector.bytes);
    pages_ += local.pin ? transport_.pin_pages(local.pin) : 1;
    return pages_ <= max_pages ? Result<>() : fail(KAPI_EMSGSIZE);
}

Result<> RdmaOperation::read_vector(const Place& place, const rds_abi_rdma_args& args)
{
    constexpr unsigned at_once = 16;
    rds_abi_iovec vectors[at_once];
    for (u64 done = 0; done < args.nr_local; done += at_once) {
        u64 count = min<u64>(at_once, args.nr_local - done);
        TRY(check(
            kapi_user_copy_in(vectors, args.local_vec_addr + done * sizeof(vectors[0]), count * sizeof(vectors[0]))));
        for (u64 i = 0; i < count; i++)
            TRY(add(place, vectors[i], args.remote_vec.bytes));
    }
    return {};
}

// What is on demand is no page of the program's: a device that is broken loses it with the region.
void RdmaOperation::release_memory()
{
    bool kept = kept_.load_acquire();
    while (op_->count) {
        const rds_local& local = op_->local[--op_->count];
        if (local.mr)
            transport_.put_local(local.mr);
        else if (!kept)
            transport_.unpin(local.pin, changes_memory());
    }
}

RdmaOperation::~RdmaOperation()
{
    if (!done_.load())
        done(cancelled_.load() && !has_begun() ? RDS_RDMA_CANCELED : RDS_RDMA_DROPPED);
}

usize RdmaOperation::true_size() const { return true_size_; }

Result<> RdmaOperation::notify(Ref<NoticeBox> notices, u64 token, bool failures_only)
{
    auto notice = Ref<RdmaNotice>::adopt(make<RdmaNotice>(Alloc::charged));
    if (!notice || !notices->reserve())
        return fail(KAPI_ENOMEM);
    notice->token = token;
    notice_ = std::move(notice);
    notices_ = std::move(notices);
    failures_only_ = failures_only;
    return {};
}

void RdmaOperation::done(rds_rdma_status status)
{
    if (!HW_ASSERT(!done_.exchange(1)))
        return;
    release_memory();
    if (status == RDS_RDMA_SUCCESS && !op_->alone) // no stream is to take the message of one that is alone
        succeeded_.store_release(1);
    if (!notices_)
        return;
    notice_->status = status;
    if (promised_ && (status != RDS_RDMA_SUCCESS || !failures_only_))
        notices_->put(std::move(notice_));
    else
        notices_->taken(1);
}

} // namespace rds
