// SPDX-License-Identifier: GPL-2.0
// Memory that peers make a namespace use and that is charged to no program: connections that no program made, with the streams of
// their paths, further streams that peers opened, messages of which only a part has arrived, and answers that a peer does not
// read. Each path has a limit, but a peer can have any number of addresses, so there is another one for all paths together
// (peers_share.h).
#pragma once

#include "peers_share.h"
#include "wire.h"

#include <hawser/hash_table.h>
#include <hawser/work.h>

namespace rds {

using namespace hw;

class Connection;
class Net;

class PeersMemory : Pinned {
public:
    explicit PeersMemory(Net& net);

    // A connection that is made outside of a program's call. It has the streams that its paths may have, whether they do or not:
    // a path without one gets one at any time. Any context. False: there are too many.
    [[nodiscard]] bool take_connection() { return connections_.take(connection_bytes); }
    void give_connection() { connections_.give(connection_bytes); }
    // Another stream that a peer's host opened, as rds_conn_stream_room() and the rest say.
    int stream_room() const { return connections_.share(stream_bytes); }
    void stream_added() { connections_.add(stream_bytes); }
    void stream_gone() { connections_.give(stream_bytes); }
    bool has_many_connections() const { return connections_.share(connection_bytes) != 0; }

    // A message of which a part has arrived, be it the header alone; size: of its payload and what each message costs. Any
    // context. False: there are too many. The rest of the message stays with the transport, and it is tried again later.
    // Meanwhile messages with little progress are ended, as many as wait, beginning with the peer that holds most; but
    // never the oldest one that progresses.
    [[nodiscard]] bool take_partial(u32 size);
    void give_partial(u32 size)
    {
        partials_.give(size);
        partial_count_.fetch_sub(1);
    }
    void note_waiting(u32 before, u32 now) { partials_.note_waiting(before, now); }
    // When a path that was refused tries again: in its turn, so that any number of them make few attempts. Any context.
    u64 retry_delay_ns();

    // Answers that are queued or not acknowledged. Any context.
    void answers_added(u32 count) { answers_.add(u64{count} * answer_bytes); }
    void answers_gone(u32 count) { answers_.give(u64{count} * answer_bytes); }
    // A path with few may have one more although there are many, up to the limit: the number of paths is large, too.
    bool has_room_for_answer(bool path_has_few) const
    {
        int share = answers_.share(answer_bytes);
        return share == 0 || (share > 0 && path_has_few);
    }

    static constexpr u64 look_ns = 10'000'000'000; // between two looks at their progress

    // Sleeps. There is no connection any more.
    void stop() { work_.cancel_sync(); }

private:
    static constexpr u32 stream_bytes = 4 << 10; // a TCP socket, without what it received
    // With eight paths and two maps, in both modules.
    static constexpr u32 connection_bytes = (16 << 10) + max_paths * stream_bytes;
    static constexpr u32 answer_bytes = 256;

    void look();
    bool search_some();
    void judge(Connection& connection);
    struct Held {
        u64 endable = 0; // bytes
        u64 oldest_ns = ~u64{0}, oldest_progressing_ns = ~u64{0};
        bool too_much = false;
    };
    Held held_by(Connection& connection);
    void end_slow(Connection& connection);

    Net& net_;
    Atomic<u32> partial_count_{0};
    PeersAccount &connections_, &partials_, &answers_;
    Atomic<u64> next_turn_ns_{0};
    // For messages with little progress, a few connections in each run of the work: first all are judged, then some ended.
    struct Search {
        enum Step : u8 { none, judge, end } step = none;
        u64 now_ns = 0;
        u64 oldest_ns = ~u64{0}; // of those that progress
        u64 most = 0;            // slow bytes of a connection
        u64 ended = 0;           // bytes
        HashCursor place{};
    } search_;
    Work<PeersMemory, &PeersMemory::look> work_{*this};
};

} // namespace rds
