// SPDX-License-Identifier: GPL-2.0
// net/rds/pull: which messages do not wait in the stream, though their program has not received those before.
#include "rds_peer_test.h"

#include "net/rds/net.h"

#include <cstdint>
#include <string>

namespace {

constexpr unsigned kOneWay = 8;                        // messages after which traffic goes one way
constexpr std::uint64_t kWait = 4 * sim::kMillisecond; // for a program

/** A peer that sends what it likes to a program that reads nothing: all but the first message may wait for it. */
class PullPeer : public PeerTest {
protected:
    PullPeer()
    {
        open_socket(kPort);
        run(a, [&] {
            shake_hands(stream, 0);
            shake_hands(second, 1);
        });
        for (unsigned i = 0; i < kOneWay; i++)
            comes(stream, "x", 0);
    }
    ~PullPeer() override
    {
        run(a, [&] { stream.close(true), second.close(true); });
    }
    /** The messages that wait in a stream are then so many more. */
    void comes(WireStream &over, const std::string &text, std::uint64_t more_left)
    {
        std::uint64_t left = counted(rds::Stat::recv_left), queued = this->queued();
        kapi_u64 &sequence = &over == &stream ? sequence_ : second_sequence_;
        run(a, [&] { EXPECT_TRUE(over.message(++sequence, kPeersPort, kPort, text)); });
        world.run_for(kWait / 4);
        EXPECT_EQ(counted(rds::Stat::recv_left), left + more_left);
        EXPECT_EQ(this->queued(), queued + 1 - more_left);
    }

    static constexpr kapi_u16 kPort = 1000;
    WireStream stream{a}, second{a};

private:
    kapi_u64 sequence_ = 0, second_sequence_ = 0;
};

// The program may not come for long, and what counts against the socket counts at once.
TEST_F(PullPeer, full_socket__gets_it_when_it_comes)
{
    socket.sk().rcvbuf = 4096;
    for (int i = 0; i < 3; i++) {
        comes(stream, std::string(1000, 'x'), 1);
        world.run_for(2 * kWait);
    }
    for (unsigned i = 0; i <= kOneWay; i++) // the peer was notified, which is traffic the other way
        comes(stream, "beyond", 0);
}

TEST_F(PullPeer, program_that_comes_for_one_path__gets_what_comes_over_another_at_once)
{
    comes(stream, "left", 1);
    comes(second, "at once", 0);
}

} // namespace
