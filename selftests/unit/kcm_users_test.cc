// SPDX-License-Identifier: GPL-2.0
// Works of different users: those of a user wait for no other user. The queues for them, whose number is limited.
#include "kcm_users_test.h"

namespace {

using KcmUsersOnce = KcmTest;

TEST_P(KcmUsers, works__wait_for_no_program_of_another_user)
{
    auto holders = stop_works_of(1);
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    peer_writes(ends, framed("hello"));
    settle();
    open_as(2, socket);
    attach(socket, ends); // what has arrived is read by a work
    settle();
    EXPECT_EQ(receive(socket), framed("hello"));
    wait_for(holders);
}

TEST_P(KcmUsers, closed_sockets__do_not_wait_for_works)
{
    auto holders = stop_works_of(1);
    unsigned before = a.live_sockets;
    for (unsigned i = 0; i < 100; i++) {
        KcmSocket socket(host);
        open_as(1, socket);
        run(a, [&] { socket.close(); });
    }
    settle();
    EXPECT_EQ(a.live_sockets, before);
    wait_for(holders);
}

// More than closed sockets may hold together is not left to works, which may stand still.
TEST_P(KcmUsers, closed_sockets__do_not_wait_for_works_to_drop_what_they_have)
{
    constexpr std::size_t kLarge = 8 << 20;
    constexpr unsigned kParts = 9; // of a large message, which has 4 bytes more
    auto holders = stop_works_of(1);
    unsigned before = a.live_pages;
    for (unsigned i = 0; i < 20; i++) {
        KcmSocket &socket = new_socket();
        open_as(1, socket);
        open_narrow(socket);
        EXPECT_EQ(send(socket, framed(text(30'000))), 30'004);
        EXPECT_EQ(send(socket, framed(text(kLarge))), static_cast<long>(kLarge + 4));
        auto closer = world.spawn(a, "closes files for all", [&] { socket.close(); }, sim::TaskKind::work);
        EXPECT_TRUE(world.run_until([&] { return closer->is_done(); }, sim::kSecond));
    }
    settle();
    EXPECT_GE(a.live_pages - before, 7 * kParts);
    EXPECT_LE(a.live_pages - before, 8 * kParts + 20); // 64 MiB, and what is cut
    wait_for(holders);
}

// TCP has a part of each message.
TEST_P(KcmUsers, closed_sockets__do_not_wait_for_works_to_drop_what_is_cut)
{
    constexpr std::size_t kLarge = 8 << 20;
    constexpr unsigned kParts = 9;
    auto holders = stop_works_of(1);
    unsigned before = a.live_pages;
    std::vector<Ends> all;
    for (unsigned i = 0; i < 40; i++) {
        KcmSocket &socket = new_socket();
        open_as(1, socket);
        all.push_back(open_narrow(socket));
        EXPECT_EQ(send(socket, framed(text(kLarge))), static_cast<long>(kLarge + 4));
        auto closer = world.spawn(a, "closes files for all", [&] { socket.close(); }, sim::TaskKind::work);
        EXPECT_TRUE(world.run_until([&] { return closer->is_done(); }, sim::kSecond));
    }
    settle();
    EXPECT_GE(a.live_pages - before, 7 * kParts);
    EXPECT_LE(a.live_pages - before, 8 * kParts);
    EXPECT_EQ(error_of(all.front()), 0);
    EXPECT_EQ(error_of(all.back()), 103); // ECONNABORTED
    wait_for(holders);
}

// Not only when its multiplexor is closed.
TEST_P(KcmUsers, closed_socket__that_sends_no_more_resets_the_connection_of_a_cut_message)
{
    const std::string large = framed(text(17 << 20));
    KcmSocket &open = new_socket(), &first = new_socket(), &second = new_socket();
    Ends before = open_narrow(open), cut = connect_narrow();
    run(a, [&] { ASSERT_TRUE(first.open_as_clone(open) == 0 && second.open_as_clone(open) == 0); });
    EXPECT_EQ(send(first, large), static_cast<long>(large.size()));
    attach(open, cut);
    EXPECT_EQ(send(second, large), static_cast<long>(large.size()));
    run(a, [&] { first.close(), second.close(); });
    settle();
    EXPECT_EQ(error_of(before), 0);
    long got = 1;
    run(b, [&] {
        char bytes[4096];
        while (got > 0)
            got = sim::program_read(cut.there, bytes, sizeof(bytes));
    });
    EXPECT_EQ(got, -104); // ECONNRESET
}

// A work may begin to send as soon as the socket is closed, and then wait for a program.
TEST_P(KcmUsers, closed_sockets__drop_what_they_have_before_a_work_looks_at_what_was_unfinished)
{
    constexpr std::size_t kLarge = 8 << 20;
    constexpr unsigned kParts = 9, kSockets = 20;
    unsigned before = a.live_pages;
    std::vector<sim::TaskRef> holders;
    for (unsigned i = 0; i < kSockets; i++) {
        KcmSocket &socket = new_socket();
        open_as(1, socket);
        Ends ends = open_narrow(socket);
        run(a, [&] { socket.set_sndbuf(16 << 20); });
        EXPECT_EQ(send(socket, framed(text(30'000))), 30'004);
        EXPECT_EQ(send(socket, framed(text(kLarge))), static_cast<long>(kLarge + 4));
        EXPECT_EQ(send(socket, "unfinished", KCM_ABI_MSG_MORE), 10);
        settle();
        holders.push_back(start_to_hold(ends, 30 * sim::kSecond));
        settle();
        auto closer = world.spawn(a, "closes files for all", [&] { socket.close(); }, sim::TaskKind::work);
        EXPECT_TRUE(world.run_until([&] { return closer->is_done(); }, sim::kSecond));
    }
    EXPECT_LE(a.live_pages - before, 8 * kParts + kSockets);
    wait_for(holders);
}

// Resetting the connection may take as long as a program likes, but the message does not wait for that.
TEST_P(KcmUsers, closed_socket__drops_what_is_cut_before_it_waits_for_a_program)
{
    unsigned before = a.live_pages;
    KcmSocket &socket = new_socket(), &open = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(open.open_as_clone(socket), 0); });
    EXPECT_EQ(send(socket, framed(text(8 << 20))), (8 << 20) + 4);
    run(a, [&] { socket.close(); });
    world.run_for(50 * sim::kSecond);
    EXPECT_GE(a.live_pages - before, 8u);
    sim::TaskRef holder = start_to_hold(ends, 30 * sim::kSecond);
    world.run_for(15 * sim::kSecond);
    EXPECT_LE(a.live_pages - before, 1u); // the part that TCP has
    EXPECT_FALSE(holder->is_done());
    wait_for({holder});
    settle();
    EXPECT_EQ(error_of(ends), 103); // ECONNABORTED
}

TEST_P(KcmUsers, close_by_a_thread_of_the_kernel__waits_for_no_program)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    sim::TaskRef holder = start_to_hold(ends, 30 * sim::kSecond);
    settle();
    auto closer = world.spawn(a, "closes files for all", [&] { socket.close(); }, sim::TaskKind::work);
    EXPECT_TRUE(world.run_until([&] { return closer->is_done(); }, sim::kSecond));
    wait_for({holder});
    settle();
    EXPECT_EQ(error_of(ends), 0);
    run(a, [&] { EXPECT_EQ(sim::program_write(ends.here, "own", 3), 3); }); // it was given back
    EXPECT_TRUE(closer->is_done());
}

TEST_P(KcmUsers, end_of_the_last_connection__is_not_reported_when_another_was_attached_before_the_report)
{
    KcmSocket &socket = new_socket(), &sibling = new_socket();
    open_as(1, socket);
    run(a, [&] { ASSERT_EQ(sibling.open_as_clone(socket), 0); });
    Ends last = connect(), next = connect();
    attach(socket, last);
    auto holders = stop_works_of(1);
    run(b, [&] { close(last.there); });
    settle();
    attach(socket, next);
    wait_for(holders);
    settle();
    EXPECT_EQ(error_of(last), 32); // EPIPE
    for (KcmSocket *each : {&socket, &sibling})
        EXPECT_EQ(receive(*each), kNothing);
    run(b, [&] { close(next.there); });
    settle();
    for (KcmSocket *each : {&socket, &sibling})
        EXPECT_EQ(receive(*each), "error 32");
}

TEST_P(KcmUsers, queue__is_one_for_each_while_there_are_enough)
{
    constexpr unsigned kOwn = 48, kAll = 64;
    unsigned before = a.live_queues;
    std::vector<KcmSocket *> sockets;
    auto open_for = [&](unsigned first, unsigned users) {
        for (unsigned user = first; user < first + users; user++)
            open_as(user, *sockets.emplace_back(&new_socket()));
    };
    open_for(1, kOwn);
    EXPECT_EQ(a.live_queues, before + kOwn);
    open_for(1, kOwn);
    EXPECT_EQ(a.live_queues, before + kOwn);
    open_for(1000, 1);
    EXPECT_EQ(a.live_queues, before + kOwn + 1);
    open_for(2000, 300);
    EXPECT_EQ(a.live_queues, before + kAll); // each is hit, with one chance in a few millions that it is not
    // The queue of a user that leaves is used for the next one.
    run(a, [&] {
        for (KcmSocket *socket : sockets)
            socket->close();
    });
    settle();
    open_for(3000, kOwn);
    EXPECT_EQ(a.live_queues, before + kAll);
}

// It is not tried again and again.
TEST_F(KcmUsersOnce, queue__that_there_is_no_memory_for_fails_the_call)
{
    run(a, [&] {
        std::uint64_t failed = 0;
        int error = -KAPI_ENOMEM;
        for (unsigned call = 1; error; call++) {
            KcmSocket &socket = new_socket();
            a.faults().fail_at = a.faults().count + call;
            error = socket.open();
            failed = std::exchange(a.faults().failed, 0);
            EXPECT_EQ(error, failed ? -KAPI_ENOMEM : 0) << call;
            ASSERT_LT(call, 20u);
        }
        a.faults().fail_at = 0;
    });
}

TEST_F(KcmUsersOnce, queues__are_few_for_ten_thousand_users)
{
    unsigned before = a.live_queues;
    run(a, [&] {
        for (unsigned user = 1; user <= 10'000; user++) {
            sim::World::current_task()->user = user;
            ASSERT_EQ(new_socket().open(), 0);
        }
    });
    EXPECT_EQ(a.live_queues, before + 64);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmUsers, ::testing::Range(1, 5));

} // namespace
