// SPDX-License-Identifier: GPL-2.0
// A peer, and strangers from its host.
#pragma once

#include "rds_peer_test.h"

#include <algorithm>
#include <string>
#include <utility>

/** The peer's streams come from the ports of its paths; the stranger's from any, here those of path 0. */
class Stranger : public PeerTest {
protected:
    void send_later(const std::string &text)
    {
        world.spawn(b, "sender", [this, text] {
            socket.send(text.data(), text.size(), sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
    }
    static bool only_probes(const WireStream &stream)
    {
        for (const auto &arrived : stream.received())
            if (!is_probe(arrived))
                return false;
        return true;
    }
    /** Completes the handshake, also with a victim that took the peer for foreign and probes twice. The name of its memory. */
    kapi_u32 connect_and_shake_hands(WireStream &stream)
    {
        EXPECT_TRUE(connect(stream, 0));
        EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(stream.wait([&] { return !stream.received().empty() && is_reply(stream.received().back()); }));
        auto arrived = stream.take();
        EXPECT_TRUE(stream.handshake(true, kGeneration, 0, kMemory));
        world.sleep(5 * sim::kMillisecond);
        return arrived.empty() ? 0 : rds::parse_handshake(arrived.back().header).memory;
    }
    /** Answers as a hawser peer does, and receives text soon. */
    bool answers_and_hears(WireStream &stream, const std::string &text)
    {
        EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(stream.handshake(true, kGeneration, 0, kMemory));
        return stream.wait([&] { return !stream.received().empty() && stream.received().back().payload == text; });
    }
};
