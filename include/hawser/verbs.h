// SPDX-License-Identifier: GPL-2.0
// Move-only owners of what kapi hands out for RDMA, and of what a queue has borrowed.
#pragma once

#include <hawser/memory.h>
#include <kapi/verbs.h>
#include <kapi/verbs_memory.h>
#include <kapi/verbs_queue.h>

namespace hw {

inline void free_pd(kapi_pd* pd) { kapi_pd_free(pd); }
inline void free_cq(kapi_cq* cq) { kapi_cq_free(cq); }
inline void free_qp(kapi_qp* qp) { kapi_qp_free(qp); }
inline void free_cm(kapi_cm* cm) { kapi_cm_destroy(cm); }
inline void free_cm_listener(kapi_cm_listener* listener) { kapi_cm_listener_close(listener); }
inline void free_mr(kapi_mr* mr) { static_cast<void>(kapi_mr_free(mr)); }

// Members of a class are destroyed in reverse: declare them in this order.
using ProtectionDomain = Own<kapi_pd, free_pd>;
using Region = Own<kapi_mr, free_mr>; // one that a peer may still use is given to kapi_mr_free(), which may fail
using CompletionQueue = Own<kapi_cq, free_cq>;
using CmEnd = Own<kapi_cm, free_cm>;
using CmListener = Own<kapi_cm_listener, free_cm_listener>;
using QueuePair = Own<kapi_qp, free_qp>; // drained before

// For a log: what the peer of a queue pair did, of which this completion is the first with an error. Null: it is not.
inline const char* text_of(kapi_wc_status status)
{
    switch (status) {
    case KAPI_WC_OK:
    case KAPI_WC_FLUSHED:
        return nullptr;
    case KAPI_WC_REMOTE_ACCESS:
        return "refuses access to its memory";
    case KAPI_WC_REMOTE_ERROR:
        return "refuses a request, or has failed";
    case KAPI_WC_RETRY_EXCEEDED:
        return "does not answer this host's device";
    case KAPI_WC_RNR_EXCEEDED:
        return "has posted no receive for too long";
    case KAPI_WC_LOCAL_ERROR:
    case KAPI_WC_LOCAL_PROTECTION:
        break;
    }
    return "cannot be reached: this host's device has refused a request";
}

// Pinned pages of a program. They are marked as changed unless they were read-only.
class Pin {
public:
    Pin() = default;
    // Task. As kapi_pin_user().
    static Result<Pin> user(u64 address, usize length, bool write)
    {
        Pin pin;
        pin.write_ = write;
        TRY(check(kapi_pin_user(address, length, write, &pin.pin_)));
        return pin;
    }
    Pin(Pin&& other) noexcept : pin_(std::exchange(other.pin_, nullptr)), write_(other.write_) {}
    Pin& operator=(Pin&& other) noexcept
    {
        std::swap(pin_, other.pin_);
        std::swap(write_, other.write_);
        return *this;
    }
    ~Pin() { kapi_unpin(pin_, write_); }

    // One that another owner gives up, pinned to be written.
    static Pin adopt(kapi_pin* pin)
    {
        Pin adopted;
        adopted.pin_ = pin;
        adopted.write_ = true;
        return adopted;
    }
    [[nodiscard]] kapi_pin* release() { return std::exchange(pin_, nullptr); }

    explicit operator bool() const { return pin_ != nullptr; }
    kapi_pin* c() const { return pin_; }
    unsigned pages() const { return pin_ ? kapi_pin_pages(pin_) : 0; }

private:
    kapi_pin* pin_ = nullptr;
    bool write_ = false;
};

// Memory that a device may use.
class Mapping {
public:
    Mapping() = default;
    // make(kapi_map*) is one of the kapi_map_* calls. What was mapped before ends. It is made in its place: it is large.
    template <class Make> Result<> begin(Make&& make)
    {
        end();
        TRY(check(make(&map_)));
        mapped_ = true;
        return {};
    }
    void end()
    {
        if (std::exchange(mapped_, false))
            kapi_unmap(&map_);
    }
    Mapping(Mapping&& other) noexcept : map_(other.map_), mapped_(std::exchange(other.mapped_, false)) {}
    Mapping& operator=(Mapping&& other) noexcept
    {
        std::swap(map_, other.map_);
        std::swap(mapped_, other.mapped_);
        return *this;
    }
    ~Mapping() { end(); }

    explicit operator bool() const { return mapped_; }
    const kapi_map* c() const { return &map_; }
    usize length() const { return mapped_ ? kapi_map_length(&map_) : 0; }
    // It ends, and the memory, which others use, stays as it is: kapi_unmap_synced().
    void end_synced()
    {
        if (std::exchange(mapped_, false))
            kapi_unmap_synced(&map_);
    }
    // It stays for ever: a device could not be made to stop using it.
    void leak() { mapped_ = false; }

private:
    kapi_map map_{};
    bool mapped_ = false;
};

// What a posted request uses, as its cookie: given away when it is posted, taken back at its completion. Owner is an Own.
template <class T, void (*Free)(T*)> [[nodiscard]] u64 lend(Own<T, Free> owner)
{
    return reinterpret_cast<usize>(owner.release());
}
template <class Owner> [[nodiscard]] Owner taken_back(u64 cookie)
{
    return Owner(reinterpret_cast<decltype(Owner().get())>(static_cast<usize>(cookie)));
}

} // namespace hw
