// SPDX-License-Identifier: GPL-2.0
// How long a connection waits for memory until it ends for others, and until others end for it.
#include "kcm_shortage_test.h"

namespace {

using KcmShortagePatience = KcmShortage;

// What one gave up is not enough for any of the others, who have all their time from then on nevertheless.
TEST_F(KcmShortagePatience, parts_of_messages__have_a_second_each_time_one_has_ended)
{
    const std::string message = framed(text(60'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all;
    for (unsigned i = 0; i < 6; i++)
        start_to_write(all.emplace_back(attach_large(socket)), message.substr(0, 40'000));
    settle();
    a.kept_limit = a.kept;
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(40'000));
    world.run_for(1900 * sim::kMillisecond);
    EXPECT_EQ(failed(all, 12), 1u);
    world.run_for(800 * sim::kMillisecond);
    EXPECT_EQ(failed(all, 12), 1u); // another
    a.kept_limit = ~std::size_t{0};
    settle();
}

// What was received and read before they began to wait says nothing of whether reading helps.
TEST_F(KcmShortagePatience, parts_of_messages__do_not_wait_for_what_was_read_before)
{
    const std::string message = framed(text(60'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    for (const Ends &ends : all)
        for (unsigned i = 0; i < 3; i++) {
            peer_writes(ends, message);
            settle();
            EXPECT_TRUE(receive(socket) == message);
        }
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(0, 40'000));
    settle();
    a.kept_limit = a.kept;
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(40'000));
    world.run_for(1500 * sim::kMillisecond);
    EXPECT_EQ(failed(all, 12), 1u);
    a.kept_limit = ~std::size_t{0};
    settle();
    EXPECT_TRUE(receive(socket) == message);
}

// The one that looks has waited for a second, and the larger one only just begun to.
TEST_F(KcmShortagePatience, part_of_a_message__that_waits_for_a_short_time_does_not_end_for_others)
{
    const std::string message = framed(text(60'000));
    KcmSocket &socket = new_socket();
    Ends small = attach_large(socket), large = attach_large(socket);
    start_to_write(small, message.substr(0, 20'000));
    start_to_write(large, message.substr(0, 40'000));
    settle();
    a.kept_limit = a.kept;
    start_to_write(small, message.substr(20'000));
    world.run_for(600 * sim::kMillisecond);
    start_to_write(large, message.substr(40'000));
    world.run_for(500 * sim::kMillisecond);
    EXPECT_EQ(failed({small}, 12), 1u);
    EXPECT_EQ(failed({large}, 0), 1u);
    a.kept_limit = ~std::size_t{0};
    settle();
    EXPECT_TRUE(receive(socket) == message);
}

} // namespace
