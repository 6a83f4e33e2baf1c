// SPDX-License-Identifier: GPL-2.0
// A transport that only notes what it is called for.
#pragma once

#include "rds_test.h"

#include <functional>
#include <vector>

#include "net/rds/connection.h"

/** What the transport was called for, and what it answers. */
struct Noted {
    static constexpr unsigned kPaths = 4;
    struct Send {
        unsigned path;
        kapi_u32 bytes;
        bool more, gathers;
    };
    std::vector<Send> sent;
    std::vector<std::uint64_t> ticks[kPaths], resumed; // when, and of which path
    std::vector<unsigned> connected;                   // paths, one after the other
    std::vector<std::uint64_t> connected_ns, closed_ns; // when
    int connect = 0, established = 1;                   // what it answers
    rds_closing close = RDS_CLOSED;
    std::function<void()> after_send = [] {};
    kapi_u32 sequence = 0;
    rds_conn *made = nullptr; // the connection that was made last

    static Noted &of(void *state) { return *static_cast<Noted *>(state); }
    static inline Noted *present = nullptr;
};

inline kapi_s64 note_send(void *state, unsigned int path, const kapi_segment *segments, unsigned int count,
                          unsigned int flags, kapi_u32 *end_seq)
{
    Noted &noted = Noted::of(state);
    kapi_u32 bytes = 0;
    for (unsigned int i = 0; i < count; i++)
        bytes += segments[i].length;
    noted.sent.push_back({path, bytes, (flags & KAPI_STREAM_MORE) != 0, (flags & KAPI_STREAM_GATHER) != 0});
    noted.after_send();
    *end_seq = noted.sequence += bytes;
    return bytes;
}

inline void *note_connection(rds_conn *conn, kapi_net *, const kapi_addr *, const kapi_addr *, kapi_u8, kapi_alloc_mode)
{
    Noted::present->made = conn;
    return Noted::present;
}

inline rds_transport noting_transport()
{
    rds_transport transport{};
    transport.name = "noting";
    transport.type = RDS_TRANSPORT_TCP;
    transport.max_paths = Noted::kPaths;
    transport.check_local = [](kapi_net *, const kapi_addr *) { return 0; };
    transport.create = note_connection;
    transport.destroy = [](void *) {};
    transport.connect = [](void *state, unsigned int path) {
        Noted &noted = Noted::of(state);
        noted.connected.push_back(path);
        noted.connected_ns.push_back(kapi_now_ns());
        return noted.connect;
    };
    transport.established = [](void *state, unsigned int) { return Noted::of(state).established; };
    transport.adopt = [](void *, unsigned int) { return 0; };
    transport.has_accepted = [](void *, unsigned int) { return RDS_NO_STREAM_WAITS; };
    transport.close = [](void *state, unsigned int, rds_close_mode mode) {
        Noted &noted = Noted::of(state);
        noted.closed_ns.push_back(kapi_now_ns());
        return mode == RDS_CLOSE_AT_ONCE ? RDS_CLOSED : noted.close;
    };
    transport.send = note_send;
    transport.resume = [](void *state, unsigned int) { Noted::of(state).resumed.push_back(kapi_now_ns()); };
    transport.tick = [](void *state, unsigned int path) {
        Noted::of(state).ticks[path].push_back(kapi_now_ns());
        return RDS_TICK_ANSWERED;
    };
    return transport;
}
