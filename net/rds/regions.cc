// SPDX-License-Identifier: GPL-2.0
// RDS_GET_MR, RDS_GET_MR_FOR_DEST, RDS_FREE_MR: the memory regions of a socket. And what recvmsg says of memory.
//
// A region is registered on the connection to one peer: that of the destination, or else the one that the socket is connected
// to, or has sent its last message to. Any other host that has a connection over the same device can use the key, too, if it
// learns or guesses it, as with the kernel's own: all connections of a namespace at a device have one protection domain.
#include "connection.h"
#include "option_value.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

namespace {

constexpr u32 max_regions = 1024; // of a socket
constexpr u64 page_size = 4096;
constexpr u64 most_pages = 1 + max_message / page_size;
constexpr u64 connection_wait_ns = 5'000'000'000;

} // namespace

void MemoryRegion::destroy(MemoryRegion* region)
{
    if (region->mr)
        region->transport->free_mr(region->mr);
    dispose(region);
}

// ---- making one

Result<> Socket::check_region(const rds_abi_get_mr_args& args)
{
    {
        Guard guard(lock_);
        if (bound_to_.ip.is_any())
            return fail(KAPI_ENOTCONN);
        if (!transport_->get_mr)
            return fail(KAPI_EOPNOTSUPP);
    }
    const rds_abi_iovec& vec = args.vec;
    if (vec.addr + vec.bytes <= vec.addr || vec.bytes > 0xffffffffu)
        return fail(KAPI_EINVAL);
    if ((vec.addr % page_size + vec.bytes + page_size - 1) / page_size > most_pages)
        return fail(KAPI_EMSGSIZE);
    return {};
}

// Without a destination.
Result<Socket::Target> Socket::usual_target()
{
    rds_send none{};
    Target to;
    auto connected = find_target(none, to);
    if (connected)
        return to;
    if (connected.error().code() != KAPI_ENOTCONN)
        return fail(connected.error());
    Guard guard(lock_);
    if (!connection_)
        return fail(KAPI_ENODEV);
    return Target{bound_to_, connection_->remote, transport_, tos_, connection_, path_};
}

// Takes held over. What cannot be pinned is registered on demand.
Result<Ref<MemoryRegion>> Socket::register_on(void* held, const rds_abi_iovec& vec, const Connection& connection)
{
    const rds_transport& transport = connection.transport;
    auto region = Ref<MemoryRegion>::adopt(make<MemoryRegion>(Alloc::charged));
    rds_memory memory{nullptr, vec.addr, vec.bytes, kapi_sk_user(sk)};
    int err = region ? transport.pin(vec.addr, vec.bytes, true, &memory.pin) : -KAPI_ENOMEM;
    if (err && err != -KAPI_EOPNOTSUPP) {
        transport.let_go(held);
        return fail(Errno::from_c(err));
    }
    region->peer = connection.remote.ip;
    region->transport = &transport;
    TRY(check(transport.get_mr(held, &memory, &region->key, &region->mr)));
    return region;
}

// Until then a call waits for a stream to register memory on.
u64 Socket::stream_deadline(bool may_wait)
{
    return kapi_now_ns() + (may_wait ? connection_wait_ns : 0);
}

// As soon as there is a stream.
Result<Ref<MemoryRegion>> Socket::make_region(const rds_abi_iovec& memory, Connection& connection, u64 deadline_ns)
{
    for (;;) {
        void* held = TRY(connection.hold_stream(deadline_ns));
        auto made = register_on(held, memory, connection);
        if (made || made.error().code() != KAPI_EAGAIN || kapi_now_ns() >= deadline_ns)
            return made;
    }
}

Result<u64> Socket::add_region(const rds_abi_get_mr_args& args, Target& target, bool may_wait)
{
    TRY(route(target));
    if (!target.connection->transport.get_mr)
        return fail(KAPI_EOPNOTSUPP);
    Ref<MemoryRegion> region = TRY(make_region(args.vec, *target.connection, stream_deadline(may_wait)));
    region->use_once = (args.flags & RDS_ABI_RDMA_USE_ONCE) != 0;
    u64 cookie = make_cookie(region->key, static_cast<u32>(args.vec.addr % page_size));
    if (args.cookie_addr)
        TRY(check(kapi_user_copy_out(args.cookie_addr, &cookie, sizeof(cookie))));
    Guard guard(lock_);
    if (closed_)
        return fail(KAPI_ENOTCONN);
    if (region_count_ == max_regions)
        return fail(KAPI_ENOMEM);
    region_count_++;
    regions_.push_back(std::move(region));
    return cookie;
}

Result<> Socket::get_mr(const kapi_optval* value, int length)
{
    auto args = TRY(read_exact<rds_abi_get_mr_args>(value, length));
    TRY(check_region(args));
    Target to = TRY(usual_target());
    TRY(add_region(args, to, true));
    return {};
}

Result<> Socket::get_mr_for_dest(const kapi_optval* value, int length)
{
    auto wanted = TRY(read_exact<rds_abi_get_mr_for_dest_args>(value, length));
    rds_abi_get_mr_args args{wanted.vec, wanted.cookie_addr, wanted.flags};
    TRY(check_region(args));
    rds_send named{};
    named.name = wanted.dest_addr;
    named.name_length = sizeof(wanted.dest_addr);
    Target to;
    TRY(find_target(named, to));
    TRY(add_region(args, to, true));
    return {};
}

// ---- its end

// The newest: one that ended with its device may have had the same key.
MemoryRegion* Socket::find_region(u32 key)
{
    MemoryRegion* region = regions_.back();
    while (region && region->key != key)
        region = regions_.previous(*region);
    return region;
}

// False: there is none.
bool Socket::sync_region(u32 key, bool to_peers)
{
    Ref<MemoryRegion> region;
    {
        Guard guard(lock_);
        if (MemoryRegion* found = find_region(key))
            region = Ref<MemoryRegion>::share(*found);
    }
    if (region)
        region->transport->sync_mr(region->mr, to_peers);
    return static_cast<bool>(region);
}

// False: there is none. used_by: one that was to be used once, for that peer. Another thread may be in sync_region(), so the last
// reference may be its.
bool Socket::end_region(u32 key, const Ip* used_by)
{
    Ref<MemoryRegion> ended;
    {
        Guard guard(lock_);
        MemoryRegion* region = find_region(key);
        if (!region || (used_by && !(region->use_once && region->peer == *used_by)))
            return false;
        region_count_--;
        ended = regions_.remove(*region);
    }
    ended->transport->end_mr(ended->mr);
    return true;
}

Result<> Socket::free_mr(const kapi_optval* value, int length)
{
    auto args = TRY(read_exact<rds_abi_free_mr_args>(value, length));
    if (args.cookie)
        return end_region(key_of(args.cookie)) ? Result<>() : fail(KAPI_EINVAL);
    // All that were freed before are to be dead: they are.
    Guard guard(lock_);
    return transport_ && transport_->get_mr ? Result<>() : fail(KAPI_EINVAL);
}

// ---- what a receiver gets

// As many as there is room for, alone. One that was put for want of room is lost, as MSG_CTRUNC says.
Result<u32> Socket::put_rdma_notices(rds_receive& receive, Ref<RdmaNotice> notice)
{
    Ref<NoticeBox> box;
    for (bool first = true; notice; first = false) {
        rds_abi_rdma_notify data;
        kapi_fill(&data, 0, sizeof(data)); // the padding, too
        data.user_token = notice->token;
        data.status = notice->status;
        auto put = check(kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RDMA_STATUS, &data, sizeof(data)));
        bool more = put && kapi_msg_cmsg_room(receive.msg) >= s64{sizeof(data)};
        {
            Guard guard(lock_);
            box = notice_box_;
            if (!put)
                rdma_notices_.push_front(std::move(notice));
            notice = more ? rdma_notices_.pop_front() : Ref<RdmaNotice>();
        }
        if (put && box)
            box->taken(1);
        if (put)
            continue;
        notify_input();
        return first ? Result<u32>(fail(put.error())) : 0u;
    }
    return 0u;
}

// What the peer says of memory. The message says that the peer has used a region: before the program gets it, the region of a
// single use ends. Then, or else by sync_region(), the program gets what the peer wrote, should the device work on copies.
Result<> Socket::put_memory_names(Incoming& incoming, rds_receive& receive)
{
    MemoryNames names = parse_memory_names(incoming.header);
    if (names.used && !end_region(*names.used, &incoming.source.ip))
        sync_region(*names.used, false);
    if (names.cookie)
        TRY(check(kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RDMA_DEST, &*names.cookie, sizeof(u64))));
    return {};
}

} // namespace rds
