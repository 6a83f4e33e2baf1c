// SPDX-License-Identifier: GPL-2.0
#include "map_refresh.h"

#include "connection.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 longest_delay_ns = 30'000 * ms;
constexpr u64 kept_after_use_ns = 1'800'000 * ms; // after the last sender met the congestion

} // namespace

void MapRefresh::met(u16 port)
{
    Net& net = connection_.net;
    met_.fetch_or(u64{1} << port % 64);
    met_ns_.store_relaxed(kapi_now_ns());
    if (connection_.loops()) // it has no map of its own
        return;
    // Without a stream the peer cannot report that the port is free again. A new one begins with the map.
    if (!connection_.path(0).is_up())
        connection_.path(0).notify(RDS_PATH_WANTED);
    if (running_.exchange(1))
        return;
    connection_.ref(); // the work's
    if (!work_.queue(net.module.workqueue, net.sysctl.congestion_refresh_ms * ms))
        connection_.unref();
    connection_.path(0).notify(RDS_PATH_SEND); // from now on it looks whether the map waits behind what is not read
}

bool MapRefresh::is_awaited() const
{
    return is_running() && connection_.remote_map().congested_among(met_.load_relaxed());
}

void MapRefresh::stop()
{
    if (work_.cancel_sync())
        connection_.unref();
}

// False: there was nobody to ask.
bool MapRefresh::request()
{
    Path& first = connection_.path(0);
    // Its one connection keeps maps in order. But if its host has died, nobody notices before something is sent there. Without a
    // connection it has nothing to report a free port over, and a new one begins with its map.
    if (connection_.is_mute()) {
        if (!first.is_up()) {
            first.notify(RDS_PATH_WANTED);
            return true;
        }
        connection_.map_changed();
        return false;
    }
    if (first.is_up() && connection_.peer() == Peer::hawser) {
        connection_.send_handshake(first, false);
        return true;
    }
    // The kernel's own sends a map over each path that comes up.
    Path* missing = connection_.missing_path();
    if (missing)
        missing->notify(RDS_PATH_WANTED);
    // One that is in the middle of a message only if there is no other: that may be so at each look.
    for (bool busy : {false, true}) {
        for (unsigned i = max(1u, connection_.paths()); i-- > 0;) {
            Path& path = connection_.path(i);
            if (path.partial().exists() == busy && path.may_be_recycled()) {
                path.notify(RDS_PATH_RECYCLE);
                return true;
            }
        }
    }
    return missing != nullptr;
}

// A sender that was refused may sleep in poll() for as long as it likes, and be the user of another connection by now.
bool MapRefresh::ends()
{
    u64 full = connection_.remote_map().congested_among(met_.exchange(0));
    met_.fetch_or(full);
    if (connection_.dying() || !full)
        return true;
    return !connection_.has_users() && kapi_now_ns() - met_ns_.load_relaxed() >= kept_after_use_ns;
}

void MapRefresh::look()
{
    Net& net = connection_.net;
    u64 first = net.sysctl.congestion_refresh_ms * ms;
    if (ends()) {
        delay_ns_ = 0;
        unanswered_ = 0;
        running_.exchange(0);
        if (ends() || running_.exchange(1)) { // else another port was met meanwhile
            connection_.unref();
            return;
        }
    }
    u64 heard = connection_.remote_map().replaced_ns();
    // The answer to a request is no sign that the peer has news. It may come after the next request.
    if (std::exchange(heard_ns_, heard) != heard) {
        if (unanswered_)
            unanswered_--;
        else
            delay_ns_ = 0;
    }
    if (kapi_now_ns() - heard >= first) {
        if (request()) {
            connection_.net.count(Stat::cong_refresh);
            unanswered_++;
        }
        delay_ns_ = min(delay_ns_ * 2, longest_delay_ns);
    }
    delay_ns_ = max(delay_ns_, first);
    if (!work_.queue(net.module.workqueue, delay_ns_))
        connection_.unref();
}

} // namespace rds
