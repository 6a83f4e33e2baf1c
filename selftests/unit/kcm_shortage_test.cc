// SPDX-License-Identifier: GPL-2.0
// Connections for whose messages there is not enough memory.
#include "kcm_shortage_test.h"

namespace {

TEST_F(KcmShortage, parts_of_messages__do_not_wait_for_each_other_for_ever)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    a.kept_limit = 2'400'000; // one has room, two have not: what one holds counts three times, what the other has twice
    start_to_write_parts(all, message);
    world.run_for(500 * sim::kMillisecond);
    EXPECT_TRUE(receive(socket) == kNothing);
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(receive(socket) == message);
    EXPECT_EQ(failed(all, 12), 1u); // ENOMEM
    EXPECT_EQ(a.kept, 0u);
}

// What it had of a message is gone: the program must not take what follows for the beginning of another one.
TEST_F(KcmShortage, part_of_a_message__that_ended_for_others_is_followed_by_nothing)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    a.kept_limit = 2'400'000;
    start_to_write_parts(all, message);
    world.run_for(3 * sim::kSecond);
    EXPECT_TRUE(receive(socket) == message);
    ASSERT_EQ(failed(all, 12), 1u); // ENOMEM
    const Ends ended = error_of(all[0]) == 12 ? all[0] : all[1];
    run(a, [&] {
        EXPECT_EQ(socket.unattach(ended.here), 0);
        char bytes[100];
        EXPECT_LE(sim::program_read(ended.here, bytes, sizeof(bytes), sim::Wait::no), 0);
    });
}

TEST_F(KcmShortage, parts_of_messages__of_many_connections_leave_one_after_the_other)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all;
    for (unsigned i = 0; i < 6; i++)
        all.push_back(attach_large(socket));
    a.kept_limit = 6'000'000;
    start_to_write_parts(all, message);
    unsigned whole = receive_all(socket, message), ended = failed(all, 12);
    EXPECT_GE(whole, 1u);
    EXPECT_EQ(whole + ended, 6u);
}

TEST_F(KcmShortage, parts_of_messages__wait_for_a_reader_who_can_make_room)
{
    const std::string first = framed(text(300'000)), next = framed(text(300'000, 3));
    KcmSocket &socket = new_socket();
    Ends before = attach_large(socket);
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    run(a, [&] { sim::program_socket_of(all[0].here).rcvtimeo_ns = 5 * sim::kSecond; });
    a.kept_limit = 1'700'000;
    start_to_write(before, first);
    settle();
    for (const Ends &ends : all)
        start_to_write(ends, next);
    world.run_for(60 * sim::kSecond);
    EXPECT_TRUE(receive(socket) == first);
    EXPECT_EQ(receive_all(socket, next), 2u);
    EXPECT_EQ(failed(all, 0), 2u);
}

TEST_F(KcmShortage, part_of_a_message__waits_alone)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket)};
    run(a, [&] { sim::program_socket_of(all[0].here).rcvtimeo_ns = 2 * sim::kSecond; });
    a.kept_limit = 1'000'000;
    start_to_write(all[0], message);
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(failed(all, 0), 1u);
    kcm_totals totals{};
    run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &totals); });
    EXPECT_GT(totals.rx_no_memory, 1u);
    a.kept_limit = 2 << 20;
    settle();
    EXPECT_TRUE(receive(socket) == message);
}

TEST_F(KcmShortage, part_of_a_message__of_another_user_is_not_in_its_way)
{
    const std::string message = framed(text(600'000));
    KcmSocket &one = new_socket(), &two = new_socket();
    run(a, [&] { sim::World::current_task()->user = 1; ASSERT_EQ(one.open(), 0); });
    run(a, [&] { sim::World::current_task()->user = 2; ASSERT_EQ(two.open(), 0); });
    std::vector<Ends> all;
    for (KcmSocket *socket : {&one, &two}) {
        Ends ends = all.emplace_back(connect());
        run(a, [&] {
            sim::World::current_task()->user = socket == &one ? 1 : 2;
            ASSERT_EQ(socket->set_option(KCM_ABI_MAX_MESSAGE, 4 << 20), 0);
            ASSERT_EQ(socket->attach(ends.here, by_length), 0);
        });
    }
    a.kept_limit = 2'400'000;
    start_to_write_parts(all, message);
    world.run_for(30 * sim::kSecond);
    EXPECT_EQ(failed(all, 0), 2u);
    a.kept_limit = 4 << 20;
    settle();
    EXPECT_TRUE(receive(one) == message);
    EXPECT_TRUE(receive(two) == message);
}

// What a large holder holds counts twice, so it stays refused when all is read, while small messages go on.
TEST_F(KcmShortage, parts_of_messages__do_not_wait_for_ever_beside_small_messages)
{
    constexpr std::size_t kRest = 2'500;
    const std::string large = framed(text(600'000)), nearly = framed(text(286'000)), small = framed(text(3000));
    KcmSocket &socket = new_socket(), &second = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket), attach_large(socket)};
    Ends flow = open_with_one(second);
    a.kept_limit = 2'000'000;
    start_to_write(all[2], nearly.substr(0, nearly.size() - kRest));
    world.run_for(sim::kSecond);
    start_to_write_parts({all[0], all[1]}, large, 225'000);
    world.run_for(300 * sim::kMillisecond);
    start_to_write(all[2], nearly.substr(nearly.size() - kRest));
    unsigned flowed = 0, whole = 0;
    for (unsigned i = 0; i < 200; i++) { // the reader is a little behind
        peer_writes(flow, small);
        world.run_for(50 * sim::kMillisecond);
        whole += receive(socket) != kNothing;
        if (i > 4)
            flowed += receive(second) == small;
    }
    EXPECT_GT(flowed, 150u);
    EXPECT_GE(whole, 1u);
    EXPECT_EQ(whole + failed(all, 12), 3u);
}

TEST_F(KcmShortage, parts_of_messages__do_not_wait_for_ever_beside_one_that_gets_memory_now_and_then)
{
    const std::string large = framed(text(600'000)), medium = framed(text(30'000));
    KcmSocket &socket = new_socket(), &second = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    Ends flow = attach_large(second);
    a.kept_limit = 2'400'000;
    start_to_write_parts(all, large, 300'000);
    world.run_for(100 * sim::kMillisecond);
    std::string stream;
    for (unsigned i = 0; i < 400; i++)
        stream += medium;
    start_to_write(flow, stream);
    unsigned flowed = 0, whole = 0;
    for (unsigned i = 0; i < 50; i++) {
        world.run_for(200 * sim::kMillisecond);
        flowed += receive(second) == medium;
        whole += receive(socket) == large;
    }
    EXPECT_GE(flowed, 45u);
    EXPECT_EQ(whole, 1u);
    EXPECT_EQ(failed(all, 12), 1u);
}

TEST_F(KcmShortage, part_of_a_message__waits_alone_for_two_minutes)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    Ends ends = attach_large(socket);
    a.kept_limit = 1'000'000;
    start_to_write(ends, message);
    world.run_for(119 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 0);
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 12);
    EXPECT_EQ(a.kept, 0u);
}

TEST_F(KcmShortage, parts_of_messages__of_two_users_do_not_wait_for_each_other_for_ever)
{
    const std::string message = framed(text(600'000));
    std::vector<Ends> all;
    std::vector<KcmSocket *> sockets{&new_socket(), &new_socket()};
    for (unsigned i = 0; i < 2; i++) {
        Ends ends = all.emplace_back(connect());
        run(a, [&] {
            sim::World::current_task()->user = i + 1;
            ASSERT_EQ(sockets[i]->open(), 0);
            ASSERT_EQ(sockets[i]->set_option(KCM_ABI_MAX_MESSAGE, 4 << 20), 0);
            ASSERT_EQ(sockets[i]->attach(ends.here, by_length), 0);
        });
    }
    a.kept_limit = 2'400'000;
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(0, 400'000));
    world.run_for(sim::kSecond);
    for (const Ends &ends : all) {
        start_to_write(ends, message.substr(400'000));
        world.run_for(sim::kSecond);
    }
    world.run_for(122 * sim::kSecond);
    EXPECT_EQ(failed(all, 12), 1u);
    EXPECT_EQ((receive(*sockets[0]) == message) + (receive(*sockets[1]) == message), 1);
}

TEST_F(KcmShortage, part_of_a_message__leaves_the_receive_timeout_as_it_is_while_it_waits)
{
    const std::string message = framed(text(60'000));
    KcmSocket &socket = new_socket();
    Ends ends = attach_large(socket);
    run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = 2 * sim::kSecond; });
    start_to_write(ends, message.substr(0, 1000));
    world.run_for(1500 * sim::kMillisecond);
    a.kept_limit = 0;
    start_to_write(ends, message.substr(1000, 1000));
    world.run_for(5 * sim::kSecond);
    a.kept_limit = ~std::size_t{0};
    world.run_for(400 * sim::kMillisecond);
    EXPECT_EQ(error_of(ends), 0);
    world.run_for(200 * sim::kMillisecond);
    EXPECT_EQ(error_of(ends), 110); // ETIMEDOUT
}

TEST_F(KcmShortage, small_parts__are_left_alone_when_a_large_one_is_enough)
{
    constexpr unsigned kSmall = 200;
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all, large;
    for (unsigned i = 0; i < kSmall; i++)
        all.push_back(attach_large(socket));
    for (unsigned i = 0; i < 2; i++)
        large.push_back(attach_large(socket));
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(0, 1000));
    world.run_for(sim::kSecond);
    a.kept_limit = a.kept * 2 + 2'400'000;
    for (const Ends &ends : large)
        start_to_write(ends, message.substr(0, 400'000));
    world.run_for(sim::kSecond);
    // These wait first.
    a.kept_limit = a.kept;
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(1000, 1000));
    world.run_for(100 * sim::kMillisecond);
    for (const Ends &ends : large)
        start_to_write(ends, message.substr(400'000, 1000));
    world.run_for(1500 * sim::kMillisecond);
    EXPECT_GE(failed(large, 12), 1u);
    EXPECT_EQ(failed(all, 12), 0u);
}

// One after the other they would take hours.
TEST_F(KcmShortage, small_parts__end_together_until_one_has_room)
{
    constexpr unsigned kSmall = 200;
    const std::string message = framed(text(100'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all;
    for (unsigned i = 0; i < kSmall; i++)
        all.push_back(attach_large(socket));
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(0, 10'000));
    world.run_for(sim::kSecond);
    a.kept_limit = a.kept;
    for (const Ends &ends : all)
        start_to_write(ends, message.substr(10'000));
    world.run_for(2 * sim::kSecond);
    EXPECT_GE(failed(all, 12), 5u);
    a.kept_limit = ~std::size_t{0};
    settle();
}

// Another connection looks just when this one, which holds most, has got what it lacked, but has not said so.
TEST_F(KcmShortage, part_of_a_message__that_has_got_its_memory_does_not_end_for_others)
{
    const std::string message = framed(text(60'000)), next = framed("next");
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket), connect()};
    unsigned slow = 0;
    sim::WaitList stalled; // its processor stands still
    run(a, [&] {
        int filter = sim::program_filter([&](const unsigned char *bytes, std::size_t) -> kapi_s32 {
            if (bytes[2] == 0 && slow++ == 0) {
                world.after(300 * sim::kMillisecond, [&] { world.wake(stalled); });
                world.wait(stalled, "its processor");
            }
            return 4 + (bytes[1] << 16 | bytes[2] << 8 | bytes[3]);
        });
        ASSERT_EQ(socket.attach(all[1].here, filter), 0);
        sim::program_close(filter);
    });
    start_to_write(all[0], message.substr(0, 10'000));
    start_to_write(all[1], message.substr(0, message.size() - 1000));
    world.run_for(sim::kSecond);
    a.kept_limit = a.kept;
    start_to_write(all[0], message.substr(10'000, 30'000));
    start_to_write(all[1], message.substr(message.size() - 1000) + next);
    world.run_for(950 * sim::kMillisecond);
    a.kept_limit = ~std::size_t{0};
    EXPECT_TRUE(world.run_until([&] { return slow != 0; }, 20 * sim::kMillisecond));
    a.kept_limit = 0;
    EXPECT_TRUE(receive(socket) == message);
    world.run_for(400 * sim::kMillisecond);
    EXPECT_EQ(failed(all, 0), 2u);
    a.kept_limit = ~std::size_t{0};
    settle();
    EXPECT_TRUE(receive(socket) == next);
}

// Little was read beside what the large ones lack, but as much as the small ones lack.
class KcmShortageOfMany : public KcmShortage, public testing::WithParamInterface<unsigned> {};

TEST_P(KcmShortageOfMany, parts_of_messages__end_before_a_smaller_one_that_lacks_little)
{
    const std::string large = framed(text(3'000'000)), modest = framed(text(53'000)), small = framed(text(3000));
    KcmSocket &socket = new_socket(), &second = new_socket();
    std::vector<Ends> greedy, honest;
    for (unsigned i = 0; i < GetParam(); i++)
        start_to_write(greedy.emplace_back(attach_large(socket)), large.substr(0, 300'000));
    for (unsigned i = 0; i < 2; i++)
        start_to_write(honest.emplace_back(attach_large(socket)), modest.substr(0, 50'000));
    Ends flow = open_with_one(second);
    world.run_for(sim::kSecond);
    a.kept_limit = 2 * a.kept + 20'000;
    for (const Ends &ends : greedy)
        start_to_write(ends, large.substr(300'000, 100'000));
    world.run_for(100 * sim::kMillisecond);
    for (const Ends &ends : honest)
        start_to_write(ends, modest.substr(50'000));
    unsigned flowed = 0, whole = 0;
    for (unsigned i = 0; i < 160; i++) {
        peer_writes(flow, small);
        world.run_for(50 * sim::kMillisecond);
        flowed += receive(second) == small;
        whole += receive(socket) == modest;
    }
    EXPECT_GT(flowed, 100u);
    EXPECT_GE(failed(greedy, 12), 1u);
    EXPECT_EQ(failed(honest, 0), 2u);
    EXPECT_EQ(whole, 2u);
    a.kept_limit = ~std::size_t{0};
    settle();
}

INSTANTIATE_TEST_SUITE_P(Numbers, KcmShortageOfMany, ::testing::Values(2u, 10u));

} // namespace
