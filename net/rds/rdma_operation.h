// SPDX-License-Identifier: GPL-2.0
// An operation on the peer's memory that goes with a message: the program's pages, and the notice of its end.
#pragma once

#include "../lock_order.h"
#include "cmsg.h"
#include "transport.h"

#include <hawser/list.h>
#include <hawser/lock.h>

namespace rds {

using namespace hw;

class NoticeBox;

// What a program is notified of, by a control message.
struct RdmaNotice : RefCounted<RdmaNotice>, ListNode<RdmaNotice> {
    static void destroy(RdmaNotice* notice) { dispose(notice); }
    u64 token = 0;
    rds_rdma_status status = RDS_RDMA_DROPPED;
};

class RdmaOperation : Pinned {
public:
    // Where it is made. held: a hold on the stream for which memory that cannot be pinned is registered on demand; null:
    // EOPNOTSUPP for such memory.
    struct Place {
        const rds_transport& transport;
        u32 user;
        void* held;
    };
    // Task. Reads the vector of the program once, and pins what it names. EMSGSIZE, EINVAL, EFAULT, ENOMEM, EOPNOTSUPP.
    // with_payload: its message has to be sent, whatever args says.
    static Result<Own<RdmaOperation>> create(const Place& place, const rds_abi_rdma_args& args, bool with_payload);
    // The same of an atomic operation. EFAULT also: the place for the old value is at no multiple of 8; EINVAL: the peer's
    // value is at none.
    static Result<Own<RdmaOperation>> create_atomic(const Place& place, const AtomicRequest& request, bool with_payload);
    ~RdmaOperation();

    const rds_rdma_op& c() const { return *op_; }
    usize true_size() const;
    // Its end is to be reported to notices, or only if it fails. ENOMEM: too many are due.
    Result<> notify(Ref<NoticeBox> notices, u64 token, bool failures_only);
    // The message is sent on: without this there is no notice.
    void promise_notice(bool promised) { promised_ = promised; }

    // Any context. The transport posts it: not again.
    void begin() { begun_.store_release(1); }
    bool has_begun() const { return begun_.load_acquire() != 0; }
    bool has_succeeded() const { return succeeded_.load_acquire() != 0; }
    void cancel() { cancelled_.store_release(1); }
    // Any context. A device may use the pages for ever.
    void keep_pages() { kept_.store_release(1); }
    // Any context. The pages are the program's again, before it is notified. Once.
    void done(rds_rdma_status status);

private:
    HW_MADE_BY_CREATE;
    explicit RdmaOperation(const rds_transport& transport) : transport_(transport) {}
    static Result<Own<RdmaOperation>> allocate(const rds_transport& transport, u64 pieces);
    bool changes_memory() const { return op_->kind != RDS_OP_WRITE; }
    Result<> read_vector(const Place& place, const rds_abi_rdma_args& args);
    Result<> add(const Place& place, const rds_abi_iovec& vector, u64 most);
    void release_memory();

    const rds_transport& transport_; // the socket holds its module, and later the connection of the message
    rds_rdma_op* const op_ = reinterpret_cast<rds_rdma_op*>(this + 1); // which lies behind this object
    usize true_size_ = 0;
    u32 pages_ = 0;
    Atomic<u32> begun_{0}, cancelled_{0}, done_{0}, succeeded_{0}, kept_{0};
    bool promised_ = false, failures_only_ = false;
    Ref<NoticeBox> notices_;
    Ref<RdmaNotice> notice_;
};

} // namespace rds
