// SPDX-License-Identifier: GPL-2.0
// A TCP connection between a program here, which may give it to KCM, and a peer, which sends messages or garbage.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>
#include <vector>

#include "selftests/sim/kcm_ledger.h"

class KcmWire {
public:
    static constexpr std::size_t kLargest = 200'000; // of a message

    /** here and there are the ends' descriptors; sender is the peer in the ledger, place its receiver. */
    KcmWire(sim::Node &peer, KcmLedger &ledger, std::uint32_t sender, std::uint64_t place, int here, int there);
    KcmWire(const KcmWire &) = delete;
    KcmWire &operator=(const KcmWire &) = delete;

    // The peer. No call waits.

    /** A message of this size will be sent; it gets its number from compose(). */
    std::uint64_t compose(std::size_t size);
    /** These bytes will be sent, which are not a message. */
    void babble(const std::string &bytes);
    /** Sends at most this much of the composed data. */
    void write(std::size_t most = ~std::size_t{0});
    /** Reads available data, unless it is deaf. */
    void read_on();
    void finish(); // FIN
    void leave();  // closes
    bool deaf = false;
    bool holds = false; // sends only on request
    bool is_there() const { return there_ >= 0; }
    std::size_t unsent() const { return out_.size(); }

    // The program here.

    int fd() const { return here_; } // -1: closed
    bool is_open() const { return here_ >= 0; }
    bool taken_over() const { return socket_->adopted; }
    sim::ProgramSocket &socket() { return *socket_; }
    const kapi_addr &local() const { return socket_->tcb->local; }
    const kapi_addr &remote() const { return socket_->tcb->remote; }
    kapi_net *net() const { return socket_->tcb->net; }
    /** Without KCM: reads available messages. If a part remains, the wire must not go to KCM again. */
    void read_plain();
    /** One message without KCM. False when nothing was sent. */
    bool write_plain(std::uint32_t own_sender);
    bool has_plain_rest() const { return !plain_.empty(); }
    void close_here();

    /** The network ends it, for those who notice. */
    void reset(sim::Sees sees);
    /** Both ends can send and receive. */
    bool is_alive() const;
    /** A message above the size limit ends the connection. */
    void limit(std::size_t bytes);
    bool is_too_large() const { return largest_ > limit_; }
    /** True if the peer got a message of this sender. */
    bool has_received(std::uint32_t of) const { return ledger_.has_come(place_, of); }

    // Faults so far.

    bool excused = false;  // it may end, or messages on it may be lost, by no fault of KCM
    bool in_frame = true;  // the peer sends messages, and all readers are in frame
    const void *owner = nullptr; // the state of its last multiplexor
    bool lossy = false;    // the peer's data may be lost without an end

    const std::uint32_t sender; // the peer's

private:
    void cut_frames(std::string &bytes, std::uint64_t place);

    sim::Node &peer_;
    KcmLedger &ledger_;
    const std::uint64_t place_;
    int here_, there_;
    sim::ProgramSocketRef socket_;
    sim::TcbRef peers_tcb_;
    std::string out_, in_, plain_;
    std::size_t largest_ = 0, limit_ = ~std::size_t{0};
};
