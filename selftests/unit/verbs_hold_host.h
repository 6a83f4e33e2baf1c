// SPDX-License-Identifier: GPL-2.0
// kapi/linux/verbs_hold.c compiled here, with as much of the kernel as it needs. Include it last: it has macros with small names.
#pragma once

#include <kapi/verbs_queue.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define KAPI_LINUX_H
#define KAPI_LINUX_VERBS_H

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum ib_wr_opcode { IB_WR_SEND, IB_WR_RDMA_WRITE, IB_WR_RDMA_READ, IB_WR_LOCAL_INV, IB_WR_REG_MR };
enum { IB_SEND_FENCE = 1, IB_SEND_SIGNALED = 2, IB_SEND_INLINE = 8, KAPI_SEND_EARLY = 1 << 26 };
enum { GFP_KERNEL, __GFP_NOWARN };
enum { IB_MR_TYPE_MEM_REG };
#define KAPI_MARKER (~0ULL - 2)

struct ib_device {
    int dev;
};
struct ib_mr {
    ib_device *device;
    u32 rkey;
};
struct ib_sge {
    u64 addr;
    u32 length, lkey;
};
struct ib_send_wr {
    ib_send_wr *next;
    u64 wr_id;
    ib_sge *sg_list;
    int num_sge, opcode, send_flags;
    struct {
        u32 invalidate_rkey;
    } ex;
};
struct ib_reg_wr {
    ib_send_wr wr;
    u32 key;
};
struct ib_qp; // the test's
union kapi_wr_inside {
    ib_send_wr plain;
    ib_reg_wr reg;
};
struct kapi_pd {
    struct kapi_rdma_dev *dev;
    ib_device *ib;
};
struct work_struct {};
struct delayed_work {
    work_struct work;
    void (*act)(work_struct *work);
    bool queued;
};
struct kapi_cm {
    work_struct failed;
};
struct kapi_hold;
struct kapi_qp {
    ib_qp *ib;
    kapi_cm *cm;
    kapi_hold *hold;
    int lock;
};

// The test's.
int ib_post_send(ib_qp *qp, const ib_send_wr *list, const ib_send_wr **failed);
void refused();

struct Allocated {
    void *memory;
    template <typename T>
    operator T *() const
    {
        return static_cast<T *>(memory);
    }
};

inline Allocated allocate(std::size_t size)
{
    return {std::calloc(1, size)};
}
inline bool kapi_rdma_repeats_registrations(const kapi_rdma_dev *)
{
    return true;
}
inline ib_mr *ib_alloc_mr(void *, int, int)
{
    return new ib_mr{};
}
inline int ib_dereg_mr(ib_mr *mr)
{
    delete mr;
    return 0;
}
inline bool queue_delayed_work(int, delayed_work *work, int)
{
    return work->queued = true;
}
inline void queue_work(int, work_struct *)
{
}
inline void cancel_delayed_work_sync(delayed_work *work)
{
    work->queued = false;
}
inline delayed_work *to_delayed_work(work_struct *work)
{
    return reinterpret_cast<delayed_work *>(work); // it is the first
}
inline bool warn_refused(bool is_refused)
{
    if (is_refused)
        refused();
    return is_refused;
}
constexpr int kapi_verbs_works = 0;

#define kzalloc(size, flags) allocate(size)
#define kvmalloc_array(count, size, flags) allocate((count) * (size))
#define kvfree(memory) std::free(memory)
#define kfree(memory) std::free(memory)
#define IS_ERR(pointer) false
#define PTR_ERR(pointer) 0
#define IS_ERR_OR_NULL(pointer) (!(pointer))
#define pr_err(...) static_cast<void>(0)
#define dev_name(dev) ""
#define container_of(pointer, type, member) ((type *)((const char *)(pointer) - offsetof(type, member)))
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define WARN_ON_ONCE(x) warn_refused(x)
#define ALIGN(x, to) (((x) + (to)-1) / (to) * (to))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min(static_cast<type>(a), static_cast<type>(b))
#define msecs_to_jiffies(x) (x)
#define INIT_DELAYED_WORK(work, function) ((work)->act = (function))
#define spin_lock_irqsave(lock, flags) static_cast<void>(flags = 0)
#define spin_unlock_irqrestore(lock, flags) static_cast<void>(flags)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnarrowing"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include "../../kapi/linux/verbs_hold.c"
#pragma GCC diagnostic pop

#undef min
#undef max
