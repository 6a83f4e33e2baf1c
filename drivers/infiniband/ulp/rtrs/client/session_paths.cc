// SPDX-License-Identifier: GPL-2.0
// Paths come and go, and the requests that wait for one.
#include "module.h"
#include "session.h"
#include "sysfs.h"

#include "../common/path_name.h"

namespace rtrs_clt {

namespace {

constexpr u64 ms = 1'000'000, pause_ns = 10 * ms, look_ns = 1000 * ms;

bool same(const kapi_addr& a, const kapi_addr& b)
{
    return !kapi_compare(a.ip, b.ip, sizeof(a.ip)) && a.scope == b.scope;
}

} // namespace

bool Session::has_same(const PathAddress& address)
{
    for (Path* path = paths_; path; path = path->next) {
        const PathAddress& other = path->address();
        if (other.space == address.space && same(other.local, address.local) && same(other.remote, address.remote))
            return true;
    }
    return false;
}

u32 Session::free_index()
{
    PathSet used;
    for (Path* path = paths_; path; path = path->next)
        used.set(path->index);
    u32 index = 0;
    while (used.has(index))
        index++;
    return index;
}

Result<> Session::link_path(Path& path)
{
    Guard guard(lock_);
    if (closing_.load_relaxed())
        return fail(KAPI_ECONNABORTED);
    if (has_same(path.address()))
        return fail(KAPI_EEXIST);
    if (path_count_ == rtrs::max_paths)
        return fail(KAPI_ENOSPC);
    path_count_++;
    path.index = free_index();
    path.next = paths_;
    paths_ = &path;
    path.removing = true; // until it is up
    return {};
}

// A server that has not noticed the end of a path that was removed has a path between these addresses until then. One that has
// lost all others takes none for the session that it had: if the client has lost one meanwhile, it asks for a new session now.
Result<> Session::connect_new(Path& path)
{
    constexpr u64 unnoticed_ns = 6000 * ms, between_ns = 500 * ms;
    for (;;) {
        u32 losses = losses_.load_relaxed();
        auto up = path.connect();
        if (up)
            return up;
        u64 now = kapi_now_ns(), removed_ns = removed_ns_.load_relaxed();
        bool unnoticed = up.error() == Errno(KAPI_EEXIST) && removed_ns && now - removed_ns < unnoticed_ns;
        bool over = up.error() == Errno(KAPI_ECONNRESET) && losses_.load_relaxed() != losses;
        if (!unnoticed && !over)
            return up;
        auto closing = gone_.wait_until(now + between_ns, [&] { return closing_.load_relaxed(); });
        if (closing || closing.error() != Errno(KAPI_ETIMEDOUT))
            return closing ? up : closing;
    }
}

Result<> Session::add_path(const PathAddress& address)
{
    Own<Path> path = TRY(Path::create(*this, address));
    TRY(link_path(*path));
    Path& added = *path.release();
    Result<> up = connect_new(added);
    if (up)
        up = publish(added);
    if (!up) {
        end_path(added);
        return up;
    }
    Guard guard(lock_);
    added.removing = false;
    added.notify(); // of settings that have changed since it came up
    gone_.wake();
    return {};
}

bool Session::claim(Path& path)
{
    Guard guard(lock_);
    return !std::exchange(path.removing, true);
}

Path* Session::claim_any()
{
    Guard guard(lock_);
    for (Path* path = paths_; path; path = path->next)
        if (!std::exchange(path->removing, true))
            return path;
    return nullptr;
}

bool Session::has_unclaimed()
{
    Guard guard(lock_);
    for (Path* path = paths_; path; path = path->next)
        if (!path->removing)
            return true;
    return false;
}

bool Session::has_no_path()
{
    Guard guard(lock_);
    return path_count_ == 0;
}

// The folder of the path is then ours to remove, although we are in a call of it.
Result<> Session::remove_path_of(const char* file, Path& path)
{
    if (!claim(path))
        return fail(KAPI_EBUSY);
    HW_ASSERT(kapi_sysfs_leave(path.dir, file) == 1);
    end_path(path);
    return {};
}

// Under the addresses that the connection manager has found.
Result<> Session::publish(Path& path)
{
    char name[rtrs::max_path_name + 1] = {};
    rtrs::Text text(name, rtrs::max_path_name);
    Path::Place place = path.place();
    write_path_name(text, path.address().space, place.info.local, place.info.remote);
    auto files = path_files(), stats = stats_files();
    TRY(check(kapi_sysfs_dir_create(paths_dir_, name, files.data(), static_cast<unsigned>(files.size()), &path, &path.dir)));
    return check(kapi_sysfs_dir_create(path.dir, "stats", stats.data(), static_cast<unsigned>(stats.size()), &path,
                                       &path.stats_dir));
}

// By the one who has claimed it.
void Session::end_path(Path& path)
{
    path.remove();
    if (path.reason() != Errno(KAPI_EEXIST)) // else the server has never had it, but another one
        removed_ns_.store_relaxed(kapi_now_ns());
    forget_path(path, kapi_now_ns() + Kept::patience_ns);
    kapi_sysfs_remove(path.stats_dir);
    kapi_sysfs_remove(path.dir);
    {
        Guard guard(lock_);
        Path** at = &paths_;
        while (*at != &path)
            at = &(*at)->next;
        *at = path.next;
    }
    dispose(&path);
    Guard guard(lock_); // the last that is done with the session
    path_count_--;
    gone_.wake();
}

void Session::close()
{
    {
        Guard guard(lock_);
        closing_.store_relaxed(true);
        for (Path* path = paths_; path; path = path->next)
            path->begin_removal(); // all at the same time, also those that are being added
    }
    gone_.wake(); // who is about to try again
    // Those that others have claimed go by themselves, or are left to us.
    while (!has_no_path()) {
        while (Path* path = claim_any())
            end_path(*path);
        gone_.wait_for([&] { return has_no_path() || has_unclaimed(); });
    }
    kapi_sysfs_remove(paths_dir_);
    kapi_sysfs_remove(dir_);
    retry_.cancel_sync();
    look_.cancel_sync(); // retry() queues it
    retry();
    release(kept_.all());
    report_.cancel_sync(); // its user may have waited for one of these permits
    if (has_parts())
        parts().permits.wait_for_all();
    retry_.cancel_sync(); // of a request that was being made, and has ended
}

bool Session::can_move_requests()
{
    Guard guard(lock_);
    return paths_up_ && !closing_.load_relaxed();
}

bool Session::route_beside(const Path& path, u32& index, kapi_cm_route& route)
{
    Guard guard(lock_);
    const Path* next = nullptr;
    auto distance = [&](const Path& other) { return (other.index + rtrs::max_paths - index - 1) % rtrs::max_paths; };
    for (Path* other = closing_.load_relaxed() ? nullptr : paths_; other; other = other->next)
        if (other != &path && other->state() == PathState::up && (!next || distance(*other) < distance(*next)))
            next = other;
    if (!next)
        return false;
    index = next->index;
    route = next->route();
    return true;
}

// ---- requests that wait

bool Session::is_late(const Io& io) const
{
    u64 limit = settings_.io_ms.load_relaxed() * ms;
    return limit && kapi_now_ns() - io.asked_ns >= limit;
}

void Session::end_unanswered(Io& io, Errno error, u64 kept_until_ns)
{
    if (!Kept::is_over(io, kapi_now_ns()) && !closing_.load_relaxed()) {
        kept_.add(io, kept_until_ns);
        static_cast<void>(look_.queue(module_.queue, look_ns));
    }
    complete(io, error.code());
}

// No request is sent over this path meanwhile. Until then the server may work on what was.
void Session::forget_path(const Path& path, u64 unnoticed_until_ns)
{
    for (u32 i = 0; has_parts() && i < parts().count; i++) {
        Io& one = io(i);
        if (!one.tried.has(path.index))
            continue;
        if (unnoticed_until_ns)
            one.unnoticed_until_ns.store_relaxed(unnoticed_until_ns); // before it is out: Kept::is_over()
        one.tried.clear(path.index);
    }
}

void Session::release(Io* kept)
{
    while (Io* io = kept) {
        kept = io->next;
        parts().permits.give(io->chunk);
    }
}

void Session::release_expired()
{
    release(kept_.expired(kapi_now_ns()));
}

void Session::notify_paths()
{
    Guard guard(lock_);
    for (Path* path = paths_; path; path = path->next)
        if (!path->removing) // else its worker may be no more
            path->notify();
}

// A full send queue has room soon. Without a path it depends on how long that may last; what was made before the loss ends.
void Session::send_again(Io& io)
{
    u64 kept_until_ns = kapi_now_ns() + Kept::patience_ns;
    if (is_late(io))
        return end_unanswered(io, Errno(KAPI_ETIMEDOUT), kept_until_ns);
    u64 unmapped_since_ns = std::exchange(io.unmapped_since_ns, 0);
    Result<> sent = closing_.load_relaxed() ? fail(KAPI_ECONNABORTED) : lanes_.send(io, settings_.policy.load_relaxed());
    if (sent)
        return;
    if (sent.error() == Errno(KAPI_EAGAIN))
        return append(io);
    if (wait_for_mapping(io, sent.error(), unmapped_since_ns))
        return;
    if (sent.error() != Errno(KAPI_ECONNABORTED) || !park(io))
        end_unanswered(io, sent.error(), kept_until_ns);
}

// A bounce buffer is full while others do much IO. since_ns: since when it waits, 0: not yet. False: not for want of a mapping,
// or for so long that the device may never reach the memory.
bool Session::wait_for_mapping(Io& io, Errno why, u64 since_ns)
{
    constexpr u64 patience_ns = 10'000 * ms;
    if (why == Errno(KAPI_EAGAIN) || !Lanes::is_momentary(why))
        return false;
    u64 now = kapi_now_ns();
    if (!since_ns)
        since_ns = now;
    if (now - since_ns >= patience_ns)
        return false;
    io.unmapped_since_ns = since_ns;
    append(io);
    return true;
}

bool Session::park(Io& io)
{
    u64 limit = settings_.no_path_ms.load_relaxed() * ms;
    if (closing_.load_relaxed() || io.generation != lanes_.generation() || kapi_now_ns() - io.asked_ns >= limit)
        return false;
    append(io);
    return true;
}

void Session::append(Io& io)
{
    io.next = nullptr;
    // The work is queued under the lock: as soon as io can be taken it may end, and the session with it.
    parked_.with([&](Parked& parked) {
        *parked.last = &io;
        parked.last = &io.next;
        static_cast<void>(retry_.queue(module_.queue, pause_ns));
    });
}

// Chunks that are kept come back also when no path is tried any more, which would look at them.
void Session::look_at_kept()
{
    release_expired();
    if (kept_.has_any() && !closing_.load_relaxed())
        static_cast<void>(look_.queue(module_.queue, look_ns));
}

void Session::retry()
{
    Io* first = parked_.with([](Parked& parked) {
        parked.last = &parked.first;
        return std::exchange(parked.first, nullptr);
    });
    while (Io* io = first) {
        first = io->next;
        send_again(*io);
    }
}

} // namespace rtrs_clt
