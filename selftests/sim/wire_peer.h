// SPDX-License-Identifier: GPL-2.0
// A peer that sends raw RDS over TCP: a test controls each sent byte, and gets all received data.
#pragma once

#include <kapi/sim/sim.h>
#include <kapi/stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "net/rds/wire.h"

/** One stream to the victim. Calls that wait need a task of the peer's node, others any task. */
class WireStream {
public:
    struct Received {
        rds::Header header;
        std::string payload;
    };

    explicit WireStream(sim::Node &node) : node_(node) {}
    ~WireStream() { close(true); }
    WireStream(const WireStream &) = delete;
    WireStream &operator=(const WireStream &) = delete;

    /** Connects from a port, which encodes the path (port modulo 8). False on failure. */
    bool connect(const kapi_addr &from, const kapi_addr &to, std::uint64_t wait_ns = 5 * sim::kSecond);
    /** Begins to connect, and does not wait. False on failure. */
    bool start(const kapi_addr &from, const kapi_addr &to);
    /** Accepts a stream. False when there is none. */
    bool accept(kapi_listener *listener);
    /** Uses an accepted stream. */
    void adopt(kapi_stream *stream);
    void close(bool abort);
    void shut(); // sends no more, and still receives
    bool is_up() const { return is_usable() && up_; }
    bool is_usable() const { return stream_ && !gone_; } // up, or may come up
    bool is_gone() const { return gone_; }

    bool deaf = false;                       // reads nothing: its window closes
    void read_on();                             // reads again
    std::uint64_t patience_ns = KAPI_FOREVER; // how long send() waits for a peer that does not read

    /** Sends bytes; false when the stream or patience ends before all are sent. */
    bool send(const void *bytes, std::size_t size);
    /** The same without waiting: flush() sends the rest, unless that is far too large. */
    void queue(const void *bytes, std::size_t size);
    void flush();
    bool has_more() const { return is_usable() && !out_.empty(); }
    bool message(kapi_u64 sequence, kapi_u16 sport, kapi_u16 dport, const std::string &payload, unsigned flags = 0);
    /** A hawser peer's handshake and answer at the start of a stream. */
    bool handshake(bool is_reply, kapi_u32 generation, unsigned path, kapi_u32 memory);

    /** Received and not yet returned by next() or take(). Handshakes and messages, no congestion maps. */
    const std::deque<Received> &received() const { return received_; }
    std::deque<Received> take() { return std::exchange(received_, {}); }
    unsigned maps() const { return maps_; }
    /** Waits for the next one; an empty payload and zeroed header on time-out. */
    Received next(std::uint64_t wait_ns = 5 * sim::kSecond);
    /** Waits until condition() or the time is over. */
    bool wait(const std::function<bool()> &condition, std::uint64_t wait_ns = 5 * sim::kSecond);

private:
    static const kapi_stream_ops kOps;
    static constexpr std::size_t kMostQueued = 8 << 20;
    void begin();
    void parse();

    sim::Node &node_;
    kapi_stream *stream_ = nullptr;
    bool up_ = false, gone_ = false;
    std::string bytes_; // received, not parsed yet
    std::string out_;   // to be sent when there is room
    std::deque<Received> received_;
    unsigned maps_ = 0;
};
