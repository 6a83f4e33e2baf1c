// SPDX-License-Identifier: GPL-2.0
// One machine with RDS, and a peer that is driven by the test.
#pragma once

#include "kapi_sim_test.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/net.h"
#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"
#include "selftests/sim/wire_peer.h"

inline constexpr kapi_u32 kGeneration = 0x1001, kNextGeneration = 0x1002;
inline constexpr kapi_u32 kMemory = 0x2001, kNextMemory = 0x2002;
inline constexpr kapi_u16 kPeersPort = 500;

/** A local port whose messages take this path, when there are eight. */
inline kapi_u16 port_of_path(unsigned path, kapi_u16 from = 1000)
{
    while (((from * 2654435761u) >> 16) % rds::max_paths != path)
        from++;
    return from;
}

inline bool is_reply(const WireStream::Received &arrived)
{
    auto kind = rds::classify(arrived.header);
    return kind && *kind == rds::MessageKind::probe_reply;
}

inline bool is_probe(const WireStream::Received &arrived)
{
    auto kind = rds::classify(arrived.header);
    return kind && *kind == rds::MessageKind::probe;
}

/** What the kernel's own RDS sends about itself: the number of its paths, since 6.x its generation, since 7.x by_port. */
inline bool foreign_handshake(WireStream &stream, bool is_reply, unsigned paths, kapi_u32 generation = 0,
                              bool by_port = false, kapi_u64 sequence = 0, unsigned flags = 0)
{
    rds::Header header{};
    header.sequence = sequence;
    header.flags = static_cast<kapi_u8>(flags);
    header.sport = is_reply ? 0 : rds::probe_port;
    header.dport = is_reply ? rds::probe_port : 0;
    kapi_u8 *at = header.extensions;
    constexpr kapi_u8 kPaths = 5, kGenerationType = 6, kSourcePort = 8;
    for (unsigned byte : {unsigned{kPaths}, paths >> 8, paths & 0xff})
        *at++ = static_cast<kapi_u8>(byte);
    if (generation) {
        *at++ = kGenerationType;
        for (unsigned shift : {24, 16, 8, 0})
            *at++ = static_cast<kapi_u8>(generation >> shift);
    }
    if (by_port)
        *at++ = kSourcePort;
    return stream.send(&header, sizeof(header));
}

/** A hawser's probe over its first path that says another number of paths than ours has. */
inline bool handshake_of(WireStream &stream, unsigned paths)
{
    rds::Header header{};
    header.sport = rds::probe_port;
    rds::write_handshake(header, kGeneration, 0, kMemory);
    constexpr kapi_u8 kPaths = 5;
    kapi_u8 *at = header.extensions;
    while (*at != kPaths)
        at++;
    at[1] = static_cast<kapi_u8>(paths >> 8), at[2] = static_cast<kapi_u8>(paths);
    return stream.send(&header, sizeof(header));
}

/** A congestion map with these ports. */
inline std::string bits_of(std::initializer_list<unsigned> ports)
{
    std::string map(rds::map_bytes, '\0');
    for (unsigned port : ports)
        map[port / 8] = static_cast<char>(map[port / 8] | 1 << (port % 8));
    return map;
}

inline bool send_map(WireStream &stream, std::initializer_list<unsigned> ports)
{
    return stream.message(0, 0, 0, bits_of(ports), rds::flag_congestion_map);
}

/** The peer has the smaller address, so it opens the streams; the victim runs RDS. */
class PeerTest : public SimTest {
protected:
    PeerTest() : host(b), socket(host)
    {
        run(b, [this] { ASSERT_EQ(host.load(), 0); });
    }
    ~PeerTest() override
    {
        run(b, [this] {
            socket.close();
            EXPECT_TRUE(host.unload_soon());
        });
    }

    void open_socket(kapi_u16 port)
    {
        run(b, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.2", port)), 0);
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = sim::kSecond;
        });
    }
    /** A program of the victim sends text to the peer. */
    void victim_sends(const std::string &text)
    {
        run(b, [&] {
            EXPECT_EQ(socket.send(text.data(), text.size(), sim::address("10.0.0.1", kPeersPort)),
                      static_cast<long>(text.size()));
        });
    }
    std::string victim_receives()
    {
        std::string text;
        run(b, [&] {
            std::string buffer(1 << 20, '\0');
            long size = socket.receive(buffer.data(), buffer.size(), nullptr);
            text = size < 0 ? "error " + std::to_string(size) : buffer.substr(0, static_cast<std::size_t>(size));
        });
        return text;
    }
    bool connect(WireStream &stream, unsigned path)
    {
        next_port = static_cast<kapi_u16>(next_port + 8);
        return stream.connect(sim::address("10.0.0.1", static_cast<kapi_u16>(next_port + path)),
                              sim::address("10.0.0.2", 16385));
    }
    /** Connects as a hawser peer does, until messages may be sent in both directions. Returns the victim's answer. */
    rds::Handshake shake_hands(WireStream &stream, unsigned path, kapi_u32 generation = kGeneration,
                               kapi_u32 memory = kMemory)
    {
        EXPECT_TRUE(connect(stream, path));
        EXPECT_TRUE(stream.handshake(false, generation, path, memory));
        EXPECT_TRUE(is_probe(stream.next()));
        auto answer = stream.next();
        EXPECT_TRUE(is_reply(answer));
        EXPECT_TRUE(stream.handshake(true, generation, path, memory));
        world.sleep(5 * sim::kMillisecond); // until it is there
        return rds::parse_handshake(answer.header);
    }
    /** Messages that were put into the queues of the victim's sockets. */
    std::uint64_t queued() { return counted(rds::Stat::recv_queued); }
    std::uint64_t counted(rds::Stat stat)
    {
        sim::NodeScope scope(b);
        return reinterpret_cast<rds::Net *>(host.net().rds)->counted(stat);
    }
    /** Messages to port over stream, until the victim's socket is full. How many. */
    kapi_u64 fill(WireStream &stream, kapi_u16 port)
    {
        kapi_u64 count = 0;
        while (!counted(rds::Stat::recv_stalled) && count < 1000) {
            EXPECT_TRUE(stream.message(++count, kPeersPort, port, std::string(10000, 'x')));
            world.sleep(sim::kMillisecond);
        }
        return count;
    }
    /** A message of the victim goes into a stream that ends before anything arrives. */
    void victim_sends_in_vain(const std::string &text)
    {
        world.network().cut(a, b);
        victim_sends(text);
        world.network().reset(a, b, sim::Sees::both);
        world.run_for(sim::kMillisecond);
        world.network().cut(a, b, false);
    }

    RdsHost host;
    RdsSocket socket;
    kapi_u16 next_port = 30000;
};

/** RDS runs on the smaller address; the peer listens. */
class Connecting : public SimTest {
protected:
    Connecting() : host(a), socket(host)
    {
        run(a, [&] {
            ASSERT_EQ(host.load(), 0);
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", port_of_path(0))), 0);
        });
        run(b, [&] {
            kapi_addr any{};
            any.port = 16385;
            ASSERT_EQ(kapi_listen(&b.initial_net(), &any, 16, [](void *) {}, nullptr, &listener), 0);
        });
        world.spawn(a, "sender", [&] {
            socket.send("x", 1, sim::address("10.0.0.2", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
    }
    ~Connecting() override
    {
        run(b, [&] {
            streams.clear();
            kapi_listener_stop(listener);
            kapi_listener_close(listener);
        });
        run(a, [&] {
            socket.close();
            EXPECT_TRUE(host.unload_soon());
            world.sleep(10 * sim::kMillisecond); // packets on their way to b
        });
    }
    /** The next stream that the victim opens, and its path; -1 when none comes for a while. From a task of b. */
    int accept(std::uint64_t wait_ns = 500 * sim::kMillisecond)
    {
        kapi_stream *stream = nullptr;
        for (std::uint64_t end = world.now_ns() + wait_ns; kapi_accept(listener, &stream);) {
            if (world.now_ns() >= end)
                return -1;
            world.sleep(100 * sim::kMicrosecond);
        }
        kapi_addr local, remote;
        kapi_stream_addrs(stream, &local, &remote);
        streams.push_back(std::make_unique<WireStream>(b));
        streams.back()->adopt(stream);
        return remote.port % 8;
    }
    RdsHost host;
    RdsSocket socket;
    kapi_listener *listener = nullptr;
    std::vector<std::unique_ptr<WireStream>> streams;
};
