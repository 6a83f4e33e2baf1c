// SPDX-License-Identifier: GPL-2.0
// A foreign peer asks, and there is no memory at that moment: it hears all the same, and soon.
#include "rds_peer_test.h"

namespace {

using ForeignFaults = PeerTest;

TEST_F(ForeignFaults, who_asks_is_answered_soon_whatever_fails_once)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        ASSERT_TRUE(connect(stream, 0));
        ASSERT_TRUE(foreign_handshake(stream, false, 1, kGeneration));
        EXPECT_TRUE(stream.wait([&] { return !stream.received().empty() && is_reply(stream.received().back()); }));
        unsigned failed = 0;
        for (kapi_u64 call = 1; call < 10; call++) {
            world.sleep(3500 * sim::kMillisecond); // between two seconds, at which it is asked anyway
            stream.take();
            kapi_u64 before = b.faults().failed;
            b.faults().fail_at = b.faults().count + call;
            ASSERT_TRUE(foreign_handshake(stream, false, 1, kGeneration, false, call));
            EXPECT_TRUE(stream.wait([&] { return !stream.received().empty(); }, 100 * sim::kMillisecond)) << call;
            failed += b.faults().failed != before;
            b.faults().fail_at = 0;
        }
        EXPECT_GT(failed, 1u);
    }, 100 * sim::kSecond);
}

} // namespace
