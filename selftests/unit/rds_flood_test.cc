// SPDX-License-Identifier: GPL-2.0
// A stream is to end whose peer sends faster than it is read.
#include "rds_stranger_test.h"

#include <string>

#include "kapi/sim/slow.h"

namespace {

class Flood : public Stranger {
protected:
    ~Flood() override { sim::stand_still_after(nullptr, 0); }

    /** Sends messages for a port that no socket is bound to, as long as the stream is there. */
    static void flood(WireStream &stream)
    {
        rds::Header header{};
        header.sequence = 1;
        header.sport = kPeersPort;
        header.dport = 9;
        std::string some;
        for (unsigned i = 0; i < 1000; i++)
            some.append(reinterpret_cast<const char *>(&header), sizeof(header));
        while (stream.send(some.data(), some.size()))
            ;
    }
};

TEST_F(Flood, of_a_stranger__does_not_keep_the_path)
{
    open_socket(port_of_path(0));
    sim::stand_still_after("rds bind", 100 * sim::kMicrosecond); // each message takes so long
    run(a, [&] {
        WireStream stranger(a), peer(a);
        ASSERT_TRUE(connect(stranger, 0));
        auto floods = world.spawn(a, "floods", [&] { flood(stranger); });
        world.sleep(sim::kSecond);
        ASSERT_TRUE(connect(peer, 0));
        ASSERT_TRUE(peer.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(peer.wait([&] { return !peer.received().empty() && is_reply(peer.received().back()); }, 10 * sim::kSecond));
        EXPECT_GT(counted(rds::Stat::recv_drop_no_sock), 5000u) << "all that was acknowledged is read";
        stranger.close(true);
        EXPECT_TRUE(peer.wait([&] { return floods->is_done(); }));
    }, 60 * sim::kSecond);
}

} // namespace
