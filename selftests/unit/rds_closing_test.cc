// SPDX-License-Identifier: GPL-2.0
// net/rds/tcp: a stream that is not used is closed in order, and how long the peer may take for that.
#include "rds_peer_test.h"

namespace {

class Closing : public PeerTest {
protected:
    Closing() { rds_net_sysctl(host.net().rds)->idle_connection_ms = 1000; }
    /** The victim closes a new stream of path 0. */
    void begin(WireStream &stream)
    {
        shake_hands(stream, 0);
        EXPECT_TRUE(stream.wait([&] { return stream.is_gone(); }, 10 * sim::kSecond));
        EXPECT_EQ(b.live_streams, 1u);
    }
};

// Each stream has that time for itself.
TEST_F(Closing, peer_that_does_not_close__has_five_seconds)
{
    run(a, [&] {
        for (unsigned round = 0; round < 2; round++) {
            WireStream stream(a);
            begin(stream);
            world.sleep(4900 * sim::kMillisecond);
            EXPECT_EQ(b.live_streams, 1u);
            world.sleep(200 * sim::kMillisecond);
            EXPECT_EQ(b.live_streams, 0u);
        }
    });
}

TEST_F(Closing, peer_that_closes__ends_it_soon)
{
    run(a, [&] {
        WireStream stream(a);
        begin(stream);
        stream.close(false);
        world.sleep(60 * sim::kMillisecond);
        EXPECT_EQ(b.live_streams, 0u);
    });
}

} // namespace
