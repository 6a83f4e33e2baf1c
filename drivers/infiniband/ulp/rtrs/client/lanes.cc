// SPDX-License-Identifier: GPL-2.0
#include "lanes.h"

#include "session.h"

namespace rtrs_clt {

namespace {

const Path& path_of(const Connection& connection) { return connection.link().path; }

} // namespace

Result<> Lanes::make(u32 count)
{
    lanes_.reset(static_cast<Lane*>(kapi_zalloc(count * sizeof(Lane), KAPI_SLEEP)));
    if (!lanes_)
        return fail(KAPI_ENOMEM);
    for (; count_ < count; count_++)
        ::new (&lanes_.get()[count_]) Lane;
    return {};
}

Lanes::~Lanes()
{
    while (count_)
        lanes_.get()[--count_].~Lane();
}

void Lanes::add(u32 number, Connection& connection)
{
    Lane& lane = lanes_.get()[number];
    Guard guard(lane.lock);
    if (HW_ASSERT(lane.count < rtrs::max_paths))
        lane.open[lane.count++] = &connection;
}

void Lanes::remove(u32 number, Connection& connection)
{
    Lane& lane = lanes_.get()[number];
    Guard guard(lane.lock);
    u32 kept = 0;
    for (u32 i = 0; i < lane.count; i++)
        if (lane.open[i] != &connection)
            lane.open[kept++] = lane.open[i];
    lane.count = kept;
}

Connection* Lanes::Lane::in_turn()
{
    for (u32 i = 0; i < count; i++) {
        turn = turn + 1 < count ? turn + 1 : 0;
        if (open[turn]->is_open())
            return open[turn];
    }
    return nullptr;
}

// Among equals the one whose turn it is, since a path without anything in flight would have everything otherwise.
Connection* Lanes::Lane::least_busy()
{
    Connection* best = in_turn();
    for (u32 i = 0; i < count && best; i++)
        if (open[i]->is_open() && path_of(*open[i]).inflight() < path_of(*best).inflight())
            best = open[i];
    return best;
}

// The time that a request would take: each that is in flight before it takes as long as a heartbeat. A path whose latency is not
// known yet is taken for as fast as the fastest.
Connection* Lanes::Lane::fastest()
{
    u64 least = 0;
    for (u32 i = 0; i < count; i++)
        if (u64 latency = path_of(*open[i]).latency_ns(); latency && (!least || latency < least))
            least = latency;
    auto cost = [&](const Connection& connection) {
        u64 latency = path_of(connection).latency_ns();
        return (latency ? latency : max<u64>(least, 1)) * (path_of(connection).inflight() + 1);
    };
    Connection* best = in_turn();
    for (u32 i = 0; i < count && best; i++)
        if (open[i]->is_open() && cost(*open[i]) < cost(*best))
            best = open[i];
    return best;
}

Connection* Lanes::Lane::choose(u32 policy)
{
    switch (policy) {
    case round_robin:
        return in_turn();
    case min_latency:
        return fastest();
    default:
        return least_busy();
    }
}

bool Lanes::is_momentary(Errno why)
{
    return why == Errno(KAPI_EAGAIN) || why == Errno(KAPI_EIO) || why == Errno(KAPI_ENOMEM);
}

// Devices differ in the memory that they reach, in the pieces that they take, and in the room of their queues.
Result<> Lanes::Lane::send_by_another(Io& io, const Connection& than, Errno why)
{
    for (u32 i = 0; i < count; i++) {
        if (open[i] == &than)
            continue;
        auto sent = open[i]->post(io);
        if (sent)
            return sent;
        if (is_momentary(sent.error()))
            why = sent.error(); // soon
    }
    return fail(why);
}

// Which connections are open does not change meanwhile: one is closed when it has left its lane, or by its own post().
Result<> Lanes::send(Io& io, u32 policy)
{
    Lane& lane = lanes_.get()[io.lane.load_relaxed()];
    Guard guard(lane.lock);
    if (io.generation != generation()) // under the lock: no connection of the next one is added meanwhile
        return fail(KAPI_ECONNABORTED);
    Connection* connection = lane.choose(policy);
    if (!connection)
        return fail(KAPI_ECONNABORTED);
    auto sent = connection->post(io);
    return sent ? sent : lane.send_by_another(io, *connection, sent.error());
}

} // namespace rtrs_clt
