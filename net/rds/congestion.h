// SPDX-License-Identifier: GPL-2.0
// Congestion maps: for each address, which ports cannot take more.
//
// A namespace has two kinds, kept apart. The own map of a local address shows which local sockets are full; only the sockets
// write it, and peers receive it. A peer's map of a remote address is what the host of that address sent, and is replaced by
// what it sends next; there is one for what came over TCP and one for RDMA. When an address moves between hosts, only the kind of
// map that is used for it changes: the bits of local sockets stay valid wherever the address is, and a peer's bits are forgotten
// when the address is found on this host.
#pragma once

#include "../lock_order.h"
#include "address.h"
#include "wire.h"

#include <hawser/hash_table.h>
#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace rds {

class Connection;
class CongestionMaps;
class Net;
struct MapTable;  // hash tag: all maps of a kind in a namespace
struct OnMap;     // list tag: the connections whose peers receive a map
struct Changed;   // list tag: own maps that peers have to receive again
struct Waking;    // list tag: maps some of whose blocked senders are to be looked at
struct Blocked;   // list tag: threads that wait for ports of a map

// A thread in sendmsg() that waits for a port, on its stack. It is woken by itself: a queue that wakes all who wait in it does so
// with interrupts off, and a program has any number of threads.
struct BlockedSender : Pinned, ListNode<Blocked> {
    BlockedSender(u16 p, const Connection& c) : port(p), connection(c) {}
    void ref() const {} // its thread takes it off the list
    void unref() const {}

    const u16 port;
    const Connection& connection; // which its thread holds
    WaitQueue queue;
};

// It exists as long as a connection or a full socket refers to it. Bits are stored where there are any.
class CongestionMap : public RefCounted<CongestionMap>, public HashNode<MapTable>, public ListNode<Changed>,
                      public ListNode<Waking> {
public:
    CongestionMap(CongestionMaps& maps, const Endpoint& key) : maps_(maps), key_(key) {}
    ~CongestionMap();
    static void destroy(CongestionMap* map);

    const Endpoint& key() const { return key_; }
    bool congested(u16 port);
    u64 congested_among(u64 ports); // those of ports, by their number modulo 64, that have a congested one. Any context
    // Ours. Sets or clears the bit of a local port and has every peer receive the map soon. Any context. False: no memory for
    // the bit, which stays clear.
    [[nodiscard]] bool set(u16 port, bool congested);
    // A peer's. Replaces all bits by map_bytes bytes and wakes the waiters. Any context. False: the same map as before. Without
    // memory for a bit it stays clear: messages to that port are then limited by the peer itself.
    bool replace(const std::byte* bits);
    // A peer's, of an address that has another host now. Any context.
    void forget();
    // A sender that does not wait met the bit of port. True: it is still set, and take_refused() reports when it may be
    // clear. False: it is clear. Any context.
    bool refuse(u16 port);
    // After bits were cleared: whether a sender met one since the last call, and is to be notified. Any context.
    bool take_refused();
    void snapshot(std::byte* bits); // fills map_bytes bytes
    u64 replaced_ns(); // when replace() was last called, 0: never

    // Ours. Has the next few of its peers receive the map now, of which left are to receive it. How many are left then.
    u32 send_to_some(u32 left);
    u32 peers(); // to receive it
    void add_connection(Connection& connection);
    void remove_connection(Connection& connection);

    // Waits for a port that the sender met congested. is_done() is true when the port is free, the connection dies, or the socket
    // is closed. Sleeps. ETIMEDOUT, EINTR.
    template <class Condition> Result<> block(u16 port, const Connection& connection, u64 deadline_ns, Condition&& is_done)
    {
        BlockedSender sender(port, connection);
        add_blocked(sender);
        auto result = sender.queue.wait_until(deadline_ns, is_done);
        remove_blocked(sender);
        return result;
    }
    // After bits were cleared, or for a connection that dies: wakes those of the blocked senders whom it concerns, the first few
    // at once, the others by a work. Any context.
    void wake_blocked();
    // The work's. Looks at all of them, a few at a time. How long the work has to pause for that. Sleeps.
    u64 look_at_blocked();

private:
    // Looks at the first few, at most. How many of them it has woken; most: how many it has looked at.
    u32 look_at_some(u32& most) HW_REQUIRES(lock_);
    void add_blocked(BlockedSender& sender);
    void remove_blocked(BlockedSender& sender);
    static constexpr u32 chunk_bytes = 512;
    static constexpr u32 chunks = map_bytes / chunk_bytes;
    u8* chunk(u32 index) HW_REQUIRES(lock_); // made when it is missing; null: no memory

    CongestionMaps& maps_;
    const Endpoint key_;
    Spin<MapLock> lock_;
    Atomic<u8*> chunk_[chunks]; // null: all clear. Written under lock_, and once made there until the end
    u64 replaced_ns_ HW_GUARDED_BY(lock_) = 0;
    bool refused_ HW_GUARDED_BY(lock_) = false; // a sender that does not wait, since bits were cleared last
    RefList<BlockedSender, Blocked> blocked_ HW_GUARDED_BY(lock_);
    u32 blocked_count_ HW_GUARDED_BY(lock_) = 0;
    RefList<Connection, OnMap> connections_ HW_GUARDED_BY(lock_);
    u32 connection_count_ HW_GUARDED_BY(lock_) = 0;
};

// The maps of one kind in a namespace, by address.
class CongestionMaps : Pinned {
public:
    explicit CongestionMaps(Net& net) : net_(net) {}
    // Finds or makes, in a context that mode allows. ENOMEM.
    Result<Ref<CongestionMap>> get(const Endpoint& address, Alloc mode);
    Ref<CongestionMap> find(const Endpoint& address);
    // The address moved to another host: the map of its former host is not valid any more. True: senders were refused for it.
    // Any context.
    [[nodiscard]] bool forget(const Endpoint& address);
    // Sleeps. No map changes any more.
    void stop();

private:
    friend class CongestionMap;
    // An own map changed. A port can be full and free again thousands of times in a second, and there may be any number of
    // peers: a work notifies them, with a pause after each time. Any context.
    void changed(CongestionMap& map);
    // Has a work look at the senders that are left. Any context.
    void look_later(CongestionMap& map);
    void look_on();
    void send_changed();
    bool begin_sending();
    void take_changed();
    // A scope distinguishes hosts with the same link-local address.
    static Endpoint key_of(const Endpoint& address)
    {
        return {address.ip, 0, address.ip.is_link_local() ? address.scope : 0};
    }
    u32 hash_of(const Endpoint& key) const { return table_.hash_of(key.words()); }
    Net& net_;
    HashTable<CongestionMap, MapTable, MapTableLock, 16> table_;
    struct ChangedMaps {
        RefList<CongestionMap, Changed> next, now; // now: the work is sending them
    };
    Guarded<ChangedMaps, ChangedMapsLock> changed_;
    Atomic<u64> sent_ns_{0}; // when the work had sent all of them last, or later: each takes its time
    // The work's: the map that it is sending, and the number of peers that remain.
    Ref<CongestionMap> sending_;
    u32 left_ = 0;
    Work<CongestionMaps, &CongestionMaps::send_changed> work_{*this};
    Guarded<RefList<CongestionMap, Waking>, ChangedMapsLock> waking_;
    Atomic<u64> next_look_ns_{0}; // not before this time: each look takes its time
    Work<CongestionMaps, &CongestionMaps::look_on> look_work_{*this};
};

} // namespace rds
