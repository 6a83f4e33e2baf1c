// SPDX-License-Identifier: GPL-2.0
// A program's KCM socket for a fuzzer, which knows what it must receive and what must arrive of what it sends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "selftests/fuzz/kcm_wire.h"
#include "selftests/sim/kcm_host.h"

/** What is known of a multiplexor. */
struct KcmMuxNote {
    std::vector<KcmWire *> wires; // that it ever had
    unsigned open = 0;            // sockets
    bool moved = false;           // messages went from one socket to another, so that each sees them out of order
    bool out_of_frame() const;
    bool has_connection() const;
    /** What the sockets have not read may be lost. */
    void lose();
    bool excused() const; // a connection may have taken messages with it
};

/** A message that was sent. */
struct KcmSent {
    std::shared_ptr<KcmMuxNote> mux;
    std::uint32_t sender;
    std::uint64_t number;
    std::uint64_t wanted;  // id of the connection that it has to take; 0: any
    std::uint64_t place;   // of its socket
    bool closed = false;   // its socket is
    bool excused = false;
};

/** Whom many have in common. */
struct KcmBooks {
    KcmLedger ledger;
    std::vector<KcmSent> sent;
    std::uint32_t next_sender = 1;
    std::uint64_t next_place = 1;
    bool memory_fails = false; // now

    /** A connection (0: any) is over or unattached: what had to take it is refused, also what is not yet sent whole. */
    void excuse_wanted(std::uint64_t id);
    std::vector<std::uint64_t> over; // all ids that were said so
    /** Its multiplexor has no connection any more: what closed sockets have not sent has nowhere to go. */
    void excuse_closed(const KcmMuxNote &mux);
};

class KcmSlot {
public:
    KcmSlot(KcmHost &host, KcmBooks &books) : socket(host), books_(books) {}
    ~KcmSlot() { close(); }
    KcmSlot(const KcmSlot &) = delete;
    KcmSlot &operator=(const KcmSlot &) = delete;

    void open(kapi_net &net, int type);
    void clone(KcmSlot &of);
    /** Waits for those who are in a call. */
    void close();
    bool is_open() const { return socket.is_open(); }

    struct Sending {
        std::size_t size;             // of the message, when this call begins one
        std::size_t part;             // of it at most
        bool ends = true;             // the message, if the part is all that is left
        unsigned flags = 0;           // MSG_DONTWAIT, MSG_BATCH
        bool spliced = false;
        std::uint64_t wanted = 0;     // id of a connection
        sim::Trouble trouble{};
    };
    /** A part of a message, or all. False when it failed, and then nothing of it was taken. */
    bool send(const Sending &sending);
    /** A whole message that is no part of the others', beside them. What sendmsg() returned. */
    long send_alone(const Sending &sending);
    bool is_building() const { return !message_.empty(); }
    /** An empty call, which ends a message that has nothing left, and sends what is held. */
    long flush();

    struct Receiving {
        std::size_t size;
        unsigned flags = 0;
        bool spliced = false;
        sim::Trouble trouble{};
    };
    /** What recvmsg() returned. */
    long receive(const Receiving &receiving);
    /** A look, and then the same in earnest: it must be what was seen. */
    void look_and_receive(std::size_t size);
    /** poll() is asked before calls that do not wait: it must not promise too much. */
    void poll_and_call(bool sends);

    KcmSocket socket;
    std::shared_ptr<KcmMuxNote> mux;
    unsigned users = 0; // in a call, beside the course

private:
    void begin(std::shared_ptr<KcmMuxNote> of);
    unsigned flags_of(const Sending &sending, bool ends) const;
    void check_failure(long result, const sim::Trouble &trouble) const;
    /** over_before: how many connections were over when the message was begun. */
    void sent(std::uint32_t sender, std::uint64_t wanted, std::size_t over_before);
    void take_whole(std::string bytes, bool cut, std::uint64_t connection);

    KcmBooks &books_;
    bool datagram_ = true;
    std::uint32_t sender_ = 0;
    std::uint64_t place_ = 0;
    std::vector<unsigned char> message_; // that is being sent
    std::size_t at_ = 0;
    std::uint64_t wanted_ = 0;           // by its first part
    std::size_t over_before_ = 0;        // connections, when it was begun
    std::string assembly_;               // what was read of a message
    std::vector<unsigned char> memory_;  // for whoever receives next
    unsigned readers_ = 0;
    bool mixed_ = false;                 // two read at the same time: each may have parts of any message
};
