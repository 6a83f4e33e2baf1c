// SPDX-License-Identifier: GPL-2.0
#include "connect.h"

namespace rtrs {

namespace {

bool is_ours(u16 magic, u16 version)
{
    return magic == protocol_magic && version >> 8 == protocol_version >> 8;
}

wire::ConnectResponse blank_response()
{
    wire::ConnectResponse response{};
    response.magic = protocol_magic;
    response.version = protocol_version;
    return response;
}

} // namespace

Result<ConnectRequest> parse_connect_request(Bytes bytes)
{
    wire::ConnectRequest from;
    if (!wire::read(from, bytes) || !is_ours(from.magic, from.version))
        return fail(KAPI_ECONNRESET);
    ConnectRequest request{from.connection, from.connections, from.reconnects, from.path, from.session,
                           (from.flags & wire::connect_first) != 0, (from.flags & wire::connect_whole_answers) != 0};
    if (request.connections > max_connections || request.connection >= request.connections)
        return fail(KAPI_ECONNRESET);
    return request;
}

wire::ConnectRequest write_connect_request(const ConnectRequest& request)
{
    wire::ConnectRequest to{};
    to.magic = protocol_magic;
    to.version = protocol_version;
    to.connection = request.connection;
    to.connections = request.connections;
    to.reconnects = request.reconnects;
    to.path = request.path;
    to.session = request.session;
    to.flags = static_cast<u8>((request.first ? wire::connect_first : 0) |
                               (request.whole_answers ? wire::connect_whole_answers : 0));
    return to;
}

Result<Offer> parse_acceptance(Bytes bytes)
{
    wire::ConnectResponse from;
    if (!wire::read(from, bytes) || !is_ours(from.magic, from.version))
        return fail(KAPI_ECONNRESET);
    u16 error = from.error;
    u32 io = from.max_io_bytes, header = from.max_header_bytes;
    // Both together are the size of a chunk, which 28 bits hold.
    constexpr u32 limit = 1u << 28;
    constexpr u32 least = 4096; // a page: the block layer warns of disks that take less at a time
    if (error || io < least || io > limit || header > limit)
        return fail(KAPI_ECONNRESET);
    auto geometry = Geometry::create(from.queue_depth, io + header);
    if (!geometry)
        return fail(KAPI_ECONNRESET);
    return Offer{*geometry, io, header, (from.flags & wire::flag_new_rkey) != 0, (from.flags & wire::flag_whole_answers) != 0};
}

wire::ConnectResponse write_acceptance(const Geometry& geometry, bool new_rkeys, bool whole_answers)
{
    wire::ConnectResponse response = blank_response();
    response.queue_depth = static_cast<u16>(geometry.queue_depth());
    response.max_io_bytes = geometry.chunk_bytes() - header_bytes;
    response.max_header_bytes = header_bytes;
    response.flags = (new_rkeys ? u32{wire::flag_new_rkey} : 0u) | (whole_answers ? u32{wire::flag_whole_answers} : 0u);
    return response;
}

Errno parse_rejection(Bytes bytes)
{
    wire::ConnectResponse from;
    if (!wire::read(from, bytes) || !is_ours(from.magic, from.version))
        return Errno(KAPI_ECONNRESET);
    // As a signed number it is a negative errno. It becomes what a program's write to a file returns: the kernel's own numbers
    // would be taken for orders there, and EIOCBQUEUED for a bug, which ends the thread. ECANCELED is a command's here.
    constexpr int most_of_programs = 511;
    int error = -static_cast<short>(static_cast<u16>(from.error));
    bool is_answer = error > 0 && error <= most_of_programs && error != KAPI_ECANCELED;
    return Errno(is_answer ? error : KAPI_ECONNRESET);
}

wire::ConnectResponse write_rejection(Errno error)
{
    wire::ConnectResponse response = blank_response();
    response.error = static_cast<u16>(error.to_c());
    return response;
}

} // namespace rtrs
