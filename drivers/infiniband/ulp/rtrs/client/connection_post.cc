// SPDX-License-Identifier: GPL-2.0
// What a connection sends.
#include "connection.h"
#include "link.h"
#include "session.h"

#include "../common/request.h"

namespace rtrs_clt {

// Of a read the server gets a region; a write is read by the device itself, with the local key.
Result<> Connection::map_data(Io& io)
{
    const Order& order = io.order;
    io.registered = false;
    if (!order.data_bytes)
        return {};
    kapi_map_direction direction = order.is_read ? KAPI_MAP_FROM_DEVICE : KAPI_MAP_TO_DEVICE;
    TRY(io.data.begin(
        [&](kapi_map* map) { return kapi_map_sg(map, link_.device().dev, order.list, order.pieces, direction); }));
    Result<> fits = io.data.length() < order.data_bytes ? Result<>(fail(KAPI_EINVAL)) : Result<>();
    if (fits && order.is_read)
        fits = check(kapi_mr_map(link_.region(io.chunk).mr, io.data.c()));
    if (!fits)
        io.data.end();
    return fits;
}

// Returns whether the server is to invalidate it, which saves a request, but takes a message: not if answers are whole.
//
// A region's keys come back after 256 reads, and the server can invalidate each over all connections of the path: what is
// received here belongs to this read only if nothing with its key can have been before. So the last read of the region was
// answered over this connection, since which only its key can have been invalidated, and this read has another one: some are
// left out when the queue is full.
bool Connection::take_read_key(Io& io)
{
    ReadRegion& region = link_.region(io.chunk);
    io.key = kapi_mr_key(region.mr);
    io.invalidated_by_server = !link_.whole_answers() && (!region.last_serial || region.last_serial == serial_) &&
                               region.last_key != io.key;
    region.last_serial = serial_;
    region.last_key = io.key;
    return io.invalidated_by_server;
}

// The header, behind the user's message, which is in its place. Returns how many bytes both are.
u32 Connection::write_message(Io& io)
{
    rtrs::Request request{};
    request.is_read = io.order.is_read;
    request.user_bytes = io.order.user_bytes;
    if (io.order.is_read && io.data) {
        request.has_target = true;
        request.invalidate = take_read_key(io);
        request.target = {kapi_mr_address(link_.region(io.chunk).mr), io.key, io.order.data_bytes};
    }
    u8* message = link_.session.message(io.chunk);
    std::span<u8, rtrs::max_request_header> header(message + request.user_bytes, rtrs::max_request_header);
    u32 bytes = request.user_bytes + static_cast<u32>(rtrs::write_request_header(header, request));
    link_.maps().give(io.chunk, bytes);
    return bytes;
}

// Places in the send queue, all until the request ends.
Result<> Connection::reserve(Io& io)
{
    u32 needs = io.order.is_read ? 3 : (io.order.pieces + max_pieces_) / max_pieces_;
    if (needs > max_send_)
        return fail(KAPI_EMSGSIZE); // there will never be room
    u32 kept_free = number_ ? 0 : min(8u, max_send_ - needs); // heartbeats and their answers, which nothing else may stop
    if (room_.load_relaxed() < needs + kept_free)
        return fail(KAPI_EAGAIN);
    room_.fetch_sub(needs);
    io.requests = needs;
    return {};
}

Result<> Connection::send(kapi_wr& wr)
{
    kapi_wr* bad = nullptr;
    return check(kapi_qp_send(qp_.get(), &wr, &bad));
}

// Data, user message and header lie one behind the other in the chunk: one request, if its pieces suffice.
Result<> Connection::send_write(Io& io, u32 message)
{
    const rtrs::RemoteChunk& chunk = link_.chunk(io.chunk);
    kapi_sge sges[most_pieces];
    kapi_map_place place{};
    kapi_size left = io.order.data_bytes;
    u64 remote = chunk.address;
    for (;;) {
        kapi_size before = left;
        u32 n = left ? kapi_map_sges(io.data.c(), &place, &left, link_.pd(), sges, max_pieces_) : 0;
        kapi_wr wr{};
        wr.sges = sges;
        wr.remote = remote;
        wr.key = chunk.key;
        if (left == 0 && n < max_pieces_) {
            sges[n] = link_.maps().sge(io.chunk, message);
            wr.n_sges = n + 1;
            wr.op = KAPI_WR_WRITE_IMM;
            wr.flags = KAPI_WR_SIGNALED;
            wr.cookie = cookie(Kind::io, io.chunk);
            wr.imm = link_.request_immediate(io.chunk, io.order.data_bytes + io.order.user_bytes);
            return send(wr);
        }
        wr.n_sges = n;
        wr.op = KAPI_WR_WRITE;
        wr.cookie = cookie(Kind::plain, 0);
        TRY(send(wr));
        remote += before - left;
    }
}

// The message lies behind the place of the data, which the server writes to the region.
Result<> Connection::send_read(Io& io, u32 message)
{
    const rtrs::RemoteChunk& chunk = link_.chunk(io.chunk);
    kapi_sge sge = link_.maps().sge(io.chunk, message);
    kapi_wr wr{}, registration{};
    wr.op = KAPI_WR_WRITE_IMM;
    wr.flags = KAPI_WR_SIGNALED;
    wr.sges = &sge;
    wr.n_sges = 1;
    wr.remote = chunk.address + io.order.data_bytes;
    wr.key = chunk.key;
    wr.cookie = cookie(Kind::io, io.chunk);
    wr.imm = link_.request_immediate(io.chunk, io.order.data_bytes + io.order.user_bytes);
    if (!io.data)
        return send(wr);
    registration.op = KAPI_WR_REGISTER;
    registration.flags = KAPI_WR_EARLY;
    registration.mr = link_.region(io.chunk).mr;
    registration.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
    registration.cookie = cookie(Kind::plain, 0);
    registration.next = &wr;
    io.registered = true;
    return send(registration);
}

// The connection is open (Lanes::send()). From the first request on io ends by completions, or by the end of the link: an error
// of the queue is one of the path.
Result<> Connection::post_mapped(Io& io)
{
    Guard guard(lock_);
    TRY(reserve(io));
    u32 message = write_message(io);
    io.answered = io.sent = io.invalidating = false;
    io.began_ns.store_relaxed(kapi_now_ns());
    io.tried.set(link_.path.index);
    link_.path.began(io);
    io.owner.store_release(serial_);
    Result<> sent = io.order.is_read ? send_read(io, message) : send_write(io, message);
    if (!sent) {
        open_ = false;
        hint_open_.store_relaxed(false);
        link_.path.lost(sent.error());
    }
    return {};
}

// The caller's lock keeps the link. The data is mapped without ours, which completions take: Soft-RoCE has a lock for the pages
// of a region that it takes elsewhere with softirqs enabled.
Result<> Connection::post(Io& io)
{
    if (!is_open())
        return fail(KAPI_ECONNABORTED);
    TRY(map_data(io));
    Result<> posted = post_mapped(io);
    if (!posted)
        io.data.end();
    return posted;
}

// Nothing happens when there is no room, or the connection is closed.
void Connection::post_immediate(rtrs::ImmediateType type)
{
    Guard guard(lock_);
    if (!open_ || !room_.load_relaxed())
        return;
    room_.fetch_sub(1);
    kapi_wr wr{};
    wr.op = KAPI_WR_WRITE_IMM;
    wr.flags = KAPI_WR_SIGNALED;
    wr.cookie = cookie(Kind::plain, 1);
    wr.imm = rtrs::write_immediate(type);
    if (auto sent = send(wr); !sent)
        link_.path.lost(sent.error()); // its place in the queue would be missing for ever
}

void Connection::invalidate(Io& io)
{
    Guard guard(lock_);
    if (!open_)
        return; // its link ends, and the region with it
    io.invalidating = true;
    kapi_wr wr{};
    wr.op = KAPI_WR_INVALIDATE;
    wr.flags = KAPI_WR_SIGNALED;
    wr.key = io.key;
    wr.cookie = cookie(Kind::invalidate, io.chunk);
    if (auto sent = send(wr); !sent)
        link_.path.lost(sent.error());
}

} // namespace rtrs_clt
