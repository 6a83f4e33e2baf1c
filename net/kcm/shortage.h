// SPDX-License-Identifier: GPL-2.0
// Connections that wait for memory in the middle of a message.
//
// Each holds what has come of its message. When the memory that they may have is full of such parts, none of them can ever go
// on: each waits for what the others hold. Then some have to end. Nothing is wrong, however, when it is unread messages that
// take the memory: their readers give it back. Whether reading helps shows when they read: what a connection holds counts twice
// (kapi_share()), so that one which holds much may still get nothing when all is read, while others go on.
//
// The users have one each: what others receive and do not read, and how many of theirs wait, has no part in it.
//
// So each is judged by its own time, whatever others get meanwhile: it may end when it got nothing for some time, and either as
// much was read as it lacks, or as another lacks that waits for its memory, or too little is there to be read. A connection that
// waits alone may wait for another user, or for what its memory cgroup has in other places: it has a longer time.
#pragma once

#include "../lock_order.h"

#include <hawser/hash_table.h>
#include <hawser/list.h>
#include <hawser/lock.h>

namespace kcm {

using namespace hw;

class Psock;

struct Starved; // list tag: connections that wait for memory
struct ByUser;  // table tag

// What such a connection has of its message and what is missing; since when it has got nothing, and what had been read until
// then; when it looked at the others last.
struct Parts {
    u64 held = 0, missing = 0, since_ns = 0, read_before = 0, looked_ns = 0;
};

class Shortage;
using Shortages = HashTable<Shortage, ByUser, ShortagesLock, 16>;

class Shortage : public RefCounted<Shortage>, public HashNode<ByUser> {
public:
    // That of the user with this id (kapi_user()), new if there is none; it has the reference, and the table must outlast it.
    // Sleeps. ENOMEM.
    static Result<Ref<Shortage>> get(Shortages& all, u64 user);
    static void destroy(Shortage* shortage);

    // How long a connection gets nothing before it may end: when another one waits, and when none does.
    static constexpr u64 patience_ns = 1'000'000'000, patience_alone_ns = 120'000'000'000;

    // psock has no memory for the next piece of a message, or of its beginning, before the length is known; again, each time it
    // has tried. Those that have to end are asked to give way: of those that may end those that hold most, as many as one of them
    // lacks. In rx().
    void wait(Psock& psock, u64 held, u64 missing);
    // It has got some: it does not give way to those that looked meanwhile. In rx().
    void got_memory(Psock& psock);
    // It has ended.
    void stop(Psock& psock);

    // Messages that nobody has read yet.
    void count_unread(u64 bytes) { received_.fetch_add(bytes); }
    void forget_unread(u64 bytes) { read_.fetch_add(bytes); }

private:
    HW_MADE_BY_CREATE;
    Shortage(Shortages& all, u64 user) : all_(all), user_(user) {}
    ~Shortage() = default;

    static constexpr unsigned looked_at = 64; // at a time: bottom halves are off meanwhile
    struct Seen { Psock* psocks[looked_at]; unsigned count = 0; };
    using List = RefList<Psock, Starved>;

    List& list_of(u64 held) HW_REQUIRES(lock_);
    void look_at_some(Seen& seen) HW_REQUIRES(lock_);
    void look(Psock& psock, u64 now) HW_REQUIRES(lock_);
    Ref<Psock> remove(Psock& psock) HW_REQUIRES(lock_);
    bool may_end(const Parts& parts, u64 waited_ns, u64 patience, bool reading_may_help);
    // Could one go on that lacks so much if all were read?
    bool reading_may_help(u64 missing);

    Shortages& all_;
    const u64 user_;
    Spin<ShortageLock> lock_;
    // By the size of what they hold, each list for four times as much as the one before: those that hold most are found at once.
    static constexpr unsigned lists = 16;
    List waiting_[lists] HW_GUARDED_BY(lock_);
    u64 gave_way_ns_ HW_GUARDED_BY(lock_) = 0; // when some were asked to end: others have all their time from then on
    Atomic<u64> received_{0}, read_{0};        // bytes of messages, since the beginning
};

} // namespace kcm
