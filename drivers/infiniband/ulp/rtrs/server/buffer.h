// SPDX-License-Identifier: GPL-2.0
// Memory for messages that a device sends or receives, in one piece for it.
#pragma once

#include <hawser/verbs.h>

namespace rtrs_srv {

using namespace hw;

inline void free_bytes(u8* bytes) { kapi_free(bytes); }

class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(Buffer&& other) noexcept // a swap: a mapping ends before its memory
    {
        std::swap(bytes_, other.bytes_);
        std::swap(map_, other.map_);
        std::swap(all_, other.all_);
        return *this;
    }
    // Sleeps. ENOMEM; EIO: the device does not see it in one piece.
    static Result<Buffer> create(kapi_rdma_dev* dev, kapi_pd* pd, u32 size, kapi_map_direction direction);

    explicit operator bool() const { return static_cast<bool>(bytes_); }
    u8* bytes() const { return bytes_.get(); }
    u32 size() const { return all_.length; }
    kapi_sge sge(u32 offset, u32 length) const { return {all_.address + offset, length, all_.key}; }
    void sync(u32 offset, u32 length, kapi_map_side side) const { kapi_map_sync(map_.c(), offset, length, side); }
    // It stays for ever: a device could not be made to stop using it.
    void leak()
    {
        map_.leak();
        static_cast<void>(bytes_.release());
    }

private:
    Own<u8, free_bytes> bytes_; // goes after the mapping
    Mapping map_;
    kapi_sge all_{};
};

} // namespace rtrs_srv
