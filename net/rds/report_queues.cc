// SPDX-License-Identifier: GPL-2.0
// The queues of sockets and paths, as programs read them over netlink. A dump goes over many calls of a program, and holds no
// message or connection between two of them: it goes on behind the number of the last message. A path's queue notes where that
// was. A socket's, which its buffer bounds, is passed over again, a few messages under each lock: so a report has as many of them
// as there is room for.
#include "report.h"

#include "connection.h"
#include "socket.h"

#include <kapi/errno.h>
#include <kapi/report.h>
#include <kapi/wait.h>
#include <uapi/hawser_netlink.h>

namespace rds {

namespace {

constexpr u32 first_kind = HAWSER_RDS_RECEIVE, last_kind = HAWSER_RDS_RETRANSMIT;
constexpr unsigned piece_messages = 32;
constexpr usize piece_bytes = 64 * 40; // more than the messages take that are added under one lock

// Sleeps. False: the program is being killed, and sees nothing of what follows.
bool goes_on()
{
    kapi_resched();
    return !kapi_fatal_signal_pending();
}

// Where a dump is: at a kind of queue, an item of a table, a path of it, and behind a number of its messages. A socket counts as
// one path.
class Walk {
public:
    explicit Walk(const kapi_report_place& place)
        : kind(place.step ? place.step / paths : place.choice ? place.choice : first_kind), path(place.step % paths),
          number(place.words[3]), last_hash_(place.words[1]), last_address_(place.words[2])
    {
        // The item of the last report comes once more, if it is still there.
        cursor_ = {static_cast<unsigned>(place.words[0]), last_hash_, last_address_ ? last_address_ - 1 : 0};
    }
    void save(kapi_report_place& place) const
    {
        place.step = kind * paths + path;
        place.words[0] = cursor_.shard, place.words[1] = cursor_.hash, place.words[2] = cursor_.address;
        place.words[3] = number;
    }
    // Sleeps. Null at the end.
    template <class Table> auto next(Table& table)
    {
        auto item = goes_on() ? table.next(cursor_) : decltype(table.next(cursor_)){};
        if (cursor_.hash != last_hash_ || cursor_.address != last_address_)
            path = 0, number = 0;
        return item;
    }
    void next_path() { path++, number = 0; }
    void next_kind() { kind++, path = 0, number = 0, cursor_ = {}, last_hash_ = last_address_ = 0; }

    unsigned kind, path;
    u64 number; // as the queue counts

private:
    static constexpr unsigned paths = 256; // of a step, more than there are

    u64 last_hash_, last_address_;
    HashCursor cursor_;
};

void add_message(kapi_report* report, u64 sequence, u32 bytes, u16 local_port, u16 remote_port, const Ip* remote)
{
    kapi_report_begin(report, HAWSER_RDS_QUEUE_MESSAGE);
    kapi_report_number(report, HAWSER_RDS_MESSAGE_SEQUENCE, sequence);
    kapi_report_number(report, HAWSER_RDS_MESSAGE_BYTES, bytes);
    kapi_report_number(report, HAWSER_RDS_MESSAGE_LOCAL_PORT, local_port);
    kapi_report_number(report, HAWSER_RDS_MESSAGE_REMOTE_PORT, remote_port);
    if (remote)
        kapi_report_ip(report, HAWSER_RDS_MESSAGE_REMOTE, remote->bytes());
    kapi_report_end(report);
}

// Calls visit_some(visit), which calls visit(message) for some messages of a queue and returns whether there are more, until
// there is no room for as many. add(message, is_first) adds one. False: nothing was added.
template <class VisitSome, class Add> bool add_messages(kapi_report* report, bool& more, VisitSome&& visit_some, Add&& add)
{
    bool added = false;
    do
        more = visit_some([&](auto& message) {
            add(message, !added);
            added = true;
        });
    while (more && goes_on() && (!added || kapi_report_room(report) >= piece_bytes));
    return added;
}

bool add_received(kapi_report* report, Socket& socket, Walk& walk)
{
    Socket::Place at;
    at.visited = at.skip = walk.number;
    bool more = false;
    bool added = add_messages(
        report, more, [&](auto&& visit) { return socket.visit_received(at, piece_messages, visit); },
        [&](Incoming& i, bool is_first) {
            if (is_first) {
                kapi_report_number(report, HAWSER_RDS_QUEUE_KIND, HAWSER_RDS_RECEIVE);
                kapi_report_ip(report, HAWSER_RDS_QUEUE_LOCAL, socket.bound_key().ip.bytes());
            }
            add_message(report, i.header.sequence, i.length(), i.header.dport, i.header.sport, &i.source.ip);
        });
    walk.number = at.visited;
    if (!more)
        walk.next_path();
    return added;
}

bool add_sent(kapi_report* report, Connection& connection, Walk& walk)
{
    SendQueue::Place at;
    at.next = walk.number;
    bool more = false;
    bool added = add_messages(
        report, more,
        [&](auto&& visit) {
            return connection.path(walk.path).visit_messages(walk.kind == HAWSER_RDS_RETRANSMIT, at, visit);
        },
        [&](Message& m, bool is_first) {
            if (is_first) {
                kapi_report_number(report, HAWSER_RDS_QUEUE_KIND, walk.kind);
                kapi_report_ip(report, HAWSER_RDS_QUEUE_LOCAL, connection.local.ip.bytes());
                kapi_report_ip(report, HAWSER_RDS_QUEUE_REMOTE, connection.remote.ip.bytes());
                kapi_report_text(report, HAWSER_RDS_QUEUE_TRANSPORT, connection.transport.name);
                kapi_report_number(report, HAWSER_RDS_QUEUE_TOS, connection.tos);
                kapi_report_number(report, HAWSER_RDS_QUEUE_PATH, walk.path);
            }
            add_message(report, m.header().sequence, m.length(), m.header().sport, m.header().dport, nullptr);
        });
    walk.number = at.next;
    if (!more)
        walk.next_path();
    return added;
}

bool add_part(kapi_report* report, Net& net, Walk& walk)
{
    if (walk.kind == HAWSER_RDS_RECEIVE) {
        while (Ref<Socket> socket = walk.next(net.binds))
            if (walk.path == 0 && add_received(report, *socket, walk))
                return true;
        return false;
    }
    while (Ref<Connection> connection = walk.next(net.connections))
        while (walk.path < connection->path_count() && goes_on()) // else nothing might be added, from the same place on
            if (add_sent(report, *connection, walk))
                return true;
    return false;
}

} // namespace

int next_queue(kapi_net* host, kapi_report_place* place, kapi_report* report)
{
    if (place->choice > last_kind)
        return -KAPI_EINVAL;
    Net* net = Module::get().find_net(host);
    Walk walk(*place);
    for (unsigned last = place->choice ? place->choice : last_kind; net && walk.kind <= last; walk.next_kind()) {
        if (!add_part(report, *net, walk))
            continue;
        walk.save(*place);
        return 1;
    }
    return 0;
}

} // namespace rds
