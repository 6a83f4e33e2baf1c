// SPDX-License-Identifier: GPL-2.0
// One connection of the connection manager, from the first request for it to its end: a path has one between each state `down`
// and the next. Its events only set bits and notify; the path's worker does the rest.
#pragma once

#include "private_data.h"
#include "receiver.h"
#include "region.h"
#include "ring_shares.h"
#include "sender.h"

namespace rds_rdma {

class RdmaNet;

class Link : Pinned {
public:
    // A connection that we ask for. Sleeps.
    static Result<Own<Link>> connect(RdmaNet& net, rds_conn* conn, const kapi_addr& local, const kapi_addr& remote, u8 tos);
    // One that the peer has asked for. Any context. Null: no memory.
    static Own<Link> asked(RdmaNet& net, kapi_cm* cm, const PrivateData& data, Version version, const kapi_cm_info& info,
                           const kapi_cm_offer& offer);
    // Sleeps. All ends: nothing of it is called any more, and nothing of the device is left.
    ~Link();

    // The path's owner's, from connect() on or from accept() on.
    enum class Step { up, waits, failed };
    Step step();
    Result<> accept();
    void began(); // the path is up
    rds_rdma_row row() const;
    Sender* sender() { return queues_ ? &queues_->sender : nullptr; }
    void resume();
    const Ref<Registrar>& registrar() const { return registrar_; }

    // It waits for its path, which is notified (RDS_PATH_ACCEPTED) when it ends. Any context.
    void wait_for(rds_conn* conn);
    bool has_ended() const { return seen_.load() & ended; }
    // The peer's host has ended or refused it. Then its RDS has no older one any more, which it would not know to be lost.
    bool has_ended_by_peer() const { return seen_.load() & ended_by_peer; }
    bool is_hawser() const { return peer_.is_hawser(); }
    u64 age_ns() const { return kapi_now_ns() - made_ns_; }
    const kapi_addr& local() const { return local_; }
    const kapi_addr& remote() const { return remote_; }
    u8 tos() const { return tos_; }

    Link* next = nullptr; // in its namespace's list

private:
    HW_MADE_BY_CREATE;
    Link(RdmaNet& net, const kapi_addr& local, const kapi_addr& remote, u8 tos, u8 retries)
        : net_(net), local_(local), remote_(remote), tos_(tos), made_ns_(kapi_now_ns()), retries_(retries)
    {
    }

    static constexpr u32 most_reads = 16;
    enum Seen : u32 { resolved = 1, established = 2, ended = 4, ended_by_peer = 8 };
    enum Role : u32 { unowned, waits, owned };
    struct Queues : Pinned {
        Queues(Counters& counters, rds_conn* conn, Domain& domain)
            : ends(counters, conn, domain), sender(ends), receiver(ends, sender)
        {
        }
        QueueEnds ends; // last to go
        Sender sender;
        Receiver receiver;
    };

    static void on_resolved(void* context, kapi_rdma_dev* dev);
    static void on_established(void* context, const void* data, kapi_size size);
    static void on_ended(void* context, const kapi_cm_end* end);
    static void on_sent(void* context, const kapi_wc* wcs, unsigned n);
    static void on_received(void* context, const kapi_wc* wcs, unsigned n);
    static const kapi_cm_ops cm_ops;
    void heard(u32 what, u32 events);

    Result<> make_queues();
    Result<> make_parts(Queues& queues);
    kapi_cm_options options(const AnyPrivate& data);
    Result<> ask();
    bool open_queues();
    void end_queues();

    RdmaNet& net_;
    const kapi_addr local_, remote_; // port 0
    const u8 tos_;
    const u64 made_ns_;
    rds_conn* conn_ = nullptr; // set before role_
    Atomic<u32> role_{unowned};
    Atomic<u32> seen_{0};
    CmEnd cm_;
    kapi_rdma_dev* dev_ = nullptr; // set before `resolved`
    PrivateData peer_{};           // what the peer said, set before `established` or at once
    Version version_ = proposed;
    u32 reads_in_ = most_reads, reads_out_ = most_reads; // at a time
    u8 retries_; // of the one who asks, for both
    DeviceUser user_;
    // The path's owner's:
    Ref<Registrar> registrar_;
    Own<Queues> queues_;
    Ring ring_; // its receives have so many buffers each:
    u32 buffers_ = 0;
    bool asked_ = false;
    bool accepted_ = false;
};

} // namespace rds_rdma
