// SPDX-License-Identifier: GPL-2.0
#include "session.h"

#include "module.h"
#include "sysfs.h"

namespace rtrs_clt {

rtrs::Uuid random_uuid()
{
    u32 words[4] = {kapi_random_u32(), kapi_random_u32(), kapi_random_u32(), kapi_random_u32()};
    rtrs::Uuid uuid;
    kapi_copy(uuid.bytes, words, sizeof(uuid.bytes));
    uuid.bytes[6] = (uuid.bytes[6] & 0x0f) | 0x40; // version 4, as RFC 9562 has it
    uuid.bytes[8] = (uuid.bytes[8] & 0x3f) | 0x80;
    return uuid;
}

Session::Session(Module& module, const Config& config, u32 connections)
    : module_(module), config_(config), connections_(connections), uuid_(random_uuid()), settings_(module.presets)
{
}

Result<Own<Session>> Session::create(Module& module, const Config& config)
{
    u32 connections = min(kapi_cpus() + 1, rtrs::max_connections);
    Own<Session> session(make<Session>(Alloc::sleep, module, config, connections));
    if (!session)
        return fail(KAPI_ENOMEM);
    TRY(session->lanes_.make(connections));
    auto files = session_files();
    TRY(check(kapi_sysfs_device_create(module.sysfs, session->name(), files.data(), static_cast<unsigned>(files.size()),
                                       session.get(), &session->dir_)));
    int err = kapi_sysfs_dir_create(session->dir_, "paths", nullptr, 0, nullptr, &session->paths_dir_);
    if (err) {
        kapi_sysfs_remove(session->dir_);
        return fail(Errno::from_c(err));
    }
    return session;
}

Session::~Session()
{
    dispose(parts_.load_relaxed());
}

Devices& Session::devices() { return module_.devices; }
kapi_workqueue* Session::queue() { return module_.queue; }

// ---- what the server's geometry decides

Session::Parts::~Parts()
{
    while (count)
        ios.get()[--count].~Io();
}

// The server does not decide how much of this host's memory its clients use. About what a path takes, with the session: a queue
// entry has several pieces, a region a list of its pages.
Result<> Session::Parts::check_memory(const kapi_rdma_attrs& attrs, u32 connections) const
{
    constexpr u32 share = 16, bytes_of_region = 512, bytes_of_page = 16;
    u32 depth = geometry.queue_depth();
    u64 bytes = u64{depth} * (Messages::slot_bytes + bytes_of_region + region_pages * bytes_of_page) +
                connections * Connection::bytes_of_queues(attrs, depth);
    return bytes > kapi_memory_total() / share ? fail(KAPI_ENOMEM) : Result<>();
}

Result<> Session::Parts::make(const rtrs::Offer& offer, const kapi_rdma_attrs& attrs, u32 connections)
{
    constexpr u32 page = 4096, share_of_messages = 64;
    geometry = offer.geometry;
    u32 depth = geometry.queue_depth();
    u32 most_pages = min(attrs.max_mr_pages - 1, offer.max_io_bytes / page + 1); // no product that is too large
    max_io_bytes = min(offer.max_io_bytes, most_pages * page);
    region_pages = max_io_bytes / page + 1;
    message_bytes = min(offer.max_header_bytes, Messages::slot_bytes);
    if (message_bytes < rtrs::max_request_header)
        return fail(KAPI_EINVAL);
    if (u64{depth} * Messages::slot_bytes > kapi_memory_total() / share_of_messages)
        return fail(KAPI_ENOMEM);
    TRY(check_memory(attrs, connections));
    TRY(permits.make(depth));
    TRY(messages.make(depth));
    ios.reset(static_cast<Io*>(kapi_zalloc(depth * sizeof(Io), KAPI_SLEEP)));
    if (!ios)
        return fail(KAPI_ENOMEM);
    for (; count < depth; count++)
        (::new (&ios.get()[count]) Io)->chunk = count;
    return {};
}

Result<> Session::adopt(const rtrs::Offer& offer, const kapi_rdma_attrs& attrs)
{
    if (!has_parts()) {
        Own<Parts> made(make<Parts>(Alloc::sleep));
        if (!made)
            return fail(KAPI_ENOMEM);
        TRY(made->make(offer, attrs, connections_));
        Parts* none = nullptr;
        if (parts_.compare_exchange(none, made.get()))
            static_cast<void>(made.release());
        if (!none && parts().count == 1)
            kapi_log(KAPI_LOG_WARN, "rtrs_client: %s: the server's queue depth of 1 leaves no permit for admin requests", name());
    }
    return geometry() == offer.geometry ? parts().check_memory(attrs, connections_) : fail(KAPI_EINVAL);
}

// ---- requests

// When a permit was used the last time: now, if it is to be expected that one comes back by itself. With admin, one of those for
// admin requests.
u64 Session::last_use_ns(bool admin, u64 now_ns)
{
    u64 last = has_parked() || (!admin && kept_.has_any()) ? now_ns : 0;
    for (u32 i = 0; i < parts().count; i++) {
        bool used = io(i).owner.load_acquire(); // first: the lane was set before
        if (!admin || io(i).lane.load_relaxed() == 0)
            last = max(last, used ? now_ns : io(i).began_ns.load_relaxed());
    }
    return last;
}

// One permit stays for IO: RNBD has that of an OPEN until its disk is made, which is not before its first sectors are read.
bool Session::may_take_admin()
{
    u32 taken = admin_permits_.load_relaxed();
    while (taken + 1 < parts().count)
        if (admin_permits_.compare_exchange(taken, taken + 1))
            return true;
    return false;
}

bool Session::has_admin_permit() { return admin_permits_.load_relaxed() + 1 < parts().count; }

s32 Session::take_free(u32 cpu, bool admin)
{
    if (admin && !may_take_admin())
        return -1;
    s32 taken = parts().permits.take(cpu);
    if (taken < 0 && admin)
        admin_permits_.fetch_sub(1);
    return taken;
}

// RNBD asks for one more while it has one. When all are in such hands none comes back, and a thread that waits cannot even be
// killed.
s32 Session::wait_for_permit(u32 cpu, bool admin, u32 generation)
{
    constexpr u64 patience_ns = 30'000'000'000;
    constexpr u64 look_ns = 1'000'000'000; // at all requests, which takes long where there are many
    u64 used_ns = kapi_now_ns();
    u64 looks_ns = used_ns + look_ns;
    s32 taken = -1;
    parts().permits.wait([&] {
        if (closing_.load_relaxed())
            return true;
        taken = take_free(cpu, admin);
        if (taken >= 0 || generation != lanes_.generation())
            return true;
        u64 now = kapi_now_ns();
        if (now < looks_ns)
            return false;
        looks_ns = now + look_ns;
        used_ns = max(used_ns, last_use_ns(admin && !has_admin_permit(), now));
        return now >= used_ns + patience_ns;
    });
    return taken;
}

Io* Session::take_permit(bool admin, bool wait)
{
    u32 generation = known_generation_.load_acquire(); // before it waits: what it asks for may be older than the permit
    u32 cpu = kapi_cpu();
    s32 taken = take_free(cpu, admin);
    if (taken < 0 && wait && (!admin || parts().count > 1))
        taken = wait_for_permit(cpu, admin, generation);
    if (taken < 0)
        return nullptr;
    Io& permit = io(static_cast<u32>(taken));
    permit.generation = generation;
    permit.lane.store_relaxed(admin ? 0 : 1 + cpu % (connections_ - 1)); // of which there are two at least: create()
    return &permit;
}

// One that is kept is not its user's any more behind give(): the session may end then.
void Session::give_permit(Io& io)
{
    if (io.lane.load_relaxed() == 0) {
        admin_permits_.fetch_sub(1);
        parts().permits.wake(); // another one may be free
    }
    if (kept_.give(io))
        parts().permits.give(io.chunk);
}

u32 Session::most_user_bytes() const
{
    return parts().message_bytes - static_cast<u32>(rtrs::max_request_header);
}

Result<> Session::request(Io& io, const Order& order)
{
    if (order.user_bytes > most_user_bytes() || order.data_bytes > max_io_bytes() || order.pieces > max_pieces())
        return fail(KAPI_EMSGSIZE);
    if (order.data_bytes && !order.pieces)
        return fail(KAPI_EINVAL);
    if (closing_.load_relaxed())
        return fail(KAPI_ECONNABORTED);
    if (io.kept.load_acquire())
        return fail(KAPI_EBUSY);
    io.order = order;
    io.asked_ns = kapi_now_ns();
    io.tried.clear_all();
    io.unnoticed_until_ns.store_relaxed(0);
    auto sent = lanes_.send(io, settings_.policy.load_relaxed());
    if (!sent && (wait_for_mapping(io, sent.error(), 0) || (sent.error() == Errno(KAPI_ECONNABORTED) && park(io))))
        return {};
    return sent;
}

// What an answer says of a session that is over is of no use in the next one: with RNBD the number of a disk.
void Session::complete(Io& io, int error)
{
    if (!error && io.generation != lanes_.generation())
        error = KAPI_ECONNABORTED;
    Order order = io.order; // the permit may be used again before done() returns
    order.done(order.priv, -error);
}

void Session::interrupted(Path& path, Io* first)
{
    while (Io* io = first) {
        first = io->next;
        if (io->answered) {
            complete(*io, io->error);
            continue;
        }
        // Its path comes back when the server has ended it.
        if (is_late(*io)) {
            end_unanswered(*io, Errno(KAPI_ETIMEDOUT), KAPI_FOREVER);
            continue;
        }
        path.stats().failed_over();
        send_again(*io);
    }
}

// ---- its paths

void Session::path_returns(const Path& path)
{
    forget_path(path, 0);
}

// Another path may have come up since this one has asked the server for a session, and the server may have lost it since, which
// is not noticed here: its user's session would begin anew, and the user here would not learn of it.
// What the path does in one go, path_down() of another sees as a whole: if this one took requests later than it counts, those of
// the other one would find neither, and fail although a path is there.
Result<bool> Session::count_up(Link& link)
{
    Guard guard(lock_);
    if (link.makes_session() && paths_up_)
        return fail(KAPI_ECONNRESET);
    link.open();
    return ++paths_up_ == 1 && opened_;
}

void Session::path_up(bool reports)
{
    release_expired();
    if (reports) {
        Guard guard(lock_);
        announce();
    }
    static_cast<void>(retry_.mod(module_.queue, 0));
}

// A request that is made between the two would fail, and the loss of the last path not be reported if another one came up.
void Session::path_down(Link& link)
{
    Guard guard(lock_);
    link.close();
    losses_.fetch_add(1);
    paths_ending_++;
    if (--paths_up_ == 0)
        announce();
}

void Session::path_ended()
{
    Guard guard(lock_);
    paths_ending_--;
}

bool Session::has_path_up()
{
    Guard guard(lock_);
    return paths_up_ != 0;
}

bool Session::is_open()
{
    Guard guard(lock_);
    return opened_;
}

// The first path has come up, or the last one has gone.
void Session::announce()
{
    if (!opened_ || closing_.load_relaxed())
        return;
    if (!paths_up_)
        lanes_.end_generation();
    changes_++;
    u64 now = kapi_now_ns();
    static_cast<void>(report_.queue(module_.reports, held_until_ns_ > now ? held_until_ns_ - now : 0));
}

// RNBD makes requests when a path is up again, with the session that it stores when the call that opens it has returned.
void Session::opened()
{
    constexpr u64 hold_ns = 5'000'000'000; // of users that do not ask for their limits
    Guard guard(lock_);
    opened_ = true;
    held_until_ns_ = kapi_now_ns() + hold_ns;
    if (!paths_up_)
        announce();
}

void Session::user_has_it()
{
    Guard guard(lock_);
    if (std::exchange(held_until_ns_, 0) && changes_)
        static_cast<void>(report_.mod(module_.reports, 0));
}

// Requests end before the loss is reported, as with the kernel's own, and with them what their user does next: RNBD looks at each
// disk then, and must not find one whose mapping fails. It does that before it gives its permit back, or just afterwards. All of
// these are of the session that is over: there are none of the next one before that is reported.
bool Session::has_settled()
{
    constexpr u64 longest_ns = 2'000'000'000; // a device may need more, and who has a permit, too
    constexpr u64 quiet_ns = 10'000'000;
    u64 now = kapi_now_ns();
    if (!settles_until_ns_)
        settles_until_ns_ = now + longest_ns;
    bool quiet = !paths_ending_ && !admin_permits_.load() && !has_parked();
    if (!quiet)
        quiet_since_ns_ = 0;
    else if (!quiet_since_ns_)
        quiet_since_ns_ = now;
    bool settled = (quiet && now >= quiet_since_ns_ + quiet_ns) || now >= settles_until_ns_;
    if (settled)
        quiet_since_ns_ = settles_until_ns_ = 0;
    return settled;
}

// False: there is nothing to report yet.
bool Session::take_change()
{
    constexpr u64 look_ns = 10'000'000;
    Guard guard(lock_);
    if (!changes_ || closing_.load_relaxed())
        return false;
    if (reported_up_ && !has_settled()) {
        static_cast<void>(report_.queue(module_.reports, look_ns));
        return false;
    }
    changes_--;
    return true;
}

// In turn up and down, none left out: a path that was down for a moment may have reached another server afterwards.
void Session::report()
{
    while (take_change()) {
        reported_up_ = !reported_up_;
        config_.user.link(config_.user.priv, reported_up_);
        if (!reported_up_)
            known_generation_.fetch_add(1);
    }
}

} // namespace rtrs_clt
