// SPDX-License-Identifier: GPL-2.0
#include "congestion.h"

#include "connection.h"

namespace rds {

bool CongestionMap::congested(u16 port)
{
    // Read without the lock on every send: one byte, and a stale answer is as good as one a moment earlier.
    return (__atomic_load_n(&bits_[port / 8], __ATOMIC_RELAXED) >> (port % 8)) & 1;
}

void CongestionMap::set(u16 port, bool congested)
{
    Guard guard(lock_);
    u8 bit = static_cast<u8>(1u << (port % 8));
    if (congested)
        bits_[port / 8] |= bit;
    else
        bits_[port / 8] &= static_cast<u8>(~bit);
    for (Connection* c = connections_.front(); c; c = connections_.next(*c))
        c->map_changed();
}

void CongestionMap::replace(const std::byte* bits)
{
    {
        Guard guard(lock_);
        kapi_copy(bits_, bits, map_bytes);
        replaced_ns_ = kapi_now_ns();
    }
    waiters.wake(KAPI_OUT);
}

void CongestionMap::snapshot(std::byte* bits)
{
    Guard guard(lock_);
    kapi_copy(bits, bits_, map_bytes);
}

u64 CongestionMap::replaced_ns()
{
    Guard guard(lock_);
    return replaced_ns_;
}

void CongestionMap::add_connection(Connection& connection)
{
    Guard guard(lock_);
    connections_.push_back(Ref<Connection>::share(connection));
}

void CongestionMap::remove_connection(Connection& connection)
{
    Ref<Connection> removed;
    Guard guard(lock_);
    if (static_cast<ListNode<OnMap>&>(connection).linked())
        removed = connections_.remove(connection);
}

CongestionMaps::~CongestionMaps()
{
    table_.with([](Table& table) {
        for (auto& bucket : table.bucket)
            bucket.clear();
    });
}

CongestionMap* CongestionMaps::find_in(Table& table, const Ip& address)
{
    auto& bucket = table.bucket[address.hash() % buckets];
    for (CongestionMap* map = bucket.front(); map; map = bucket.next(*map))
        if (map->address() == address)
            return map;
    return nullptr;
}

Ref<CongestionMap> CongestionMaps::find(const Ip& address)
{
    return table_.with([&](Table& table) {
        CongestionMap* map = find_in(table, address);
        return map ? Ref<CongestionMap>::share(*map) : Ref<CongestionMap>();
    });
}

Result<Ref<CongestionMap>> CongestionMaps::get(const Ip& address)
{
    if (auto map = find(address))
        return map;
    auto* made = make<CongestionMap>(Alloc::atomic, address);
    if (!made)
        return fail(KAPI_ENOMEM);
    auto fresh = Ref<CongestionMap>::adopt(made);
    return table_.with([&](Table& table) {
        if (CongestionMap* raced = find_in(table, address))
            return Ref<CongestionMap>::share(*raced);
        table.bucket[address.hash() % buckets].push_back(fresh);
        return fresh;
    });
}

} // namespace rds
