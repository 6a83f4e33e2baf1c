// SPDX-License-Identifier: GPL-2.0
// TCP as a program can observe it: bytes that are accepted, acknowledged and read are three different things; windows
// close; a connection can be half open, half closed, reset at any byte, or alive with a silent peer.
#pragma once

#include <kapi/stream.h>

#include <deque>
#include <memory>
#include <string>

#include "network.h"
#include "pages.h"

struct kapi_listener;

namespace sim {

struct Payer;

/** Until something that was sent first is sent again, before a round trip was measured. */
constexpr std::uint64_t kFirstRetransmitNs = 200 * kMillisecond;

/** Bytes accepted from the core: a copy, or a reference to pages that must not change until acknowledged. */
struct Piece {
    kapi_u32 seq;
    kapi_u32 length;
    std::vector<unsigned char> copied;
    PageRef page;
    kapi_u32 offset;
    std::uint64_t sum;

    const unsigned char *bytes() const { return page ? page->data() + offset : copied.data(); }
};

enum class TcpState { syn_sent, syn_received, established, time_wait, closed };

inline bool before(kapi_u32 a, kapi_u32 b)
{
    return static_cast<kapi_s32>(a - b) < 0;
}

/** One end of a connection. The public part is for kapi/sim's stream.cc; packets come in through receive(). */
struct Tcb : std::enable_shared_from_this<Tcb> {
    Tcb(World &world, kapi_net &net, const kapi_addr &local, const kapi_addr &remote);

    World &world;
    std::list<TcbRef>::iterator place; // in the network's list
    kapi_net *net;
    Node *node;
    const unsigned life; // of its machine: after a crash its timers do nothing
    kapi_addr local, remote;
    std::uint32_t id;
    TcpState state = TcpState::closed;
    HostMutex lock; // the socket's owner lock: callbacks, calls and packets take turns

    // Set by core.
    kapi_stream_options options{};
    kapi_stream_ops ops{};
    void *context = nullptr;
    bool attached = false; // callbacks may run
    bool orphan = false;   // its owner closed it; it lives until its bytes are out
    bool of_program = false; // a program's own: it has buffers although nothing is attached
    std::shared_ptr<Payer> payer; // of what arrives on that
    bool told_established = false, told_eof = false, told_closed = false;
    int error = 0;         // why it closed, negative

    // Sending.
    kapi_u32 una, next, write_seq;
    kapi_u32 sent_max;     // after the last byte ever sent: `next` goes back when something was lost
    kapi_u32 peer_right;   // right edge of the peer's window
    kapi_u32 segment_size; // largest payload of a packet
    kapi_u32 on_the_way = kNoLimit; // at most, since something was lost: grows with each acknowledgement
    std::deque<Piece> out;
    bool fin_queued = false, fin_sent = false, fin_acked = false;
    bool wants_room = false;
    bool holds_back = false; // a partial packet waits for more bytes, for an acknowledgement, or for the timer
    std::uint64_t appended_ns = 0; // when bytes came last
    std::uint64_t promise_due_ns = 0; // when the owner's promise of more is looked at; 0: there is none
    std::uint64_t reset_budget = 0; // bytes until the network resets the connection; 0: never
    Sees reset_seen = Sees::both;

    // Receiving.
    kapi_u32 rcv_next = 0, rcv_right = 0; // expected; advertised right edge
    std::deque<std::vector<unsigned char>> in; // as the packets brought them
    std::size_t in_taken = 0;                  // of the first
    std::size_t unread = 0;
    bool fin_received = false, fin_received_first = false;
    bool declined = false; // rx() took less than was offered: wait for resume

    // Timers and life signs.
    TimerId timer;
    bool timer_retransmits = false; // or probes a closed window
    unsigned backoff = 0, retries = 0, probes = 0;
    std::uint64_t retries_since_ns = 0;
    std::uint64_t retransmit_ns;       // without an acknowledgement; grows with the round trips
    std::uint64_t shortest_trip_ns = 0; // 0: not known
    kapi_u32 timed_seq = 0;            // acknowledged: a round trip is over
    std::uint64_t timed_since_ns = 0;  // 0: none is measured
    std::uint64_t last_heard_ns; // on the machine's clock
    kapi_u32 recover = 0; // no second fast retransmission before this is acknowledged

    kapi_listener *listener = nullptr; // while it waits to be accepted

    // Events that came in and wait for their turn under the lock.
    struct Input {
        enum Kind { packet, timeout, lost, promise } kind;
        PacketRef data{};
        int error = 0;
    };
    std::deque<Input> inbox;
    TaskRef worker;

    void connect();
    void post(Input input);               // from the network, a timer or a test
    /** Appends up to what the buffer has room for; returns bytes taken. With the lock held. */
    kapi_size append(const kapi_segment *segments, unsigned int count);
    void push();                          // sends what the peer's window allows
    void watch_promise();                 // the owner said that more follows at once
    void set_timer();
    /** The next retransmission or window probe is no later than this from now, or than three round trips. */
    void limit_back_off(std::uint64_t limit_ns);
    void reset_peer();                    // RST
    void queue_fin();
    void deliver();                       // offers unread bytes to rx()
    void consume(std::size_t size);       // the first ones
    void put_back(std::vector<unsigned char> bytes); // before the first ones
    void forget_unread();
    void tell_pending();                  // events that were not delivered because no program or core was attached
    void announce_window();               // after reading: the window has opened
    void close(int why);                  // no packet goes in or out any more
    kapi_u32 room() const;
    kapi_u32 rcvbuf() const
    {
        if (!attached && !orphan && !of_program)
            return kFirstWindow;
        return options.rcvbuf ? options.rcvbuf : kDefaultBuffer;
    }
    kapi_u32 sndbuf() const { return options.sndbuf ? options.sndbuf : kDefaultBuffer; }

    static constexpr kapi_u32 kNoLimit = 1u << 30;
    static constexpr kapi_u32 kDefaultBuffer = 256 * 1024;
    static constexpr kapi_u32 kFirstWindow = 65535; // before the size of the buffer is set

private:
    void work();
    void handle(const Input &input);
    void handle_packet(const Packet &packet);
    void handle_syn_sent(const Packet &packet);
    bool handle_syn_received(const Packet &packet);
    void handle_ack(const Packet &packet);
    void handle_data(const Packet &packet);
    void handle_timeout();
    void probe();
    void check_promise();
    bool is_predicted(const Packet &packet) const;
    void release_acked();
    void measure_round_trip();
    void slow_down();
    void send_packet(Packet packet) const;
    void send_data(kapi_u32 length);
    void send_syn();
    void send_reset(kapi_u32 seq);
    void send_ack(kapi_u32 seq);
    bool push_one();
    bool trim(Packet &packet);
    std::uint64_t timeout_ns() const;
    void set_timer(std::uint64_t when);
    void tell(kapi_stream_event event, int why);
    void tell_acked();
    void established();
    void finish_if_both_closed();
    void network_reset();
    void copy_out(kapi_u32 seq, unsigned char *to, kapi_u32 length) const;
    static void verify(const Piece &piece);
    kapi_u32 window() const;
};

} // namespace sim

/** What core holds: gone when core closes it, so that a use after close is a use after free. */
struct kapi_stream {
    sim::TcbRef tcb;
    sim::ProgramSocketRef socket; // that was adopted; null when the stream is core's own
};

struct kapi_listener {
    kapi_net *net;
    kapi_addr addr;
    unsigned backlog;
    void (*ready)(void *context);
    void *context;
    std::deque<sim::TcbRef> queue; // established, not accepted
    unsigned embryos = 0;
    unsigned calls = 0;            // ready() that runs
    unsigned accepting = 0;        // kapi_accept() that runs
    sim::WaitList idle;
    bool stopped = false;
    bool destroyed = false; // by destroy_listeners()

    /** Calls ready(), unless it is stopped; with the lock of child, or null. */
    void notify(const sim::Tcb *child);
    bool matches(const kapi_net *packet_net, const kapi_addr &to) const;
};

struct kapi_rx {
    const sim::Tcb *tcb;
    const unsigned char *bytes;
    kapi_size length;
};
