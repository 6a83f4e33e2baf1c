// SPDX-License-Identifier: GPL-2.0
// Connections for whose messages there is not enough memory.
#include "kcm_test.h"

namespace {

class KcmShortage : public KcmTest {
protected:
    /** A connection on which messages of some MiB are allowed. */
    Ends attach_large(KcmSocket &socket)
    {
        Ends ends = connect();
        run(a, [&] {
            if (!socket.is_open()) {
                ASSERT_EQ(socket.open(), 0);
                ASSERT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 4 << 20), 0);
            }
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
        });
        return ends;
    }
    /** The peer sends, as long as it takes. */
    void start_to_write(const Ends &ends, std::string bytes)
    {
        auto kept = std::make_shared<std::string>(std::move(bytes));
        writers.push_back(world.spawn(b, "writer", [=] { sim::program_write(ends.there, kept->data(), kept->size()); }));
    }
    /** All get a part of the message, and then the rest as far as there is room. */
    void start_to_write_parts(const std::vector<Ends> &all, const std::string &message)
    {
        constexpr std::size_t kPart = 400'000;
        for (const Ends &ends : all)
            start_to_write(ends, message.substr(0, kPart));
        world.run_for(sim::kSecond);
        for (const Ends &ends : all)
            start_to_write(ends, message.substr(kPart));
    }
    /** How often the message comes in ten seconds. */
    unsigned receive_all(KcmSocket &socket, const std::string &message)
    {
        unsigned count = 0;
        for (unsigned i = 0; i < 100; i++) {
            world.run_for(100 * sim::kMillisecond);
            count += receive(socket) == message;
        }
        return count;
    }
    unsigned failed(const std::vector<Ends> &all, int error)
    {
        unsigned count = 0;
        for (const Ends &ends : all)
            count += error_of(ends) == error;
        return count;
    }

    std::vector<sim::TaskRef> writers;
};

TEST_F(KcmShortage, parts_of_messages__do_not_wait_for_each_other_for_ever)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all{attach_large(socket), attach_large(socket)};
    a.kept_limit = 1'000'000; // one has room, two have not
    start_to_write_parts(all, message);
    world.run_for(500 * sim::kMillisecond);
    EXPECT_TRUE(receive(socket) == kNothing);
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(receive(socket) == message);
    EXPECT_EQ(failed(all, 12), 1u); // ENOMEM
    EXPECT_EQ(a.kept, 0u);
}

TEST_F(KcmShortage, parts_of_messages__of_many_connections_leave_one_after_the_other)
{
    const std::string message = framed(text(600'000));
    KcmSocket &socket = new_socket();
    std::vector<Ends> all;
    for (unsigned i = 0; i < 6; i++)
        all.push_back(attach_large(socket));
    a.kept_limit = 3'000'000;
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
    a.kept_limit = 1 << 20;
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
    a.kept_limit = 300'000;
    start_to_write(all[0], message);
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(failed(all, 0), 1u);
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
    a.kept_limit = 1'000'000;
    start_to_write_parts(all, message);
    world.run_for(30 * sim::kSecond);
    EXPECT_EQ(failed(all, 0), 2u);
    a.kept_limit = 4 << 20;
    settle();
    EXPECT_TRUE(receive(one) == message);
    EXPECT_TRUE(receive(two) == message);
}

} // namespace
