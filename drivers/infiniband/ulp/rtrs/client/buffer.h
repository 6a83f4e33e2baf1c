// SPDX-License-Identifier: GPL-2.0
// Memory that the device uses for what is sent and received beside the users' data.
#pragma once

#include "device.h"

namespace rtrs_clt {

inline void free_bytes(u8* memory) { kapi_free(memory); }
using BufferMemory = Own<u8, free_bytes>; // of kapi_alloc_contiguous()

// One piece of memory that a device may use.
class Buffer : Pinned {
public:
    // Sleeps. ENOMEM; EIO: the device does not see it in one piece.
    Result<> make(Device& device, kapi_pd* pd, usize size, kapi_map_direction direction);
    u8* bytes() const { return memory_.get(); }
    kapi_sge sge(usize offset, u32 length) const { return {all_.address + offset, length, all_.key}; }
    void sync(usize offset, usize length, kapi_map_side side) { kapi_map_sync(map_.c(), offset, length, side); }
    // The device may use it for ever.
    void abandon();

private:
    BufferMemory memory_;
    Mapping map_;
    kapi_sge all_{}; // as the device sees it
};

// The users' messages of a session: a slot for each permit. A message stays there until its request has ended, whatever path it
// goes over, so that it can be sent again.
class Messages : Pinned {
public:
    static constexpr u32 slot_bytes = 4096, slots_in_block = 16;
    ~Messages();
    // Sleeps. ENOMEM.
    Result<> make(u32 count);
    u32 blocks() const { return count_; }
    u8* block(u32 index) const { return blocks_.get()[index]; }
    u8* at(u32 slot) const { return block(slot / slots_in_block) + slot % slots_in_block * slot_bytes; }
    // A device may use them for ever.
    void abandon() { abandoned_ = true; }

private:
    static void free_blocks(u8** blocks) { kapi_free(static_cast<void*>(blocks)); }
    Own<u8*, free_blocks> blocks_;
    u32 count_ = 0;
    bool abandoned_ = false;
};

// How one path's device sees them.
class MessageMaps : Pinned {
public:
    ~MessageMaps() { drop(); }
    // Sleeps. ENOMEM, EIO.
    Result<> make(const Messages& messages, Device& device, kapi_pd* pd);
    kapi_sge sge(u32 slot, u32 length) const;
    // Any context. The first length bytes were written and are about to be sent.
    void give(u32 slot, u32 length);
    // They end: nothing of it is posted.
    void drop();
    void abandon();

private:
    struct Block {
        Mapping map;
        kapi_sge all;
    };
    static void free_blocks(Block* blocks) { kapi_free(blocks); }
    Own<Block, free_blocks> blocks_;
    u32 count_ = 0;
};

} // namespace rtrs_clt
