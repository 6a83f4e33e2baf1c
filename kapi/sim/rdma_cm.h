// SPDX-License-Identifier: GPL-2.0
// Connections: what core holds of one, and what the two machines send each other.
#pragma once

#include "rdma.h"

namespace sim {

enum class CmState { resolving, resolved, request_sent, request_received, answered, established, disconnecting, over };

struct CmEvent {
    enum Kind { resolved, established, ended } kind;
    std::vector<unsigned char> data{};
    kapi_cm_end end{};
};

struct CmMessage {
    enum Kind { request, reply, ready, reject, disconnect, disconnected } kind;
    kapi_u64 from_cm, to_cm; // to_cm 0: nobody yet
    kapi_addr from, to;
    kapi_cm_space space = KAPI_CM_IP;
    std::vector<unsigned char> data{};
    kapi_u32 qpn = 0, reason = 0;
    std::size_t mtu = 0; // of the way there and back, as the asking side has it
    kapi_u8 reads_in = 0, reads_out = 0, retry = 0, rnr_retry = 0, tos = 0;
};

constexpr kapi_u32 kNobodyListens = 8, kStale = 10, kConsumer = 28; // reasons of a rejection
constexpr unsigned kCmTries = 16;
constexpr std::uint64_t kCmWaitNs = 4400 * kMillisecond;

} // namespace sim

struct kapi_cm {
    kapi_u64 id;
    sim::Node *node;
    kapi_net *net;
    kapi_rdma_dev *dev;
    kapi_cm_space space;
    kapi_addr local, remote;
    kapi_u8 tos = 0;
    sim::CmState state;
    kapi_cm_ops ops{};
    void *context = nullptr;
    kapi_qp *qp = nullptr;
    kapi_u64 listener = 0;       // that was asked; 0: we ask
    bool taken = false;          // by core, or made by it
    bool destroyed = false, delivering = false, ended = false;
    std::deque<sim::CmEvent> events{};
    sim::WaitList idle{};
    kapi_cm_options options{};   // without its data
    sim::CmMessage request{};    // of the peer
    sim::CmMessage last{};       // what we sent and may have to send again
    kapi_u64 peer = 0;
    unsigned sent = 0;
    std::uint64_t timer_serial = 0;

    bool is_over() const { return ended || state == sim::CmState::over; }
};

struct kapi_cm_listener {
    kapi_u64 id;
    sim::Node *node;
    kapi_net *net;
    kapi_cm_space space;
    kapi_addr addr;
    unsigned backlog;
    kapi_cm_listener_ops ops;
    void *context;
    std::deque<kapi_u64> waiting{}; // connections that were not reported to core
    bool delivering = false, closed = false;
    sim::WaitList idle{};

    bool matches(const kapi_net *of, kapi_cm_space by, const kapi_addr &to) const;
};

namespace sim {

// What is reported to core (rdma_cm_events.cc).
void cm_report(kapi_cm &cm, CmEvent event);
void cm_end(kapi_cm &cm, kapi_cm_why why, int error, kapi_u32 reason = 0, std::vector<unsigned char> data = {});
void cm_offer(kapi_cm_listener &listener, kapi_cm &cm);
kapi_cm *make_cm(kapi_net &net, kapi_rdma_dev &dev, kapi_cm_space space, CmState state);
void free_cm(kapi_cm &cm);

// What is sent to the peer (rdma_cm_wire.cc).
void cm_send(kapi_cm &cm, CmMessage::Kind kind, const void *data, std::size_t size, std::size_t padded, kapi_u32 reason = 0);
/** Sends it again until the state changes or nobody answers. */
void cm_send_until_answered(kapi_cm &cm, CmMessage::Kind kind, const void *data, std::size_t size, std::size_t padded);
void cm_use_options(kapi_cm &cm, const kapi_cm_options &options, const CmMessage &of_peer);

} // namespace sim
