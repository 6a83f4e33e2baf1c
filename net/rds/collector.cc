// SPDX-License-Identifier: GPL-2.0
#include "collector.h"

#include "connection.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 shortest_look_ns = 250 * ms; // in each namespace, of which a user can have many
constexpr u64 longest_look_ns = 60'000 * ms; // a change of the sysctl takes effect so late
constexpr u64 looked_ns = ms / 50; // for each connection that a look has met the next one is that much later
constexpr u64 kept_after_end_ns = 60'000 * ms;
// When little is left to a user, unused connections must not prevent new ones.
constexpr u64 crowded_idle_ns = 1000 * ms;
constexpr u64 crowded_after_loss_ns = 60'000 * ms;

// The table's, that of the caller, and its own map's, which has those with peers.
u32 unused_references(const Connection& connection) { return connection.loops() ? 2 : 3; }

// A device has messages of programs that have ended for as long as the peer takes none. They hold the connection, and are no use.
bool may_have_orphans(Connection& connection)
{
    return connection.transport.post && connection.has_streams() && !connection.has_users() && !connection.path(0).stalled();
}

} // namespace

bool Collector::is_crowded(const Connection& connection) const
{
    return net_.connections.shares.is_crowded(connection.payer, net_.connections.limit) ||
           (!connection.is_charged() && net_.peers_memory.has_many_connections());
}

// 0: never. That is up to the namespace's administrator as long as there is room, which others need too.
u64 Collector::idle_ns(bool crowded) const
{
    u64 idle = net_.sysctl.idle_connection_ms * ms;
    if (!crowded)
        return idle;
    return idle ? min(idle, crowded_idle_ns) : crowded_idle_ns;
}

u64 Collector::kept_after_loss(bool crowded)
{
    return crowded ? crowded_after_loss_ns : kept_after_loss_ns;
}

u64 Collector::kept_after_loss(const Connection& connection) const
{
    return kept_after_loss(is_crowded(connection));
}

u64 Collector::kept_ns(Connection& connection, bool crowded)
{
    switch (connection.ending()) {
    case Ending::none:
        return 0;
    case Ending::complete:
        return kept_after_end_ns;
    case Ending::lost:
        break;
    }
    return kept_after_loss(crowded);
}

void Collector::connection_made(const Connection& connection)
{
    arm(is_crowded(connection));
}

void Collector::arm(bool crowded)
{
    u64 idle = idle_ns(crowded), now = kapi_now_ns(), earliest = earliest_ns_.load_relaxed();
    u64 delay = idle == 0 ? longest_look_ns : min(max(idle / 4, shortest_look_ns), longest_look_ns);
    delay = max(delay, earliest > now ? earliest - now : 0);
    // A look that is due later is made soon, once: at every connection it would be put off as long as they come.
    if (crowded && !hurried_.exchange(1))
        work_.mod(net_.module.workqueue, delay);
    else
        work_.queue(net_.module.workqueue, delay);
}

// A few at a time. A new connection puts off the rest once at most.
void Collector::look()
{
    u64 now = kapi_now_ns();
    bool more = net_.connections.visit_some(place_, [&](Connection& connection) {
        bool crowded = is_crowded(connection);
        any_crowded_ |= crowded;
        looked_at_++;
        look_at(connection, crowded, now);
    });
    if (more) {
        work_.mod(net_.module.workqueue, 0);
        return;
    }
    earliest_ns_.store_relaxed(now + std::exchange(looked_at_, 0) * looked_ns);
    hurried_.store_relaxed(0);
    bool crowded = std::exchange(any_crowded_, false);
    if (net_.connections.size())
        arm(crowded);
}

// Of one that is used the paths are not looked at: that takes long.
void Collector::look_at(Connection& connection, bool crowded, u64 now)
{
    auto& idle = connection.idle;
    u32 unused = unused_references(connection);
    if (connection.references() > unused && !may_have_orphans(connection)) {
        idle.since_ns = now;
        return;
    }
    u64 activity = connection.activity();
    if (activity != idle.activity || !connection.is_empty()) {
        idle = {activity, now};
        return;
    }
    u64 quiet = now - idle.since_ns;
    if (idle_ns(crowded) == 0 || quiet < idle_ns(crowded))
        return;
    if (connection.has_streams())
        connection.retire();
    else if (quiet >= kept_ns(connection, crowded) && net_.connections.remove_unused(connection, unused))
        connection.kill();
}

} // namespace rds
