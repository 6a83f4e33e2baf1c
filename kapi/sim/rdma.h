// SPDX-License-Identifier: GPL-2.0
// The RDMA devices of a simulated world, as its parts share them. Tests use what stands in rdma_control.h.
//
// The hardware runs in timers: what it does later names its object by a number that is never used twice, for by then the object
// may be gone.
#pragma once

#include <kapi/verbs.h>
#include <kapi/verbs_memory.h>
#include <kapi/verbs_queue.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "network.h"
#include "node.h"
#include "pages.h"
#include "rdma_control.h"

struct kapi_pin {
    sim::Node *node;
    unsigned char *bytes;
    std::size_t length;
    bool write;
    unsigned pages, mappings = 0;
    sim::TaskRef task{}; // whose stack they are on
};

namespace sim {

constexpr std::size_t kPageSize = 4096;
constexpr kapi_u64 kFirstDmaAddress = 0xd3a7'5c10'0000'0000; // of a device: other numbers do not look like it

struct DmaPiece {
    kapi_u64 address;                 // as the device sees it; never used twice
    unsigned char *bytes;
    std::size_t length;
    Page *page = nullptr;             // a counted one, of kapi_pages
    std::vector<unsigned char> bounce{}; // what the device sees, where it cannot reach the memory itself
};

using HostRanges = std::multimap<std::uintptr_t, std::uintptr_t>; // host memory: from, to

struct Mapping {
    kapi_u64 id;
    kapi_rdma_dev *dev;
    kapi_map_direction direction;
    std::vector<DmaPiece> pieces{};
    std::size_t length = 0;
    kapi_pin *pin = nullptr;
    unsigned posted = 0;              // requests that use it and have not completed
    std::vector<kapi_u32> regions{};  // indices of those that were ever made of it
    std::vector<HostRanges::iterator> host{};
};

/** A place where a mapping was. */
struct Unmapped {
    kapi_u64 end, when_ns;
    std::uint32_t task;
};

/** What a posted request uses until its completion is polled. */
struct Borrowed {
    unsigned slots = 0;
    std::vector<kapi_u64> mappings{};
    std::vector<kapi_u32> regions{};
    void add(Borrowed &&other);
};

struct Completion {
    kapi_wc wc{};
    kapi_u32 qpn = 0;
    bool recv = false, marker = false, solicited = false;
    Borrowed borrowed{};
};

enum class PacketKind { request, ack, nak_sequence, nak_not_ready, nak_access, nak_invalid, read_response, atomic_response };

struct RdmaPacket {
    kapi_u32 from = 0, to = 0; // queue pairs
    PacketKind kind = PacketKind::request;
    kapi_u64 psn = 0;
    kapi_u8 op = 0;            // enum kapi_wr_op
    bool first = false, last = false, solicited = false;
    kapi_u64 remote = 0;
    kapi_u32 key = 0, imm = 0;
    std::size_t length = 0;    // of a read: what is asked for
    kapi_u64 add_or_swap = 0, compare = 0, add_or_swap_mask = 0, compare_mask = 0;
    std::uint64_t timer_ns = 0; // of nak_not_ready
    std::vector<unsigned char> payload{};
};

struct SendEntry {
    kapi_wr wr{};
    std::vector<kapi_sge> sges{};
    std::vector<unsigned char> inline_bytes{};
    std::size_t length = 0, received = 0;
    kapi_u64 psn = 0, packets = 0;
    bool started = false, done = false;
    bool reported = false; // before it is done
    kapi_u32 mr_index = 0, mr_key = 0;
    Borrowed borrowed{};

    bool is_local() const { return wr.op == KAPI_WR_REGISTER || wr.op == KAPI_WR_INVALIDATE; }
    bool is_atomic() const { return wr.op >= KAPI_WR_ATOMIC_ADD && wr.op <= KAPI_WR_MASKED_SWAP; }
    bool is_answered() const { return wr.op == KAPI_WR_READ || is_atomic(); } // by more than an acknowledgement
};

struct RecvEntry {
    kapi_u64 cookie = 0;
    std::vector<kapi_sge> sges{};
    std::size_t length = 0;
    Borrowed borrowed{};
};

/** What goes back to a peer: a packet, or packets that a read is answered with, from index on. */
struct Answer {
    RdmaPacket packet;
    bool reads;
    kapi_u64 index;
};

enum class QpState { initial, ready, error }; // ready: messages go

} // namespace sim

struct kapi_rdma_dev {
    sim::Node *node;
    kapi_net *net;
    kapi_u32 ifindex;
    unsigned id;
    kapi_rdma_attrs attrs{};
    const kapi_net *only = nullptr; // this namespace may use it; null: each may
    std::vector<const kapi_net *> also{}; // namespaces beside net where it has an interface of the same number
    bool hides_links = false; // connections have no scope
    bool bounces = false;    // it does not reach memory itself, so a missing kapi_map_sync() shows
    bool bounces_shift = false; // its copies begin with a page, wherever the memory does
    std::size_t bounce_room = 0; // bytes
    unsigned refused = 0;    // the how manieth request to send from now on; 0: none
    unsigned failing = 0;    // the how manieth read that begins from now on; 0: none
    bool counts_not_ready = false; // as an answer that is missing, for a packet that is alone on its way
    int route_error = 0;     // why a connection is not resolved
    unsigned posted_late = 0; // receives, to failed queue pairs
    bool coming = false, going = false;
    bool stuck = false;      // broken: it does nothing any more
    std::uint64_t slow_ns = 0; // what a callback takes for each completion
    bool keeps_regions = false; // broken: it gives none up
    std::uint64_t held_until_ns = 0; // what it sends
    bool was_stuck = false;  // when a queue pair was drained the last time
    bool repeats_keys = false; // those of its regions are not random
    bool returns_late = false; // from kapi_qp_send(), as a task that another one interrupts: what it posted may have completed
    bool posts_late = false;   // as much before it
    bool sends_early = false;  // a send completes when it has left, before reads that were posted earlier
    bool copies_late = false;  // it writes into the memory of a region until that is freed, when it has begun before
    std::string awaited{};   // what its removal waits for
    std::map<std::string, unsigned> objects{}; // that were made of it
    sim::WaitList released{};
    std::map<kapi_u64, std::unique_ptr<sim::Mapping>> mappings{};
    std::map<kapi_u64, std::pair<sim::Mapping *, std::size_t>> by_address{};
    std::map<kapi_u64, sim::Unmapped> unmapped{};
    kapi_u64 next_address = sim::kFirstDmaAddress;
    std::map<kapi_u32, kapi_mr *> regions{};
    kapi_u32 next_region = 1;
    std::set<kapi_u32> on_demand_ended{}; // keys of regions that were on demand

    bool holds(const kapi_net *of, const kapi_addr &addr) const;
    bool is_usable(const kapi_net *by) const { return !only || only == by; }
    void made(const char *what);
    void gone(const char *what);
};

struct kapi_rdma_watcher {
    sim::Node *node;
    kapi_rdma_watch_ops ops;
    void *context;
    std::vector<kapi_rdma_dev *> added{}; // it was called for these
};

struct kapi_pd {
    kapi_rdma_dev *dev;
    kapi_u32 key; // local
    unsigned users = 0;
};

struct kapi_mr {
    kapi_rdma_dev *dev;
    kapi_pd *pd;
    kapi_u32 index, key; // key: index and 8 bits
    unsigned pages;
    bool gaps, on_demand = false, valid = false;
    bool was_valid = false; // since it was given its memory
    unsigned posted = 0; // requests that change it
    kapi_u64 mapping = 0, iova = 0;
    kapi_u64 program = 0; // on demand: the program's address of the first byte
    struct Range {
        kapi_u64 address;
        std::size_t length;
    };
    std::vector<Range> ranges{};
    std::size_t length = 0;
    kapi_u32 access = 0;
};

struct kapi_cq {
    kapi_u64 id;
    kapi_rdma_dev *dev;
    sim::Node *node;
    kapi_u32 entries;
    kapi_cq_mode mode;
    void (*done)(void *context, const kapi_wc *wcs, unsigned int n);
    void *context;
    std::deque<sim::Completion> queue{};
    bool busy = false;           // a task is going to call done(), or does
    bool stopped = false;        // a drain polls it, or a queue pair was freed that had not drained
    unsigned given = 0;          // completions that done() has returned for, and markers
    bool solicited_only = false; // a foreign peer's: it sleeps on unless it is asked to wake up
    unsigned qps = 0;
    unsigned taken = 0;          // places, by its queue pairs
    sim::WaitList idle{};
};

struct kapi_qp {
    kapi_u32 qpn;
    kapi_rdma_dev *dev;
    sim::Node *node;
    kapi_pd *pd;
    kapi_cm *cm;
    kapi_cq *send_cq, *recv_cq;
    void *context;
    kapi_qp_caps caps;
    sim::QpState state = sim::QpState::initial;
    bool draining = false, marked = false, undrained = false;
    unsigned marks = 0;          // markers of the drain that were polled
    sim::WaitList drained{};

    kapi_u32 peer = 0;           // its queue pair
    unsigned peer_node = 0;
    kapi_addr local{}, remote{};
    unsigned retry = 0, rnr_retry = 0, reads_in = 0, reads_out = 0;
    std::uint64_t ack_timeout_ns = 0, rnr_timer_ns = 0;
    std::size_t mtu = 1024;

    // The send queue.
    std::deque<sim::SendEntry> send{};
    unsigned send_outstanding = 0, recv_outstanding = 0; // slots in use
    sim::Borrowed unreported{};  // of requests that ended without a completion
    std::size_t cursor = 0;      // next to be sent: this entry,
    kapi_u64 cursor_packet = 0;  // and this of its packets
    kapi_u64 next_psn = 0, una = 0;
    unsigned retries = 0, rnr_retries = 0, reads_started = 0;
    bool stepping = false, waits_for_peer = false;
    std::uint64_t timer_serial = 0;

    // The receive queue, and what answers the peer.
    std::deque<sim::RecvEntry> recv{};
    kapi_u64 expected = 0;
    bool nak_sent = false;
    std::size_t recv_offset = 0;      // in the message that is being received
    std::deque<sim::Answer> answers{};
    bool answering = false;
    std::map<kapi_u64, kapi_u64> atomics{}; // results, for those that ask again
    std::uint64_t last_send_cqe_ns = 0, last_recv_cqe_ns = 0;
};

namespace sim {

/** All of a world's RDMA. */
struct Fabric {
    std::vector<std::unique_ptr<kapi_rdma_dev>> devices;
    std::vector<kapi_rdma_watcher *> watches; // in the order of registration
    std::map<unsigned, HostMutex> watching;    // by machine: watches are called for one device at a time
    std::map<kapi_u32, kapi_qp *> qps;
    std::map<kapi_u64, kapi_cq *> cqs;
    std::map<kapi_u64, kapi_cm *> cms;
    std::map<kapi_u64, kapi_cm_listener *> listeners;
    HostRanges mapped;
    kapi_u64 next_id = 1;
    unsigned next_device = 0;
    std::function<void(std::vector<unsigned char> &)> edit_request{}; // the private data of each

    kapi_qp *qp(kapi_u32 qpn) const;
    kapi_cq *cq(kapi_u64 id) const;
    kapi_cm *cm(kapi_u64 id) const;
};

/** Of the current world; made at the first use. */
Fabric &fabric();
/** An object on the account of its machine: reported when it is left. A crash of the machine destroys it. */
void account(Node &node, const char *what, void *object, void (*destroy)(void *));
void settle(Node &node, const char *what, void *object);

/** Something that hardware of node does after a time; later while the machine stands still, never after it crashed. */
void hardware_after(Node &node, std::uint64_t delay_ns, std::function<void()> act);
/** As Network::carry(), from a device, or from none. */
void carry_from(const kapi_rdma_dev *dev, const Node &from, Node &to, std::uint64_t flow, std::size_t size,
                std::function<void()> act);
/** A short time, now and then a long one. */
std::uint64_t some_time(std::uint64_t usual_ns, std::uint64_t seldom_ns);

// Memory (rdma_dma.cc). Each fails the run when the device has no business there.
void dma_read(kapi_rdma_dev &dev, kapi_u64 address, void *to, std::size_t length);
void dma_write(kapi_rdma_dev &dev, kapi_u64 address, const void *from, std::size_t length);
Mapping *find_mapping(const kapi_map *map, const char *call);
Mapping *mapping_at(kapi_rdma_dev &dev, kapi_u64 address);
/** Copies between pieces and bytes, from offset on. False: a piece's key is of a region that does not allow it. */
[[nodiscard]] bool gather(kapi_qp &qp, const std::vector<kapi_sge> &sges, std::size_t offset, void *to, std::size_t length);
[[nodiscard]] bool scatter(kapi_qp &qp, const std::vector<kapi_sge> &sges, std::size_t offset, const void *from,
                           std::size_t length);
/** Fails the run when a part of memory that is being freed is mapped. */
void expect_unmapped(const void *memory, std::size_t size);

/** May a program of the machine read, or write, there (rdma_pin.cc)? */
bool can_access(const Node &node, kapi_u64 address, std::size_t length, bool write);

// What peers get (rdma_shown.cc). Both fail the run.
/** None of the 64-bit numbers in bytes, in either order and at any place, is an address that the device uses. */
void expect_no_address(const kapi_rdma_dev &dev, const std::vector<unsigned char> &bytes);
/** The target of a read over iWARP, which the peer gets, too: nor the program's own address. */
void expect_hidden_target(kapi_rdma_dev &dev, const kapi_sge &sge);

// Regions (rdma_region.cc).
/** The region under key that allows all of this; null: none. */
kapi_mr *find_region(kapi_rdma_dev &dev, const kapi_pd *pd, kapi_u32 key, kapi_u64 address, std::size_t length, kapi_u32 access);
/** False: it is on demand, and the program has unmapped the memory, or may not write to it. */
[[nodiscard]] bool region_read(kapi_mr &mr, kapi_u64 address, void *to, std::size_t length);
[[nodiscard]] bool region_write(kapi_mr &mr, kapi_u64 address, const void *from, std::size_t length);
kapi_mr *region_of(kapi_rdma_dev &dev, kapi_u32 key); // by its index
bool execute_register(kapi_qp &qp, const SendEntry &entry);
bool execute_invalidate(kapi_qp &qp, kapi_u32 key);

// Completions (rdma_cq.cc).
/** Hardware: what becomes visible to the machine soon, in order for each queue. */
void complete(kapi_qp &qp, Completion completion);
void borrow(kapi_qp &qp, Borrowed &borrowed, const std::vector<kapi_sge> &sges);
void give_back(kapi_rdma_dev &dev, const Borrowed &borrowed);
void give_back_regions(kapi_rdma_dev &dev, const Borrowed &borrowed);
void expect_not_in_done(const char *call);
/** done() is called no more, and does not run when this returns. */
void stop(kapi_cq &cq);
/** The same, and it is called here for what is left. */
void finish(kapi_cq &cq);

// Queue pairs (rdma_qp.cc, rdma_send.cc, rdma_receive.cc).
void connect_qp(kapi_qp &qp, kapi_u32 peer, unsigned peer_node);
void fail_qp(kapi_qp &qp);   // all that is posted is flushed
void step_soon(kapi_qp &qp); // there may be something to send
void receive_packet(const RdmaPacket &packet);
void handle_request(kapi_qp &qp, const RdmaPacket &packet);
void handle_answer(kapi_qp &qp, const RdmaPacket &packet);
void send_packet(const kapi_qp &qp, RdmaPacket packet);

// Connections (rdma_cm.cc, rdma_cm_wire.cc).
void cm_queue_failed(kapi_cm &cm);
void cm_data_received(kapi_cm &cm);
void cm_remove_device(kapi_rdma_dev &dev);
void drop_rdma(const Node &node);
void drop_rdma(const kapi_net &net);

} // namespace sim
