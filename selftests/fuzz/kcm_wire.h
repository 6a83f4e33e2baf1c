// SPDX-License-Identifier: GPL-2.0
// A TCP connection between a program here, which may give it to KCM, and a peer, who speaks messages or says what it likes.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>
#include <vector>

#include "selftests/sim/kcm_ledger.h"

class KcmWire {
public:
    static constexpr std::size_t kLargest = 200'000; // of a message

    /** here and there are the ends' descriptors; sender is what the peer is in the ledger, place where it receives. */
    KcmWire(sim::Node &peer, KcmLedger &ledger, std::uint32_t sender, std::uint64_t place, int here, int there);
    KcmWire(const KcmWire &) = delete;
    KcmWire &operator=(const KcmWire &) = delete;

    // The peer. Nothing of it waits.

    /** A message of this size will be sent; it is the number that compose() gives it. */
    std::uint64_t compose(std::size_t size);
    /** These bytes will be sent, which are no message. */
    void babble(const std::string &bytes);
    /** Sends at most so much of what is composed. */
    void write(std::size_t most = ~std::size_t{0});
    /** Reads what is there, unless it is deaf. */
    void hear();
    void finish(); // FIN
    void leave();  // closes
    bool deaf = false;
    bool holds = false; // sends only when it is told to
    bool is_there() const { return there_ >= 0; }
    std::size_t unsent() const { return out_.size(); }

    // The program here.

    int fd() const { return here_; } // -1: it closed it
    bool is_open() const { return here_ >= 0; }
    bool taken_over() const { return socket_->adopted; }
    sim::ProgramSocket &socket() { return *socket_; }
    const kapi_addr &local() const { return socket_->tcb->local; }
    const kapi_addr &remote() const { return socket_->tcb->remote; }
    kapi_net *net() const { return socket_->tcb->net; }
    /** Without KCM: what is there, message by message. From then on it is not for KCM any more when a part is left. */
    void read_plain();
    /** One message without KCM. False when nothing of it was taken. */
    bool write_plain(std::uint32_t own_sender);
    bool has_plain_rest() const { return !plain_.empty(); }
    void close_here();

    /** The network ends it, for those who see that. */
    void reset(sim::Sees sees);
    /** Both ends can send and receive. */
    bool is_alive() const;
    /** A message that is larger than what is read of one ends the connection. */
    void limit(std::size_t bytes);
    /** Whether the peer got a message of this sender. */
    bool has_heard(std::uint32_t of) const { return ledger_.has_come(place_, of); }

    // What was done to it.

    bool excused = false;  // it may end, or messages on it may be lost, by no fault of KCM
    bool in_frame = true;  // the peer says messages, and nobody takes them for something else
    const void *owner = nullptr; // what is known of the multiplexor that got it last
    bool lossy = false;    // what the peer said may be lost without an end

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
