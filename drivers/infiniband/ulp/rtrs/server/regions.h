// SPDX-License-Identifier: GPL-2.0
// The chunks of a session as one path shows them to its client: mapped for the path's device, and under keys of a protection
// domain of its own, so that no other client's key or queue pair reaches them. With always_invalidate each chunk has a region,
// whose key ends with each request; else a region has as many chunks as it can have pages.
#pragma once

#include "buffer.h"
#include "chunk.h"

#include "../common/info.h"

namespace rtrs_srv {

class Regions : Pinned {
public:
    ~Regions();
    // Sleeps. ENOMEM; EOPNOTSUPP: a chunk has more pages than a region of the device; EIO: the device does not see a chunk in one
    // piece; ENODEV. After an error it is to be destroyed.
    Result<> make(kapi_rdma_dev* dev, const kapi_rdma_attrs& attrs, Chunks& chunks, const Geometry& geometry, bool each_chunk,
                  Budget& budget);

    kapi_pd* pd() const { return pd_.get(); }
    u32 count() const { return count_; }
    kapi_mr* region(u32 index) { return regions_[index].mr.get(); }
    // What the information response says of it.
    wire::Descriptor describe(u32 index) const;

    kapi_mr* region_of_chunk(u32 chunk) { return regions_[chunk / per_region_].mr.get(); }
    // The first length bytes of a chunk.
    kapi_sge data(u32 chunk, u32 length) const { return {places_[chunk].address, length, places_[chunk].key}; }
    void sync(u32 chunk, u32 offset, u32 length, kapi_map_side side) const;
    // Where the chunk's last registration was posted, or soon will be: in the send queue of by, up to position. Null: it is the
    // first one, and valid. Of who has the chunk.
    struct Posted {
        Connection* by = nullptr;
        u32 position = 0;
    };
    Posted& last_registration(u32 chunk) { return posted_[chunk]; }
    // The message that carries the chunk's new key, filled in.
    kapi_sge write_key_message(u32 chunk, u32 key);
    // The queue pair could not be drained: what the device may use stays for ever.
    void leak();

private:
    struct OfChunks {
        Mapping map; // ends after the region
        Region mr;
    };
    Result<> make_region(u32 index, Chunks& chunks, kapi_segment* segments);
    void free();

    kapi_rdma_dev* dev_ = nullptr;
    u32 chunk_bytes_ = 0, chunks_ = 0;
    u32 per_region_ = 1;
    u32 count_ = 0; // of regions that are made
    ProtectionDomain pd_;
    Buffer keys_;
    OfChunks* regions_ = nullptr;
    kapi_sge* places_ = nullptr;
    Posted* posted_ = nullptr;
    Share share_;
};

} // namespace rtrs_srv
