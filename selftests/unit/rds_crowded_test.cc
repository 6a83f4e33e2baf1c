// SPDX-License-Identifier: GPL-2.0
// So many strangers that each place which is free is taken at once.
#include "rds_stranger_test.h"

namespace {

enum class Crowd { silent, speaking, silent_before_the_first_contact };

class Crowded : public Stranger, public testing::WithParamInterface<Crowd> {
protected:
    static constexpr unsigned kStrangers = 64;
    void begin(unsigned number)
    {
        world.spawn(a, "stranger", [this, number] {
            for (kapi_u16 port = static_cast<kapi_u16>(40000 + 8 * number); !over_; world.sleep(3 * sim::kMillisecond)) {
                WireStream stranger(a);
                port = static_cast<kapi_u16>(port < 64000 ? port + 8 * kStrangers : 40000 + 8 * number);
                if (stranger.connect(sim::address("10.0.0.1", port), sim::address("10.0.0.2", 16385)) &&
                    GetParam() == Crowd::speaking)
                    stranger.handshake(false, 0x7000 + number, 0, 0x8000 + number);
                stranger.wait([&] { return over_ || stranger.is_gone(); }, 100 * sim::kSecond);
                stranger.close(true);
            }
        });
    }
    /** As a hawser does, which waits up to a second before it tries again. */
    bool hears(const std::string &text)
    {
        WireStream peer(a);
        bool arrived = false;
        if (connect(peer, 0) && peer.handshake(false, kGeneration, 0, kMemory) && peer.handshake(true, kGeneration, 0, kMemory))
            peer.wait([&] {
                arrived = std::ranges::any_of(peer.received(), [&](const auto &message) { return message.payload == text; });
                return arrived || peer.is_gone();
            }, 20 * sim::kSecond);
        peer.close(true);
        if (!arrived)
            world.sleep(1 + kapi_random_u32() % sim::kSecond);
        return arrived;
    }
    bool over_ = false;
};

TEST_P(Crowded, the_peer_is_back_soon)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream first(a);
        if (GetParam() != Crowd::silent_before_the_first_contact)
            shake_hands(first, 0);
        for (unsigned i = 0; i < kStrangers; i++)
            begin(i);
        world.sleep(100 * sim::kMillisecond);
        first.close(true);
        send_later("hello");
        std::uint64_t began = world.now_ns();
        while (!hears("hello") && world.now_ns() - began < 20 * sim::kSecond)
            ;
        EXPECT_LE(world.now_ns() - began, 10 * sim::kSecond); // mostly one; whether a try finds a place is chance
        over_ = true;
        world.sleep(2 * sim::kSecond);
    }, 200 * sim::kSecond);
}

INSTANTIATE_TEST_SUITE_P(, Crowded, testing::Values(Crowd::silent, Crowd::speaking, Crowd::silent_before_the_first_contact));

} // namespace
