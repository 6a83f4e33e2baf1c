// SPDX-License-Identifier: GPL-2.0
// The parameters of a run of KCM, from its seed.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>

struct KcmProfile {
    explicit KcmProfile(sim::Random &random);
    bool plain;                      // the second machine's programs use TCP without KCM
    bool churn;                      // sockets are made and closed, disabled, connections unattached and attached
    bool bad_memory;                 // of programs: faults and stalls
    bool seqpacket;                  // sockets are SOCK_SEQPACKET, and read in parts
    bool splices;                    // programs send and receive by splice()
    bool answers;                    // some messages go to the last sender
    bool lengths;                    // programs send and receive several messages in a call
    unsigned falls;                  // of machines: crashes, the module is removed, a namespace ends
    unsigned connections, sockets, messages;
    std::size_t largest;
    kapi_u32 sndbuf, rcvbuf, tcp_sndbuf, tcp_rcvbuf;
    std::uint64_t reset_after;       // bytes of a connection; 0: none breaks
    std::uint64_t fail_one_in;       // allocations
    int steering;

    static constexpr std::size_t kLargest = 200'000; // of any message
    /** Senders may find that their required connection is gone. */
    bool may_refuse() const { return answers && churn; }
    /** Connections end without an error of KCM. */
    bool may_break() const { return reset_after || fail_one_in || falls; }
    /** No message moves from one socket to another. */
    bool keeps_order() const { return !churn && !falls; }
    std::string describe() const;
};
