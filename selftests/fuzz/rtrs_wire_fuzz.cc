// SPDX-License-Identifier: GPL-2.0
// What a peer of RTRS sends: private data, messages, immediate data, and a chunk with a request in it. What a parser accepts has
// the same meaning when it is written and parsed again.
#include <cstdint>
#include <cstring>
#include <vector>

#include "drivers/infiniband/ulp/rtrs/common/connect.h"
#include "drivers/infiniband/ulp/rtrs/common/immediate.h"
#include "drivers/infiniband/ulp/rtrs/common/info.h"
#include "drivers/infiniband/ulp/rtrs/common/request.h"

namespace {

using namespace rtrs;

void require(bool holds)
{
    if (!holds)
        __builtin_trap();
}

template <class T> Bytes bytes(const T &message) { return {reinterpret_cast<const hw::u8 *>(&message), sizeof(message)}; }

void connecting(Bytes data)
{
    if (auto request = parse_connect_request(data)) {
        require(request->connection < request->connections && request->connections <= max_connections);
        auto again = parse_connect_request(bytes(write_connect_request(*request)));
        require(again && again->path == request->path && again->session == request->session &&
                again->first == request->first && again->whole_answers == request->whole_answers);
    }
    if (auto offer = parse_acceptance(data)) {
        require(offer->geometry.queue_depth() > 0 && offer->max_io_bytes <= offer->geometry.chunk_bytes());
        hw::u64 last = static_cast<hw::u64>(offer->geometry.queue_depth() - 1) << offer->geometry.offset_bits();
        require(last + offer->geometry.chunk_bytes() <= 1u << imm_payload_bits);
    }
    int refused = parse_rejection(data).code();
    require(refused > 0 && refused < 512); // one that a program may get
}

void information(Bytes data)
{
    if (auto name = parse_info_request(data))
        require(parse_info_request(bytes(write_info_request(*name))).value() == *name && name->text[0] != 0);
    Geometry geometry = Geometry::create(8, 8192).value();
    std::vector<RemoteChunk> chunks(8);
    (void)parse_info_response(data, geometry, chunks);
    if (auto key = parse_rkey_response(data, 8))
        require(key->chunk < 8);
}

void requests(Bytes data)
{
    hw::u32 imm;
    if (data.size() < sizeof(imm))
        return;
    std::memcpy(&imm, data.data(), sizeof(imm));
    std::vector<hw::u8> chunk(data.begin() + sizeof(imm), data.end()); // of exactly its size: what reads beyond it is seen
    Request request;
    if (parse_request(chunk, imm & 0xffff, request)) {
        require(request.data_bytes + request.user_bytes == (imm & 0xffff) && (imm & 0xffff) <= chunk.size());
        require(!request.has_target || (request.target.length > 0 && request.target.length <= request.data_bytes));
    }
    if (auto immediate = parse_immediate(imm)) {
        require(write_immediate(immediate->type, immediate->payload) == imm);
        if (auto place = Geometry::create(5, 10000).value().place_of(immediate->payload))
            require(place->chunk < 5 && place->offset < 10000);
        if (auto answer = parse_answer(immediate->payload, 5))
            require(answer->chunk < 5 && answer_payload(*answer) == immediate->payload);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size == 0)
        return 0;
    // Exactly as many bytes as there are, on the heap.
    std::vector<hw::u8> rest(data + 1, data + size);
    switch (data[0] % 3) {
    case 0:
        connecting(rest);
        break;
    case 1:
        information(rest);
        break;
    default:
        requests(rest);
        break;
    }
    return 0;
}
