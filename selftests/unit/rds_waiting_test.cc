// SPDX-License-Identifier: GPL-2.0
// Streams that wait to be adopted, which all paths of a connection look at.
#include "rds_test.h"

#include <kapi/errno.h>

#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/tcp/waiting.h"
#include "selftests/sim/wire_peer.h"

namespace {

/** Plain TCP streams that a peer opened. */
class WaitingStreams : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    static constexpr kapi_u16 kPort = 7;
    WaitingStreams() : RdsTest(static_cast<std::uint64_t>(GetParam()))
    {
        run(b, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.2", kPort)), 0);
            send(socket, "x", "10.0.0.3", kPort, RDS_ABI_MSG_DONTWAIT); // makes a connection
            kapi_addr any{};
            any.port = kPort;
            ASSERT_EQ(kapi_listen(&b.initial_net(), &any, 16, [](void *) {}, nullptr, &listener), 0);
        });
        run(a, [&] {
            for (kapi_u16 i = 0; i < 2; i++) {
                peers.push_back(std::make_unique<WireStream>(a));
                ASSERT_TRUE(peers.back()->connect(sim::address("10.0.0.1"), sim::address("10.0.0.2", kPort)));
            }
        });
        world.run_for(10 * sim::kMillisecond);
    }
    ~WaitingStreams() override
    {
        run(a, [&] { peers.clear(); });
        run(b, [&] {
            kapi_listener_stop(listener);
            kapi_listener_close(listener);
            socket.close();
        });
    }
    rds_conn *connection()
    {
        rds::Connection *found = nullptr;
        sim::NodeScope scope(b);
        reinterpret_cast<rds::Net *>(host_b.net().rds)->connections.for_each([&](rds::Connection &c) { found = &c; });
        return reinterpret_cast<rds_conn *>(found);
    }

    RdsSocket socket{host_b};
    kapi_listener *listener = nullptr;
    std::vector<std::unique_ptr<WireStream>> peers;
};

// One path's worker may be looking at a stream, without a lock, that is another path's.
TEST_P(WaitingStreams, are_found_while_another_path_looks_at_them)
{
    rds_tcp::Waiting waiting(connection());
    run(b, [&] {
        for (kapi_u16 port : {kapi_u16{1}, kapi_u16{3}}) {
            kapi_stream *stream = nullptr;
            ASSERT_EQ(kapi_accept(listener, &stream), 0);
            EXPECT_EQ(waiting.put(stream, port, rds_tcp::Waiting::max, true), nullptr);
        }
    });
    run(a, [&] { // only now, so that the workers look
        for (auto &peer : peers)
            EXPECT_TRUE(peer->handshake(false, 1, 0, 1));
    });
    world.run_for(10 * sim::kMillisecond);
    std::vector<sim::TaskRef> workers;
    for (kapi_u16 port : {kapi_u16{1}, kapi_u16{3}})
        workers.push_back(world.spawn(b, "worker", [&, port] {
            kapi_stream *stream = waiting.take([&](kapi_u16 of) { return of == port; });
            EXPECT_TRUE(stream) << port;
            if (stream)
                kapi_stream_close(stream, 1);
        }));
    EXPECT_TRUE(world.run_until([&] { return workers[0]->is_done() && workers[1]->is_done(); }, sim::kSecond));
    run(b, [&] {
        while (kapi_stream *left = waiting.take())
            kapi_stream_close(left, 1);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, WaitingStreams, ::testing::Range(1, 61));

} // namespace
