// SPDX-License-Identifier: GPL-2.0
// A peer that sends what a test needs, and answers when the test wants it.
#pragma once

#include "rds_peer_test.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/uapi.h"

class Handshake : public PeerTest {
protected:
    /** A silent hawser peer gets probes only; the message arrives when it has answered. */
    void answer_after(WireStream &stream, std::uint64_t silence_ns)
    {
        world.spawn(b, "sender", [&] {
            socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
        world.sleep(silence_ns);
        for (const auto &arrived : stream.received())
            EXPECT_TRUE(is_probe(arrived));
        stream.handshake(false, kGeneration, 0, kMemory);
        stream.handshake(true, kGeneration, 0, kMemory);
        EXPECT_TRUE(stream.wait([&] { return stream.received().back().payload == "hello"; }));
    }
};
