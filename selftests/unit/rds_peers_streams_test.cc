// SPDX-License-Identifier: GPL-2.0
// Streams that a host opens because peers ask it to: no program pays for them.
#include "rds_peer_test.h"

#include "net/rds/connection.h"

namespace {

/** RDS runs on the smaller address; a peer with many larger ones asks it to connect to each. */
class AskedToConnect : public SimTest {
protected:
    static constexpr unsigned kAddresses = 5;

    AskedToConnect() : host(a)
    {
        run(a, [&] { ASSERT_EQ(host.load(), 0); });
        run(b, [&] {
            kapi_addr any{};
            any.port = 16385;
            ASSERT_EQ(kapi_listen(&b.initial_net(), &any, 64, [](void *) {}, nullptr, &listener), 0);
            for (unsigned i = 0; i < kAddresses; i++)
                b.initial_net().add(address(i));
        });
    }
    ~AskedToConnect() override
    {
        run(b, [&] {
            streams.clear();
            kapi_listener_stop(listener);
            kapi_listener_close(listener);
        });
        run(a, [&] {
            EXPECT_TRUE(host.unload_soon());
            world.sleep(10 * sim::kMillisecond);
        });
    }
    static kapi_addr address(unsigned i, kapi_u16 port = 0)
    {
        return sim::address(("10.0.1." + std::to_string(i + 1)).c_str(), port);
    }
    /** A stream that is reset when it is there. */
    void knock(unsigned i)
    {
        WireStream stream(b);
        EXPECT_TRUE(stream.connect(address(i, 30000), sim::address("10.0.0.1", 16385)));
        stream.close(true);
    }
    void accept()
    {
        kapi_stream *stream = nullptr;
        while (kapi_accept(listener, &stream))
            world.sleep(sim::kMillisecond);
        streams.push_back(std::make_unique<WireStream>(b));
        streams.back()->adopt(stream);
    }
    rds::PeersMemory &memory() { return reinterpret_cast<rds::Net *>(host.net().rds)->peers_memory; }
    /** For how many there is room. */
    unsigned room()
    {
        sim::NodeScope scope(a);
        unsigned count = 0;
        for (; memory().stream_room() == 0; count++)
            memory().stream_added();
        for (unsigned i = 0; i < count; i++)
            memory().stream_gone();
        return count;
    }
    unsigned connections()
    {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host.net().rds)->connections.size();
    }

    RdsHost host;
    kapi_listener *listener = nullptr;
    std::vector<std::unique_ptr<WireStream>> streams;
};

TEST_F(AskedToConnect, its_streams_are_counted_with_its_connections)
{
    const unsigned before = room();
    run(b, [&] {
        for (unsigned i = 0; i < kAddresses; i++) {
            knock(i);
            accept();
            EXPECT_TRUE(streams.back()->handshake(false, kGeneration, 0, kMemory));
            EXPECT_TRUE(streams.back()->handshake(true, kGeneration, 0, kMemory));
            for (unsigned path = 1; path < rds::max_paths; path++)
                accept();
        }
    }, 20 * sim::kSecond);
    ASSERT_EQ(a.live_streams, 8 * kAddresses) << "each address has all paths";
    ASSERT_EQ(connections(), kAddresses);
    const unsigned connection = 4 + 8; // of the size of so many streams, and has so many
    EXPECT_EQ(before - room(), connection * kAddresses);
    run(b, [&] {
        streams.clear();
        kapi_listener_stop(listener);
        world.sleep(2 * sim::kSecond);
    }, 20 * sim::kSecond);
    EXPECT_EQ(before - room(), connection * connections()) << "those that ended were given back";
}

} // namespace
