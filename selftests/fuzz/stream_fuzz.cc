// SPDX-License-Identifier: GPL-2.0
// A peer that connects to the RDS port and sends anything, in pieces of any size: nothing may break, leak or hang.
#include <kapi/sim/sim.h>
#include <kapi/stream.h>

#include <cstdint>
#include <string>

#include "selftests/sim/rds_host.h"

namespace {

/** The foreign end of the stream: reads and ignores everything. */
const kapi_stream_ops kStranger{[](void *, kapi_rx *, kapi_size length) { return length; }, [](void *, kapi_u32) {},
                                [](void *, kapi_stream_event, int) {}};

void talk(sim::World &world, sim::Node &stranger, const std::uint8_t *data, std::size_t size)
{
    kapi_addr local = sim::address("10.0.0.1"), remote = sim::address("10.0.0.2", 16385);
    kapi_stream_options options{};
    kapi_stream *stream;
    if (kapi_stream_connect(&stranger.initial_net(), &local, &remote, &options, &kStranger, nullptr, &stream))
        return;
    world.sleep(2 * sim::kMillisecond);
    std::size_t at = 0;
    for (int tries = 0; at < size && tries < 100; tries++) {
        // The first byte of each piece is its length.
        std::size_t piece = 1 + data[at] % 97;
        if (piece > size - at)
            piece = size - at;
        kapi_segment segment{data + at, nullptr, 0, static_cast<kapi_u32>(piece)};
        kapi_u32 end;
        kapi_s64 taken = kapi_stream_send(stream, &segment, 1, 0, &end);
        if (taken < 0)
            break;
        at += static_cast<std::size_t>(taken);
        world.sleep(100 * sim::kMicrosecond);
    }
    world.sleep(5 * sim::kMillisecond);
    kapi_stream_close(stream, size % 2);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    sim::World world(size);
    sim::Node &stranger = world.add_node("stranger");
    sim::Node &node = world.add_node("node");
    stranger.initial_net().add(sim::address("10.0.0.1"));
    node.initial_net().add(sim::address("10.0.0.2"));
    RdsHost host(node);
    bool over = false;
    sim::TaskRef other;
    auto victim = world.spawn(node, "victim", [&] {
        if (host.load())
            world.fail("the modules do not load");
        RdsSocket socket(host);
        socket.open();
        socket.bind(sim::address("10.0.0.2", 0x4141));
        other = world.spawn(stranger, "stranger", [&] {
            talk(world, stranger, data, size);
            over = true;
        });
        while (!over)
            world.sleep(sim::kMillisecond);
        socket.close();
        if (!host.unload_soon())
            world.fail("the modules do not unload");
    });
    if (!world.run_until([&] { return victim->is_done() && other->is_done(); }, 60 * sim::kSecond))
        world.fail("stuck");
    world.run_for(sim::kSecond); // the last packets arrive
    return 0;
}
