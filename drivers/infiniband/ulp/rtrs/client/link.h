// SPDX-License-Identifier: GPL-2.0
// All connections of a path and what belongs to them, from the first one that is begun to the end of the last: the life of a
// path between one state `down` and the next. The path's worker makes it, takes it from step to step, and ends it.
#pragma once

#include "connection.h"

#include "../common/info.h"

namespace rtrs_clt {

class Path;
class Session;

// Of a chunk: what the server writes to when it has a read there.
struct ReadRegion {
    kapi_mr* mr;
    u32 last_key;    // with which it was registered, or made
    u64 last_serial; // of the connection over which that read was sent; 0: there was none
};

class Link : Pinned {
public:
    // Sleeps. Begins with the service connection. reconnects: how many links the path has had, modulo 2^16.
    static Result<Own<Link>> begin(Path& path, u16 reconnects);
    // end() was called.
    ~Link();

    // The worker's, all sleep.
    enum class Step { waits, up };
    // What can be done now. Fails as what it calls does; ETIMEDOUT: nothing happened for too long.
    Result<Step> step();
    u64 deadline_ns() const { return deadline_ns_; } // of what step() waits for
    bool makes_session() const { return makes_session_; } // the server, if it has none
    // From here to close() it takes requests.
    void open();
    void close();
    void send_heartbeat() { connections_.get()[0].send_heartbeat(); }
    // Since when the oldest of its requests is under way; now_ns: it has none, or none that began before.
    u64 oldest_ns(u64 now_ns) const;
    // All ends. Returns the requests that were not answered: nobody reads or writes their data any more. When there are any, the
    // server's end of it is waited for: see ask_for_end(), and with peer_answers wait_for_server().
    Io* end(bool peer_answers);

    // Any context.
    Connection& connection(u32 number) const { return connections_.get()[number]; }
    rtrs::wire::ConnectRequest connect_request(u32 number) const { return connect_request(number, reconnects_, makes_session_); }
    u32 request_immediate(u32 chunk, u32 offset) const;
    usize info_bytes_room() const;
    u32 info_bytes() const;
    void informed(u32 length); // the answer with the information was received
    void connection_over() { over_.wake(); }

    // From the answer of the service connection on.
    bool has_ios() const { return chunks_.get() != nullptr; }
    Device& device() const { return *device_; }
    kapi_pd* pd() const { return pd_.get(); }
    MessageMaps& maps() { return maps_; }
    rtrs::RemoteChunk& chunk(u32 index) { return chunks_.get()[index]; }
    ReadRegion& region(u32 index) const { return regions_.get()[index]; }
    bool whole_answers() const { return whole_answers_; } // the server sends them
    bool computes_keys() const { return computes_keys_; } // of chunks, which change with each answer

    Path& path;
    Session& session;

private:
    HW_MADE_BY_CREATE;
    enum class Phase { service, others, information, up };
    Link(Path& of, u16 reconnects);

    Result<> make_connections();
    Result<> step_service();
    Result<> make_parts(const rtrs::Offer& offer);
    Result<> make_regions(u32 depth);
    Result<> step_others();
    Result<> ask_for_information();
    Result<> read_information();
    Result<> enter_device(kapi_rdma_dev* dev);
    void progress();
    void wait_for_server();
    bool has_to_move() const;
    void ask_for_end(u64 began_ns);
    rtrs::wire::ConnectRequest connect_request(u32 number, u16 reconnects, bool first) const;
    void drain();
    Io* collect();
    static void free_chunks(rtrs::RemoteChunk* chunks) { kapi_free(chunks); }
    static void free_regions(ReadRegion* regions) { kapi_free(regions); }
    static void free_connections(Connection* connections) { kapi_free(connections); }

    const u16 reconnects_;
    bool makes_session_ = false; // from the request for the service connection on
    const u64 serials_; // of its connections, in a row
    Phase phase_ = Phase::service;
    u64 deadline_ns_ = 0;
    DeviceUser user_;
    Device* device_ = nullptr;
    ProtectionDomain pd_; // its own, so that no key is of use to another server
    u32 depth_ = 0;
    bool whole_answers_ = false, computes_keys_ = false;
    Own<rtrs::RemoteChunk, free_chunks> chunks_;
    Own<ReadRegion, free_regions> regions_;
    MessageMaps maps_;
    Own<Buffer> info_, question_;
    WaitQueue over_;          // of connections
    Atomic<u32> informed_{0}; // bytes of the information, and 1
    u32 made_ = 0, established_ = 0; // connections; the second number is step_others()'s
    Own<Connection, free_connections> connections_;
};

} // namespace rtrs_clt
