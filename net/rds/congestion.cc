// SPDX-License-Identifier: GPL-2.0
#include "congestion.h"

#include "connection.h"

namespace rds {

namespace {

constexpr u64 pause_ns = 5'000'000;
// For each map that is sent: a program that fills and empties its socket makes the host send 20,000 of them in a second at most,
// 160 MB, however many peers there are.
constexpr u64 map_ns = 50'000;
constexpr u32 looked_at_once = 64; // blocked senders, under the map's lock
constexpr unsigned maps_at_once = 16;
// The work's pause for each of them that it has woken, since all who wait for a port try again, and the first ones fill it: those
// that wait in poll() have the same pace. And for each that it has looked at, so that it takes a small part of a processor; the
// same for a peer that gets no map, because its path is down.
constexpr u64 woken_ns = 20'000, looked_ns = 1'000;

} // namespace

// ---- one map

CongestionMap::~CongestionMap()
{
    for (auto& chunk : chunk_)
        kapi_free(chunk.load_relaxed());
}

void CongestionMap::destroy(CongestionMap* map)
{
    map->maps_.table_.remove(*map);
    dispose(map);
}

u8* CongestionMap::chunk(u32 index)
{
    u8* chunk = chunk_[index].load_relaxed();
    if (!chunk) {
        chunk = static_cast<u8*>(kapi_zalloc(chunk_bytes, KAPI_ATOMIC));
        chunk_[index].store_release(chunk);
    }
    return chunk;
}

bool CongestionMap::congested(u16 port)
{
    // Read without the lock on every send: one byte, and a stale answer is as good as one read earlier.
    u32 byte = port / 8;
    u8* chunk = chunk_[byte / chunk_bytes].load_acquire();
    return chunk && (__atomic_load_n(&chunk[byte % chunk_bytes], __ATOMIC_RELAXED) >> (port % 8)) & 1;
}

bool CongestionMap::set(u16 port, bool congested)
{
    bool has_peers;
    {
        Guard guard(lock_);
        u32 byte = port / 8;
        u8* bits = congested ? chunk(byte / chunk_bytes) : chunk_[byte / chunk_bytes].load_relaxed();
        if (!bits)
            return !congested;
        u8 bit = static_cast<u8>(1u << (port % 8));
        u8& place = bits[byte % chunk_bytes];
        __atomic_store_n(&place, static_cast<u8>(congested ? place | bit : place & ~bit), __ATOMIC_RELAXED);
        has_peers = connection_count_ != 0;
    }
    if (kapi_traces(KAPI_TRACE_RDS_CONGESTION))
        kapi_trace_rds_congestion(key().ip.bytes(), port, congested);
    if (has_peers)
        maps_.changed(*this);
    return true;
}

u64 CongestionMap::congested_among(u64 ports)
{
    u64 found = 0;
    for (auto& at : chunk_)
        if (u8* chunk = ports ? at.load_acquire() : nullptr)
            for (u32 i = 0; i < chunk_bytes; i++)
                found |= u64{__atomic_load_n(&chunk[i], __ATOMIC_RELAXED)} << i % 8 * 8;
    return found & ports;
}

u32 CongestionMap::peers()
{
    Guard guard(lock_);
    return connection_count_;
}

// One at a time: the first becomes the last. Those that are added meanwhile get the map anyway, when they come up.
u32 CongestionMap::send_to_some(u32 left)
{
    constexpr unsigned some = 64;
    for (unsigned i = 0; left && i < some; i++, left--) {
        Ref<Connection> connection;
        {
            Guard guard(lock_);
            connection = connections_.pop_front();
            if (connection)
                connections_.push_back(connection);
        }
        if (!connection)
            return 0;
        maps_.sent_ns_.fetch_add(connection->path(0).is_up() ? map_ns : looked_ns);
        connection->map_changed();
    }
    return left;
}

bool CongestionMap::replace(const std::byte* bits)
{
    static constexpr std::byte none[chunk_bytes] = {};
    bool changes;
    {
        Guard guard(lock_);
        changes = replaced_ns_ == 0;
        for (u32 i = 0; i < chunks; i++) {
            const std::byte* from = bits + i * chunk_bytes;
            bool empty = kapi_compare(from, none, chunk_bytes) == 0;
            u8* to = empty ? chunk_[i].load_relaxed() : chunk(i);
            if (!to || kapi_compare(to, from, chunk_bytes) == 0)
                continue;
            kapi_copy(to, from, chunk_bytes);
            changes = true;
        }
        replaced_ns_ = kapi_now_ns();
    }
    if (kapi_traces(KAPI_TRACE_RDS_MAP))
        kapi_trace_rds_map(key().ip.bytes(), changes);
    wake_blocked();
    return changes;
}

void CongestionMap::forget()
{
    {
        Guard guard(lock_);
        for (auto& chunk : chunk_)
            if (u8* bits = chunk.load_relaxed())
                kapi_fill(bits, 0, chunk_bytes);
    }
    wake_blocked();
}

void CongestionMap::snapshot(std::byte* bits)
{
    Guard guard(lock_);
    for (u32 i = 0; i < chunks; i++) {
        if (u8* from = chunk_[i].load_relaxed())
            kapi_copy(bits + i * chunk_bytes, from, chunk_bytes);
        else
            kapi_fill(bits + i * chunk_bytes, 0, chunk_bytes);
    }
}

bool CongestionMap::refuse(u16 port)
{
    Guard guard(lock_);
    refused_ |= congested(port);
    return congested(port);
}

bool CongestionMap::take_refused()
{
    Guard guard(lock_);
    return std::exchange(refused_, false);
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
    connection_count_++;
}

void CongestionMap::remove_connection(Connection& connection)
{
    Ref<Connection> removed;
    Guard guard(lock_);
    if (!is_on<OnMap>(connection))
        return;
    removed = connections_.remove(connection);
    connection_count_--;
}

// ---- blocked senders

// The sender looks at its bit when it is on the list, and who clears a bit looks at the list afterwards, both by the lock: one of
// them sees the other.
void CongestionMap::add_blocked(BlockedSender& sender)
{
    Guard guard(lock_);
    blocked_.push_back(Ref<BlockedSender>::share(sender));
    blocked_count_++;
}

void CongestionMap::remove_blocked(BlockedSender& sender)
{
    Guard guard(lock_);
    static_cast<void>(blocked_.remove(sender));
    blocked_count_--;
}

// Who was looked at goes to the end: after as many looks as there were senders everyone has been looked at.
u32 CongestionMap::look_at_some(u32& most)
{
    most = min(most, min(blocked_count_, looked_at_once));
    u32 woken = 0;
    for (u32 i = 0; i < most; i++) {
        Ref<BlockedSender> sender = blocked_.pop_front();
        if (!congested(sender->port) || sender->connection.dying()) {
            sender->queue.wake(KAPI_OUT); // under the lock, or it may be gone
            woken++;
        }
        blocked_.push_back(sender);
    }
    return woken;
}

void CongestionMap::wake_blocked()
{
    bool more;
    {
        Guard guard(lock_);
        u32 looked = looked_at_once;
        look_at_some(looked);
        more = blocked_count_ > looked;
    }
    if (more)
        maps_.look_later(*this);
}

u64 CongestionMap::look_at_blocked()
{
    u32 all, looked = 1, woken = 0;
    {
        Guard guard(lock_);
        all = blocked_count_;
    }
    for (u32 left = all; left && looked; left -= looked, kapi_resched()) {
        Guard guard(lock_);
        looked = left;
        woken += look_at_some(looked);
    }
    return all * looked_ns + woken * woken_ns;
}

void CongestionMaps::look_later(CongestionMap& map)
{
    waking_.with([&](auto& maps) {
        if (!is_on<Waking>(map))
            maps.push_back(Ref<CongestionMap>::share(map));
    });
    u64 next = next_look_ns_.load_relaxed(), now = kapi_now_ns();
    look_work_.queue(net_.module.workqueue, next > now ? next - now : 0);
}

// What changes meanwhile is for the next run, which pauses first: a port can be full and free again all the time.
void CongestionMaps::look_on()
{
    u64 pause = 0;
    for (unsigned maps = 0; maps < maps_at_once; maps++) {
        Ref<CongestionMap> map = waking_.with([](auto& waking) { return waking.pop_front(); });
        if (!map)
            break;
        pause += map->look_at_blocked();
    }
    next_look_ns_.store_relaxed(kapi_now_ns() + pause);
    if (waking_.with([](auto& waking) { return !waking.empty(); }))
        look_work_.mod(net_.module.workqueue, pause);
}

// ---- all of a kind

Ref<CongestionMap> CongestionMaps::find(const Endpoint& address)
{
    Endpoint key = key_of(address);
    return table_.find(hash_of(key), [&](const CongestionMap& map) { return map.key() == key; });
}

Result<Ref<CongestionMap>> CongestionMaps::get(const Endpoint& address, Alloc mode)
{
    if (auto map = find(address))
        return map;
    Endpoint key = key_of(address);
    auto* made = make<CongestionMap>(mode, *this, key);
    if (!made)
        return fail(KAPI_ENOMEM);
    auto fresh = Ref<CongestionMap>::adopt(made);
    Ref<CongestionMap> raced;
    table_.insert(hash_of(key), *fresh, mode, [&](const CongestionMap& map) { return map.key() == key; },
                  [] { return true; }, raced);
    return raced ? raced : fresh;
}

bool CongestionMaps::forget(const Endpoint& address)
{
    auto map = find(address);
    if (!map)
        return false;
    map->forget();
    return map->take_refused();
}

// ---- what peers have to receive

void CongestionMaps::changed(CongestionMap& map)
{
    changed_.with([&](ChangedMaps& maps) {
        if (!is_on<Changed>(map))
            maps.next.push_back(Ref<CongestionMap>::share(map));
    });
    u64 next = sent_ns_.load_relaxed() + pause_ns, now = kapi_now_ns();
    work_.queue(net_.module.workqueue, next > now ? next - now : 0);
}

void CongestionMaps::take_changed()
{
    sending_ = changed_.with([](ChangedMaps& maps) { return maps.now.pop_front(); });
    left_ = sending_ ? sending_->peers() : 0;
    sent_ns_.store_relaxed(max(sent_ns_.load_relaxed(), kapi_now_ns())); // and so much for each map from here on
}

// False: there is nothing to send yet.
bool CongestionMaps::begin_sending()
{
    u64 next = sent_ns_.load_relaxed() + pause_ns, now = kapi_now_ns();
    if (now < next) {
        work_.queue(net_.module.workqueue, next - now);
        return false;
    }
    changed_.with([](ChangedMaps& maps) { maps.now.splice_front(maps.next); });
    take_changed();
    return static_cast<bool>(sending_);
}

// A few peers in each run. What changes meanwhile is sent the next time, however fast a program fills and empties its socket.
void CongestionMaps::send_changed()
{
    if (!sending_ && !begin_sending())
        return;
    left_ = sending_->send_to_some(left_);
    if (!left_)
        take_changed();
    if (sending_) {
        work_.mod(net_.module.workqueue, 0); // before what changed meanwhile
        return;
    }
    sent_ns_.store_relaxed(max(sent_ns_.load_relaxed(), kapi_now_ns()));
    if (changed_.with([](ChangedMaps& maps) { return !maps.next.empty(); }))
        work_.queue(net_.module.workqueue, pause_ns);
}

void CongestionMaps::stop()
{
    look_work_.cancel_sync();
    while (waking_.with([](auto& maps) { return maps.pop_front(); }))
        ;
    work_.cancel_sync();
    changed_.with([](ChangedMaps& maps) { maps.now.splice_front(maps.next); });
    do
        take_changed();
    while (sending_);
}

} // namespace rds
