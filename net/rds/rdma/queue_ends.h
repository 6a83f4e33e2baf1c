// SPDX-License-Identifier: GPL-2.0
// What the two directions of a connection share: its queue pair, and who may still post to it.
#pragma once

#include "device.h"
#include "stats.h"

#include "../wire.h"

#include <hawser/atomic.h>

namespace rds_rdma {

using rds::Header;

inline constexpr u32 header_size = RDS_HEADER_SIZE; // in front of each

// How the messages of a connection are split. The kernel's own has fragments of 4096 bytes behind a header. Between hawser hosts
// a fragment fills several buffers: each is a request, a completion at both ends, and an acknowledgement of the device.
struct Fragments {
    bool to_hawser = false;
    u32 buffers = 1;

    // The payload of each fragment but the last, of a message of so many bytes. With its header it fills packets of 4096 bytes,
    // so that none has a last packet of 48 bytes. In a short message one fragment more costs more than those packets.
    constexpr u32 size(u32 length) const
    {
        u32 whole = buffers * fragment_size;
        return to_hawser && length > max(3 * fragment_size, whole) ? whole - header_size : whole;
    }
    constexpr u32 count(u32 length) const
    {
        u32 fragment = size(length);
        return max(1u, (length + fragment - 1) / fragment);
    }
};

struct QueueEnds : Pinned {
    QueueEnds(Counters& n, rds_conn* c, Domain& d) : counters(n), conn(c), domain(d), device(d.device) {}
    Counters& counters;
    rds_conn* const conn;
    Domain& domain;
    Device& device;
    CompletionQueue send_cq, recv_cq;
    QueuePair qp;
    Fragments fragments; // set when the peer is known, before anything is sent or handled
    bool may_read = false; // set before that: the peer answers at least one request at a time that reads
    // From any context other than the path's owner it is posted under this lock, and only while the end is open.
    Spin<PostLock> lock;
    bool open HW_GUARDED_BY(lock) = false;
    Atomic<u64> ack{0}; // the number of the last message that was received

    // Any context. The connection is of no use any more.
    void lost() { rds_path_notify(conn, 0, RDS_PATH_LOST); }
    // The same, with this status of a request, and nothing more is posted from other contexts than the path's owner. One that
    // says why is logged; there is hardly more than one, since the requests behind it are flushed.
    void failed(kapi_wc_status status);
    void close()
    {
        Guard guard(lock);
        open = false;
    }
    bool is_open()
    {
        Guard guard(lock);
        return open;
    }
};

// The checksum of a header, whose field for it is 0; or, with the field as it was received, 0.
u16 header_checksum(const Header& header);

// Memory for headers, one for each slot of a ring, that the device may use.
class Headers : Pinned {
public:
    // ENOMEM; EIO: the device does not see it in one piece.
    Result<> make(Domain& domain, u32 count, kapi_map_direction direction);
    Header& at(u32 index) { return memory_.get()[index]; }
    void sync(u32 index, kapi_map_side side)
    {
        kapi_map_sync(map_.c(), index * sizeof(Header), sizeof(Header), side);
    }
    kapi_sge sge(u32 index) const { return {all_.address + index * sizeof(Header), sizeof(Header), all_.key}; }
    // The device may use it for ever.
    void abandon()
    {
        map_.leak();
        static_cast<void>(memory_.release());
    }

private:
    static void release(Header* memory) { kapi_free(memory); }
    Own<Header, release> memory_;
    Mapping map_;
    kapi_sge all_{}; // as the device sees it
};

} // namespace rds_rdma
