// SPDX-License-Identifier: GPL-2.0
#include "info.h"

namespace rtrs {

namespace {

bool is_allowed(u8 byte)
{
    return byte >= 0x20 && byte != 0x7f && byte != '/' && byte != '.';
}

} // namespace

Result<SessionName> parse_name(Bytes text)
{
    if (text.empty() || text.size() > max_name)
        return fail(KAPI_EINVAL);
    SessionName name{};
    for (usize i = 0; i < text.size(); i++) {
        if (!is_allowed(text[i]))
            return fail(KAPI_EINVAL);
        name.text[i] = static_cast<char>(text[i]);
    }
    return name;
}

Result<SessionName> parse_info_request(Bytes bytes)
{
    wire::InfoRequest from;
    if (!wire::read(from, bytes) || u16{from.type} != wire::info_request)
        return fail(KAPI_EPROTO);
    usize size = 0;
    while (size < sizeof(from.name) && from.name[size])
        size++;
    return parse_name({from.name, size});
}

wire::InfoRequest write_info_request(const SessionName& name)
{
    wire::InfoRequest request{};
    request.type = wire::info_request;
    static_assert(sizeof(request.name) == sizeof(name.text));
    kapi_copy(request.name, name.text, sizeof(request.name));
    return request;
}

void write_info_response(std::span<u8> to, std::span<const wire::Descriptor> descriptors)
{
    u32 count = static_cast<u32>(descriptors.size());
    if (!HW_ASSERT(count <= max_queue_depth && to.size() >= info_response_bytes(count)))
        return;
    wire::InfoResponse response{};
    response.type = wire::info_response;
    response.descriptors = static_cast<u16>(count);
    kapi_copy(to.data(), &response, sizeof(response));
    kapi_copy(to.data() + sizeof(response), descriptors.data(), descriptors.size_bytes());
}

Result<> parse_info_response(Bytes bytes, const Geometry& geometry, std::span<RemoteChunk> chunks)
{
    wire::InfoResponse response;
    if (!HW_ASSERT(chunks.size() == geometry.queue_depth()))
        return fail(KAPI_EINVAL);
    if (!wire::read(response, bytes) || u16{response.type} != wire::info_response ||
        bytes.size() < info_response_bytes(response.descriptors))
        return fail(KAPI_EPROTO);
    Bytes rest = bytes.subspan(sizeof(response));
    usize filled = 0;
    for (u32 i = 0; i < response.descriptors; i++) {
        wire::Descriptor descriptor;
        if (!wire::read(descriptor, rest))
            return fail(KAPI_EPROTO);
        rest = rest.subspan(sizeof(descriptor));
        u32 length = descriptor.length, count = length / geometry.chunk_bytes();
        u64 address = descriptor.address;
        if (count == 0 || length % geometry.chunk_bytes() || count > chunks.size() - filled || address + length < address)
            return fail(KAPI_EPROTO);
        for (u32 chunk = 0; chunk < count; chunk++, address += geometry.chunk_bytes())
            chunks[filled++] = {address, descriptor.key};
    }
    if (filled != chunks.size())
        return fail(KAPI_EPROTO);
    return {};
}

} // namespace rtrs
