// SPDX-License-Identifier: GPL-2.0
// A program's KCM socket for a fuzzer, with a record of messages that it must receive and of sent ones that must arrive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "selftests/fuzz/kcm_wire.h"
#include "selftests/sim/kcm_host.h"

/** The state of a multiplexor. */
struct KcmMuxNote {
    std::vector<KcmWire *> wires; // all, also unattached ones
    unsigned open = 0;            // sockets
    bool moved = false;           // messages went from one socket to another, so that each sees them out of order
    bool out_of_frame() const;
    bool has_connection() const;
    /** Unread messages may be lost. */
    void lose();
    bool excused() const; // a connection may have taken messages with it
};

/** A message that was sent. */
struct KcmSent {
    std::shared_ptr<KcmMuxNote> mux;
    std::uint32_t sender;
    std::uint64_t number;
    std::uint64_t wanted;  // id of its required connection; 0: any
    std::uint64_t place;   // of its socket
    bool closed = false;   // the socket
    bool excused = false;
};

/** Shared by all. */
struct KcmBooks {
    KcmLedger ledger;
    std::vector<KcmSent> sent;
    std::uint32_t next_sender = 1;
    std::uint64_t next_place = 1;
    bool memory_fails = false; // now
    unsigned starved = 0;      // times that it began to fail
    unsigned starved_before_now() const { return starved - memory_fails; }

    /** A connection (0: any) is over or unattached: its unsent and partly sent messages are refused. */
    void excuse_wanted(std::uint64_t id);
    std::vector<std::uint64_t> over; // the ids of these calls
    /** Its multiplexor has no connection: unsent messages of closed sockets are lost. */
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
    /** Waits for threads in a call. */
    void close();
    bool is_open() const { return socket.is_open(); }

    struct Sending {
        std::size_t size;             // of the message, when this call begins one
        std::size_t part;             // of it at most
        bool ends = true;             // the message, if the part is its rest
        unsigned flags = 0;           // MSG_DONTWAIT, MSG_BATCH
        bool spliced = false;
        std::uint64_t wanted = 0;     // id of a connection
        sim::Trouble trouble{};
    };
    /** A part of a message, or all. False when it failed, and then nothing of it was taken. */
    bool send(const Sending &sending);
    /** A separate whole message. Returns the result of sendmsg(). */
    long send_alone(const Sending &sending);
    bool is_building() const { return !message_.empty(); }
    /** An empty call, which ends a complete message, and sends held ones. */
    long flush();

    struct Receiving {
        std::size_t size;
        unsigned flags = 0;
        bool spliced = false;
        std::size_t control_room = 64; // 0: for one message
        sim::Trouble trouble{};
    };
    /** The result of recvmsg(). */
    long receive(const Receiving &receiving);
    /** MSG_PEEK, and then a real receive: both must agree. */
    void look_and_receive(std::size_t size);
    /** poll() is called before non-blocking calls: it must not report too much. */
    void poll_and_call(bool sends);

    KcmSocket socket;
    std::shared_ptr<KcmMuxNote> mux;
    unsigned users = 0; // threads in a call, without the course

private:
    void begin(std::shared_ptr<KcmMuxNote> of);
    unsigned flags_of(const Sending &sending, bool ends) const;
    void begin_message(const Sending &sending);
    void end_message();
    /** What was begun is given up with its connection: its rest, sent without an address, would be another message. */
    bool is_lost();
    /** starved_before: starved_before_now() when the call began. */
    void check_failure(long result, const sim::Trouble &trouble, unsigned starved_before) const;
    /** over_before: the number of ended connections when the message was begun. */
    void sent(std::uint32_t sender, std::uint64_t wanted, std::size_t over_before);
    void take_all(const KcmSocket::Received &received, const std::string &read);
    void take_whole(std::string bytes, bool cut, std::uint64_t connection);

    KcmBooks &books_;
    bool datagram_ = true;
    std::uint32_t sender_ = 0;
    std::uint64_t place_ = 0;
    std::vector<unsigned char> message_; // being sent
    std::size_t at_ = 0;
    std::uint64_t wanted_ = 0;           // by its first part
    std::size_t over_before_ = 0;        // connections, when it was begun
    std::string assembly_;               // the read part of a message
    std::vector<unsigned char> memory_;  // for the next receive
    unsigned readers_ = 0;
    bool mixed_ = false;                 // two read at the same time: each may have parts of any message
};
