// SPDX-License-Identifier: GPL-2.0
// A program's TCP socket in the simulator, which core gives back: what the program reads then.
#include "kapi_sim_adopt_test.h"

namespace {

class GiveBack : public Adopt {};

TEST_P(GiveBack, lets_the_program_read_the_pieces_then_what_was_never_consumed)
{
    taken.limit = 1000;
    run(b, [&] { taken.adopt(there); });
    std::string bytes = text(9000);
    write(a, here, bytes);
    world.run_for(sim::kSecond);
    EXPECT_EQ(taken.received, bytes.substr(0, 1000));
    run(b, [&] {
        std::vector<char> copy(bytes.begin() + 400, bytes.begin() + 1000); // exact, so that ASan sees an overrun
        kapi_piece second{nullptr, copy.data() + 100, nullptr, 500};
        kapi_piece first{&second, copy.data(), nullptr, 100};
        EXPECT_EQ(taken.give_back(&first), 0);
        copy.assign(copy.size(), 'x'); // what was given is a copy
    });
    unsigned calls = taken.calls;
    std::string more = text(500);
    write(a, here, more);
    run(b, [&] { EXPECT_EQ(read(there, bytes.size() - 400 + more.size()), bytes.substr(400) + more); });
    EXPECT_EQ(taken.calls, calls);
}

TEST_P(GiveBack, keeping__is_of_one_byte_at_least)
{
    static const kapi_stream_ops keep{[](void *, kapi_rx *rx, kapi_size length) {
                                          EXPECT_DEATH(kapi_rx_keep(rx, 0, 0), "nothing of an offer is kept");
                                          return length;
                                      },
                                      Taken::acked, Taken::event};
    run(b, [&] {
        ASSERT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), 0);
        kapi_stream_attach(taken.stream, &kOptions, &keep, &taken);
    });
    write(a, here, "to be kept");
    world.run_for(sim::kSecond);
    run(b, [&] { kapi_stream_give_back(taken.stream, nullptr, KAPI_GIVE_BACK_OPEN); });
}

TEST_P(GiveBack, takes_kept_buffers)
{
    static kapi_rxbuf *kept;
    kept = nullptr;
    static const kapi_stream_ops keep{[](void *, kapi_rx *rx, kapi_size length) {
                                          kept = kapi_rx_keep(rx, 0, length);
                                          return kept ? length : 0;
                                      },
                                      Taken::acked, Taken::event};
    run(b, [&] {
        ASSERT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), 0);
        kapi_stream_attach(taken.stream, &kOptions, &keep, &taken);
    });
    write(a, here, "kept for a while");
    ASSERT_TRUE(world.run_until([&] { return kept; }, sim::kSecond));
    run(b, [&] {
        kapi_size size = kapi_rxbuf_length(kept);
        kapi_piece piece{nullptr, nullptr, kept, static_cast<kapi_u32>(size)};
        EXPECT_EQ(taken.give_back(&piece), 0);
        kapi_rxbuf_free(kept);
        EXPECT_EQ(read(there, size), std::string("kept for a while").substr(0, size));
    });
}

TEST_P(GiveBack, and_abort_lets_the_program_read_what_came)
{
    taken.limit = 4;
    run(b, [&] { taken.adopt(there); });
    write(a, here, "that came");
    ASSERT_TRUE(world.run_until([&] { return taken.received == "that"; }, sim::kSecond));
    run(b, [&] {
        kapi_piece piece{nullptr, "that", nullptr, 4};
        EXPECT_EQ(taken.give_back(&piece, KAPI_GIVE_BACK_RESET), 0);
        EXPECT_EQ(read(there, 9), "that came");
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
}

TEST_P(GiveBack, without_memory_resets_and_leaves_nothing_to_read)
{
    taken.limit = 1;
    run(b, [&] { taken.adopt(there); });
    write(a, here, "x and what came after it");
    ASSERT_TRUE(world.run_until([&] { return taken.received == "x"; }, sim::kSecond));
    run(b, [&] {
        kapi_piece piece{nullptr, "x", nullptr, 1};
        b.faults().fail_at = b.faults().count + 1;
        EXPECT_EQ(taken.give_back(&piece), -KAPI_ENOMEM);
        EXPECT_EQ(sim::program_error(there), -KAPI_ECONNABORTED);
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
    world.run_for(sim::kSecond);
    run(a, [&] { EXPECT_EQ(sim::program_error(here), -KAPI_ECONNRESET); });
}

TEST_P(GiveBack, takes_pieces_larger_than_a_buffer)
{
    constexpr std::size_t buffer = 17 * 4096;
    std::string bytes;
    run(b, [&] {
        taken.adopt(there);
        for (std::size_t size : {buffer - 1, buffer, buffer + 1, 10 * buffer}) {
            bytes = text(size);
            kapi_piece piece{nullptr, bytes.data(), nullptr, static_cast<kapi_u32>(size)};
            EXPECT_EQ(taken.give_back(&piece), 0);
            EXPECT_EQ(read(there, size), bytes);
            taken.adopt(there);
        }
        kapi_piece piece{nullptr, bytes.data(), nullptr, static_cast<kapi_u32>(bytes.size())};
        b.faults().fail_at = b.faults().count + 10;
        EXPECT_EQ(taken.give_back(&piece), -KAPI_ENOMEM);
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
}

TEST_P(GiveBack, close__instead_of_give_back_is_refused)
{
    run(b, [&] { taken.adopt(there); });
    EXPECT_DEATH(run(b, [&] { kapi_stream_close(taken.stream, 0); }), "closed instead of given back");
    run(b, [&] { EXPECT_EQ(taken.give_back(), 0); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, GiveBack, ::testing::Range(1, 6));

} // namespace
