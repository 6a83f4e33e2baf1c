// SPDX-License-Identifier: GPL-2.0
// Congestion maps: for each address, which ports cannot take more. One map serves both sides: the map of a local
// address is what we tell its peers, the map of a remote address is what its host told us.
#pragma once

#include "address.h"
#include "wire.h"

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/wait.h>

namespace rds {

class Connection;
struct MapTable;  // list tag: all maps of a namespace
struct OnMap;     // list tag: the connections whose local address a map is of

struct MapLock { static constexpr const char* name = "rds map"; static constexpr unsigned rank = 60; };
struct MapTableLock { static constexpr const char* name = "rds maps"; static constexpr unsigned rank = 10; };

class CongestionMap : public RefCounted<CongestionMap>, public ListNode<MapTable> {
public:
    static void destroy(CongestionMap* map) { dispose(map); }
    explicit CongestionMap(const Ip& address) : address_(address) {}

    const Ip& address() const { return address_; }
    bool congested(u16 port);
    // Sets or clears the bit of a local port and has every peer told. Any context.
    void set(u16 port, bool congested);
    // What the peer sent: replaces all bits and wakes who waits. Any context.
    void replace(const std::byte* bits);
    void snapshot(std::byte* bits);
    // Both move map_bytes bytes.
    u64 replaced_ns(); // when replace() was last called, 0: never

    void add_connection(Connection& connection);
    void remove_connection(Connection& connection);

    WaitQueue waiters; // senders to a congested port

private:
    const Ip address_;
    Spin<MapLock> lock_;
    u8 bits_[map_bytes] HW_GUARDED_BY(lock_) = {};
    u64 replaced_ns_ HW_GUARDED_BY(lock_) = 0;
    RefList<Connection, OnMap> connections_ HW_GUARDED_BY(lock_);
};

// The maps of a namespace by address. A map lives until the namespace ends: there are at most two for a connection.
class CongestionMaps : Pinned {
public:
    ~CongestionMaps();
    // Finds or makes. Any context. ENOMEM.
    Result<Ref<CongestionMap>> get(const Ip& address);
    Ref<CongestionMap> find(const Ip& address);

private:
    static constexpr unsigned buckets = 64;
    struct Table {
        RefList<CongestionMap, MapTable> bucket[buckets];
    };
    static CongestionMap* find_in(Table& table, const Ip& address);
    Guarded<Table, MapTableLock> table_;
};

} // namespace rds
