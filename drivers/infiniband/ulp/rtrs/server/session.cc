// SPDX-License-Identifier: GPL-2.0
#include "session.h"

#include "context.h"
#include "sysfs.h"

#include "../common/text.h"

namespace rtrs_srv {

Result<Ref<Session>> Session::create(Context& context, const Uuid& uuid)
{
    auto session = Ref<Session>::adopt(make<Session>(Alloc::sleep, context, uuid));
    if (!session)
        return fail(KAPI_ENOMEM);
    return session;
}

void Session::destroy(Session* session) { dispose(session); }

// No path is left, so no call is under way.
Session::~Session()
{
    if (calls_)
        kapi_workqueue_destroy(calls_);
}

Ref<Path> Session::find(const Uuid& uuid)
{
    Guard guard(lock_);
    for (Path* path = paths_.front(); path; path = paths_.next(*path))
        if (path->uuid() == uuid)
            return Ref<Path>::share(*path);
    return {};
}

Ref<Path> Session::find_before(const Connection& connection)
{
    Ref<Path> named = find(connection.request().path);
    if (named)
        return named;
    const kapi_cm_info& info = connection.info();
    Guard guard(lock_);
    for (Path* path = paths_.front(); path; path = paths_.next(*path))
        if (same_host(path->client(), info.remote) && same_host(path->server(), info.local))
            return Ref<Path>::share(*path);
    return {};
}

Result<> Session::add(const Ref<Path>& path)
{
    Guard guard(lock_);
    if (count_ >= max_paths)
        return fail(KAPI_ECONNRESET);
    for (Path* other = paths_.front(); other; other = paths_.next(*other))
        if (same_host(other->client(), path->client()) && same_host(other->server(), path->server()))
            return fail(KAPI_EEXIST);
    paths_.push_back(path);
    count_++;
    return {};
}

void Session::remove(Path& path)
{
    Ref<Path> removed; // dropped without the lock
    {
        Guard guard(lock_);
        removed = paths_.remove(path);
        count_--;
    }
    notify_all(Path::others_ended);
}

bool Session::is_empty()
{
    Guard guard(lock_);
    return paths_.empty();
}

bool Session::has_other(const Path& path, const kapi_addr& client, const kapi_addr& server)
{
    Guard guard(lock_);
    for (Path* other = paths_.front(); other; other = paths_.next(*other))
        if (other != &path && same_host(other->client(), client) && same_host(other->server(), server))
            return true;
    return false;
}

bool Session::has_closing_path()
{
    Guard guard(lock_);
    for (Path* path = paths_.front(); path; path = paths_.next(*path))
        if (path->is_closing())
            return true;
    return false;
}

bool Session::is_given_up()
{
    u64 now = kapi_now_ns();
    for (const Awaited& one : awaited_)
        if (now < one.until_ns)
            return false;
    Guard guard(lock_);
    for (Path* path = paths_.front(); path; path = paths_.next(*path))
        if (!path->is_over())
            return false;
    return true;
}

Session::Awaited& Session::awaited(const Uuid& path)
{
    Awaited* first = awaited_;
    for (Awaited& one : awaited_) {
        if (one.path == path)
            return one;
        if (one.until_ns < first->until_ns)
            first = &one;
    }
    return *first;
}

void Session::notify_all(u32 events)
{
    Guard guard(lock_);
    for (Path* path = paths_.front(); path; path = paths_.next(*path))
        path->notify(events);
}

Result<> Session::make_chunks()
{
    constexpr u32 most_calls = 512; // at a time on a processor: the most that the kernel has
    Guard guard(making_);
    if (!chunks) // first, because they are what there may not be enough memory for
        TRY(chunks.make(Module::get().settings.geometry, Module::get().budget));
    if (!calls_)
        calls_ = kapi_workqueue_create("rtrs_calls", most_calls);
    return calls_ ? Result<>() : fail(KAPI_ENOMEM);
}

// ---- folders

// Servers of other network namespaces have their folders in the same place: where one has a session of this name, a number is
// behind it, for which the longest names lose their end.
Result<> Session::show_self()
{
    constexpr u32 most_of_name = 100;
    constexpr usize longest_folder = 255, longest_number = sizeof("#100") - 1;
    SessionName known = TRY(context_.claimed_name(*this));
    auto files = session_files();
    int err = -KAPI_EEXIST;
    for (u32 n = 1; err == -KAPI_EEXIST && n <= most_of_name; n++) {
        char name[longest_folder + 1] = {};
        Text text(name, longest_folder);
        if (n == 1)
            text.add(known.text);
        else
            text.add(TextView(known.text).substr(0, longest_folder - longest_number)).add("#").number(n);
        err = kapi_sysfs_device_create(Module::get().sysfs, name, files.data(), static_cast<u32>(files.size()), this, &folder_);
    }
    TRY(check(err));
    return check(kapi_sysfs_dir_create(folder_, "paths", nullptr, 0, this, &paths_folder_));
}

void Session::hide_self()
{
    kapi_sysfs_remove(std::exchange(paths_folder_, nullptr));
    kapi_sysfs_remove(std::exchange(folder_, nullptr));
}

Result<> Session::show(Path& path)
{
    Guard guard(serial_);
    auto shown = folder_ ? Result<>() : show_self();
    if (shown)
        shown = path.make_folders(paths_folder_);
    if (shown)
        shown_++;
    else if (!shown_)
        hide_self();
    return shown;
}

void Session::hide(Path& path)
{
    Guard guard(serial_);
    if (path.remove_folders() && --shown_ == 0)
        hide_self();
}

// ---- the user

// The user does not know a session that it has refused. One that it has ended is over for the client only when that has lost all
// of its paths, too: what it says over this one would mean something else in the next.
Result<> Session::path_up(bool may_begin)
{
    Guard guard(serial_);
    if (was_up_ && !paths_up_.load_relaxed() && !may_begin)
        return fail(KAPI_ECONNRESET);
    if (paths_up_.fetch_add(1) != 0)
        return {};
    auto known = check(context_.link_event(*this, RTRS_SRV_CORE_CONNECTED));
    if (known)
        was_up_ = true;
    else
        paths_up_.fetch_sub(1);
    return known;
}

void Session::path_down()
{
    Guard guard(serial_);
    if (paths_up_.fetch_sub(1) == 1)
        static_cast<void>(context_.link_event(*this, RTRS_SRV_CORE_DISCONNECTED));
}

} // namespace rtrs_srv
