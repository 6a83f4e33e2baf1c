// SPDX-License-Identifier: GPL-2.0
// Messages of sizes around each constant of the code, both ways and to the own host, copied and from the user's pages: each
// arrives whole, and soon. Messages that stop above a constant are found here. And so are those for the wrong one of many ports.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <deque>
#include <set>

#include "net/rds/batch.h"
#include "net/rds/uapi.h"
#include "net/rds/wire.h"
#include "pattern.h"

namespace {

constexpr std::uint64_t kWithin = 200 * sim::kMillisecond; // of simulated time: far less than any tick that could heal it
constexpr kapi_u16 kPort = 4000;

/** What code may count by: one below, at, one above, and ten times each. */
std::vector<std::size_t> sizes()
{
    constexpr std::size_t kPage = 4096, kInline = kPage - 256, kBigPages = 32 * 1024;
    constexpr std::size_t kConstants[] = {64, sizeof(rds::Header), kInline, kPage, 17 * kPage, rds::Batch::max_segments * kPage,
                                          rds::Batch::max_segments * kBigPages, 64 * 1024, rds::Batch::max_bytes,
                                          rds::max_message};
    std::set<std::size_t> all{0, 1};
    for (std::size_t constant : kConstants)
        for (std::size_t size : {constant - 1, constant, constant + 1, 10 * constant})
            all.insert(std::min<std::size_t>(size, rds::max_message));
    return {all.begin(), all.end()};
}

std::string pattern(std::size_t size)
{
    return patterned(size, [](std::size_t i) { return i * 31 + i / 4093; });
}

struct Way {
    const char *from, *to;
    bool pinned;
};

class RdsSizes : public RdsTest, public testing::WithParamInterface<Way> {};

TEST_P(RdsSizes, arrive_whole_and_soon)
{
    const Way &way = GetParam();
    auto host_of = [&](const char *address) -> RdsHost & { return address == std::string("10.0.0.1") ? host_a : host_b; };
    RdsSocket from(host_of(way.from)), to(host_of(way.to));
    auto open = [&](RdsSocket &socket, RdsHost &host, const char *address, kapi_u16 port) {
        run(host.node(), [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
            socket.sk().sndbuf = socket.sk().rcvbuf = 8 << 20;
            socket.sk().zerocopy = true;
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 10 * sim::kSecond;
        });
    };
    open(from, host_of(way.from), way.from, kPort);
    open(to, host_of(way.to), way.to, kPort + 1);
    kapi_addr target = sim::address(way.to, kPort + 1);
    bool first = true;                  // the connection comes up with it
    std::deque<std::string> sent_bytes; // pinned pages must not change before they are acknowledged
    for (std::size_t size : sizes()) {
        SCOPED_TRACE(std::to_string(size) + " bytes");
        const std::string &bytes = sent_bytes.emplace_back(pattern(size));
        std::string in(rds::max_message + 1, '\0');
        std::uint64_t began = world.now_ns();
        long sent = -1, got = -1;
        auto sender = world.spawn(host_of(way.from).node(), "sender", [&] {
            sent = way.pinned ? from.send_pinned(bytes.data(), size, target, 1) : from.send(bytes.data(), size, target);
        });
        run(host_of(way.to).node(), [&] { got = to.receive(in.data(), in.size(), nullptr); });
        std::uint64_t took = world.now_ns() - began;
        ASSERT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
        ASSERT_EQ(sent, static_cast<long>(size));
        ASSERT_EQ(got, static_cast<long>(size));
        in.resize(size);
        ASSERT_TRUE(in == bytes);
        if (!std::exchange(first, false)) {
            ASSERT_LT(took, kWithin);
        }
    }
    long refused = 0;
    std::string too_large(rds::max_message + 1, 'x');
    world.run_for(sim::kSecond);
    run(host_of(way.from).node(), [&] { refused = from.send(too_large.data(), too_large.size(), target); });
    EXPECT_EQ(refused, -KAPI_EMSGSIZE);
    run(host_of(way.from).node(), [&] { from.close(); });
    run(host_of(way.to).node(), [&] { to.close(); });
}

INSTANTIATE_TEST_SUITE_P(Ways, RdsSizes,
                         testing::Values(Way{"10.0.0.1", "10.0.0.2", false}, Way{"10.0.0.2", "10.0.0.1", false},
                                         Way{"10.0.0.1", "10.0.0.1", false}, Way{"10.0.0.1", "10.0.0.2", true},
                                         Way{"10.0.0.2", "10.0.0.1", true}, Way{"10.0.0.1", "10.0.0.1", true}));

class Destinations : public RdsTest {};

// Messages of one path for ports of which one is twice, or half of, the one before: each is delivered to its own.
TEST_F(Destinations, of_a_path__get_each_their_messages)
{
    constexpr kapi_u16 kPorts[] = {4000, 8000, 4000, 8001, 4000, 2000, 1000, 2000, 4001, 2000};
    run(b, [&] {
        std::deque<RdsSocket> sockets;
        RdsSocket *by_port[9000] = {};
        for (kapi_u16 port : kPorts)
            if (!by_port[port]) {
                by_port[port] = &sockets.emplace_back(host_b);
                ASSERT_EQ(by_port[port]->open(), 0);
                ASSERT_EQ(by_port[port]->bind(sim::address("10.0.0.2", port)), 0);
                by_port[port]->sk().rcvtimeo_ns = sim::kSecond;
            }
        auto sender = world.spawn(a, "sender", [&] {
            RdsSocket from(host_a);
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 7)), 0);
            for (kapi_u16 port : kPorts)
                EXPECT_EQ(send(from, std::to_string(port), "10.0.0.2", port), static_cast<long>(std::to_string(port).size()));
            world.sleep(sim::kSecond);
            from.close();
        });
        for (kapi_u16 port : kPorts)
            EXPECT_EQ(receive(*by_port[port]), std::to_string(port));
        while (!sender->is_done())
            world.sleep(sim::kMillisecond);
    });
}

} // namespace
