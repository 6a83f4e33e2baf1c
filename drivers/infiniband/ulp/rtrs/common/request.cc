// SPDX-License-Identifier: GPL-2.0
#include "request.h"

namespace rtrs {

namespace {

// Of the header that is in rest.
Result<> parse_read(Bytes rest, Request& request)
{
    wire::ReadRequest header;
    request.is_read = true;
    if (!wire::read(header, rest))
        return fail(KAPI_EINVAL);
    request.user_bytes = header.user_bytes;
    u16 descriptors = header.descriptors;
    if (descriptors == 0)
        return {};
    wire::Descriptor descriptor;
    if (!wire::read(descriptor, rest.subspan(sizeof(header))))
        return fail(KAPI_EINVAL);
    request.has_target = true;
    request.invalidate = (header.flags & wire::flag_need_invalidation) != 0;
    request.target = {descriptor.address, descriptor.key, descriptor.length};
    return descriptors == 1 ? Result<>() : fail(KAPI_EINVAL);
}

} // namespace

Result<> parse_request(Bytes chunk, u32 offset, Request& request)
{
    request = {};
    wire::WriteRequest begin; // that of a read begins with the same
    if (offset > chunk.size() || !wire::read(begin, chunk.subspan(offset)))
        return fail(KAPI_EINVAL);
    u16 type = begin.type;
    if (type == wire::read_request)
        TRY(parse_read(chunk.subspan(offset), request));
    else if (type == wire::write_request)
        request.user_bytes = begin.user_bytes;
    else
        return fail(KAPI_EINVAL);
    if (request.user_bytes > min(offset, most_user_bytes))
        return fail(KAPI_EINVAL);
    request.data_bytes = offset - request.user_bytes;
    if (request.has_target && (request.target.length == 0 || request.target.length > request.data_bytes))
        return fail(KAPI_EINVAL);
    return {};
}

usize write_request_header(std::span<u8, max_request_header> to, const Request& request)
{
    if (!request.is_read) {
        wire::WriteRequest header{wire::write_request, static_cast<u16>(request.user_bytes)};
        kapi_copy(to.data(), &header, sizeof(header));
        return sizeof(header);
    }
    bool invalidate = request.has_target && request.invalidate;
    wire::ReadRequest header{};
    header.type = wire::read_request;
    header.user_bytes = static_cast<u16>(request.user_bytes);
    header.flags = static_cast<u16>(invalidate ? u32{wire::flag_need_invalidation} : 0u);
    header.descriptors = request.has_target ? 1 : 0;
    kapi_copy(to.data(), &header, sizeof(header));
    if (!request.has_target)
        return sizeof(header);
    wire::Descriptor descriptor{request.target.address, request.target.key, request.target.length};
    kapi_copy(to.data() + sizeof(header), &descriptor, sizeof(descriptor));
    return sizeof(header) + sizeof(descriptor);
}

Result<NewKey> parse_rkey_response(Bytes bytes, u32 queue_depth)
{
    wire::RkeyResponse from;
    if (!wire::read(from, bytes) || u16{from.type} != wire::rkey_response || from.chunk >= queue_depth)
        return fail(KAPI_EPROTO);
    return NewKey{from.chunk, from.key};
}

wire::RkeyResponse write_rkey_response(NewKey key)
{
    return {wire::rkey_response, key.chunk, key.key};
}

} // namespace rtrs
