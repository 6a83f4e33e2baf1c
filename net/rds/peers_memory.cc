// SPDX-License-Identifier: GPL-2.0
#include "peers_memory.h"

#include "connection.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 turn_ns = ms / 10;
constexpr u64 shortest_retry_ns = 10 * ms;
constexpr u64 longest_retry_ns = 1000 * ms; // also when many are refused more often than they have turns

PeersAccount& account_of(Net& net, PeersShare::Kind kind)
{
    return net.module.peers_share.account(kind, kapi_net_is_initial(net.host), kapi_net_owner(net.host));
}

bool lasts(const Partial::Look& look, u64 now)
{
    return now - min(now, look.began_ns) >= PeersMemory::look_ns;
}

} // namespace

PeersMemory::PeersMemory(Net& net)
    : net_(net), connections_(account_of(net, PeersShare::connections)), partials_(account_of(net, PeersShare::partials)),
      answers_(account_of(net, PeersShare::answers))
{
}

bool PeersMemory::take_partial(u32 size)
{
    if (!partials_.take(size)) [[unlikely]]
        return false;
    if (partial_count_.fetch_add(1) == 0)
        work_.queue(net_.module.workqueue, look_ns);
    return true;
}

u64 PeersMemory::retry_delay_ns()
{
    u64 now = kapi_now_ns();
    u64 turn = next_turn_ns_.fetch_add(turn_ns), last = now + longest_retry_ns;
    if (turn < now || turn > last)
        next_turn_ns_.store_relaxed(turn < now ? now : last); // a lost turn of another path does no harm
    return min(max(turn, now + shortest_retry_ns), last) - now;
}

// Those that wait may be of another namespace.
void PeersMemory::look()
{
    if (search_.step == Search::none) {
        if (partials_.waiting())
            search_ = {.step = Search::judge, .now_ns = kapi_now_ns()};
    }
    if (search_.step != Search::none && search_some()) {
        work_.mod(net_.module.workqueue, 0);
        return;
    }
    if (partial_count_.load())
        work_.queue(net_.module.workqueue, look_ns);
}

// A connection that holds more than half of what all may hold leaves too little to others, however fast its messages are: those
// that have been there for a while can be ended, but the oldest.
PeersMemory::Held PeersMemory::held_by(Connection& connection)
{
    Held held;
    u64 all = 0, lasting = 0, slow = 0;
    for (unsigned i = 0; i < connection.path_count(); i++) {
        Partial::Look look = connection.path(i).partial().look(search_.now_ns);
        if (!look.began_ns)
            continue;
        all += look.size;
        lasting += lasts(look, search_.now_ns) ? look.size : 0;
        slow += look.is_slow ? look.size : 0;
        held.oldest_ns = min(held.oldest_ns, look.began_ns);
        if (look.progresses)
            held.oldest_progressing_ns = min(held.oldest_progressing_ns, look.began_ns);
    }
    held.too_much = all > partials_.most() / 2;
    held.endable = held.too_much ? lasting : slow;
    return held;
}

// The sender of one that is ended sends it again over the next stream. Over a slow link all may be slow, so that to end more than
// have to make room would leave none that arrives. True: there is more to do.
bool PeersMemory::search_some()
{
    auto visit = [&](Connection& connection) { search_.step == Search::judge ? judge(connection) : end_slow(connection); };
    if (net_.connections.visit_some(search_.place, visit))
        return true;
    bool found = search_.step == Search::judge && search_.most;
    search_.step = found ? Search::end : Search::none;
    return found;
}

void PeersMemory::judge(Connection& connection)
{
    Held held = held_by(connection);
    search_.most = max(search_.most, held.endable);
    search_.oldest_ns = min(search_.oldest_ns, held.oldest_progressing_ns);
}

void PeersMemory::end_slow(Connection& connection)
{
    Held held = held_by(connection);
    if (!held.endable || held.endable < search_.most / 2)
        return;
    for (unsigned i = 0; i < connection.path_count() && search_.ended < partials_.waiting(); i++) {
        Partial::Look look = connection.path(i).partial().look(search_.now_ns);
        bool ends = look.is_slow || (held.too_much && look.began_ns != held.oldest_ns && lasts(look, search_.now_ns));
        if (!look.began_ns || !ends || look.began_ns == search_.oldest_ns)
            continue;
        if (net_.module.notices.parts_of_messages.is_due())
            connection.note(KAPI_LOG_NOTICE, "sends too slowly for what peers may hold in parts of messages, its stream ends");
        connection.path(i).notify(RDS_PATH_LOST);
        search_.ended += look.size;
    }
}

} // namespace rds
