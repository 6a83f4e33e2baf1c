// SPDX-License-Identifier: GPL-2.0
// What happens while the works of a user are late, because all that may run wait for programs.
#include "kcm_users_test.h"

#include "kapi/sim/slow.h"
#include "net/kcm/socket.h"

namespace {

class KcmLateWorks : public KcmUsers {
protected:
    /** A socket of the user whose works are late, at which its connection is parked. */
    Ends open_parked(KcmSocket &socket)
    {
        open_as(1, socket);
        Ends ends = connect();
        attach(socket, ends);
        EXPECT_EQ(send(socket, "."), 1);
        return ends;
    }
    struct Cut {
        Ends ends;                // of the connection that was parked
        std::uint64_t id = 0;
        std::vector<Ends> others; // connections of the same multiplexor, which are free
    };
    /** TCP takes a part of `message` where the connection is parked. Its sender serves other queues first, and returns. */
    Cut leave_cut(KcmSocket &socket, const std::string &message)
    {
        constexpr unsigned kOthers = 64; // as many steps as a call takes
        open_as(1, socket);
        Cut cut{.ends = open_narrow(socket), .others = {}};
        EXPECT_EQ(send(socket, "."), 1);
        auto id_of = [&](const Ends &ends) {
            std::int64_t id = 0;
            run(a, [&] { id = socket.id_of(ends.here); });
            EXPECT_GT(id, 0);
            return static_cast<std::uint64_t>(id);
        };
        cut.id = id_of(cut.ends);
        for (unsigned i = 0; i < kOthers; i++)
            attach(socket, cut.others.emplace_back(connect()));
        sim::stand_still_after("kcm send", 100 * sim::kMillisecond); // when the message is queued
        auto sender = world.spawn(a, "sender", [&] {
            EXPECT_EQ(socket.send(message.data(), message.size()), static_cast<long>(message.size()));
        });
        world.run_for(sim::kMillisecond);
        sim::stand_still_after(nullptr, 0);
        for (const Ends &other : cut.others)
            EXPECT_EQ(send(socket, "x", 0, id_of(other)), 1);
        EXPECT_FALSE(sender->is_done());
        EXPECT_EQ(unattach_now(socket, cut.ends), -KAPI_EAGAIN); // wakes the message's queue, which is the last one then
        EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 100 * sim::kMillisecond));
        run(a, [&] {
            EXPECT_GT(socket.connections().at(0).tx_bytes, 1u);
            EXPECT_LT(socket.connections().at(0).tx_bytes, message.size());
        });
        return cut;
    }
    int unattach_now(KcmSocket &socket, const Ends &ends)
    {
        int result = 77;
        run(a, [&] { result = socket.unattach(ends.here, true); });
        return result;
    }
};

// While SIOCKCMUNATTACH waits, the connection begins no new message. Here it was granted to a queue before, which has not begun:
// the works are late.
TEST_P(KcmLateWorks, unattach__lets_no_message_begin_of_a_queue_that_was_granted_the_connection)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket(), &other = new_socket();
    open_as(1, socket);
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    tasks.push_back(start_to_hold(ends, 100 * sim::kMillisecond));
    world.run_for(sim::kMillisecond);
    tasks.push_back(world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send("x", 1), 1); }));
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(send(other, framed(text(30'000))), 30'004); // waits for the connection
    world.run_for(200 * sim::kMillisecond);
    auto bytes = [&] {
        std::uint64_t n = 0;
        run(a, [&] { n = socket.connections().at(0).tx_bytes; });
        return n;
    };
    EXPECT_EQ(bytes(), 1u);
    int result = 77;
    auto task = world.spawn(a, "unattach", [&] { result = socket.unattach(ends.here); });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_FALSE(task->is_done());
    EXPECT_EQ(send(other, "later"), 5); // transmits what is queued
    settle();
    if (!task->is_done()) {
        EXPECT_EQ(bytes(), 1u) << "a message has begun, and the peer does not read: unattaching waits for it";
        world.run_for(sim::kSecond);
    }
    EXPECT_EQ(result, 0);
    EXPECT_EQ(peer_reads(ends, 1), "x");
    EXPECT_FALSE(peer_has_unread(ends));
    // It waits for the next one.
    Ends next = connect();
    attach(socket, next);
    EXPECT_EQ(peer_reads(next, 30'009), framed(text(30'000)) + "later");
    wait_for(tasks);
    settle();
    EXPECT_TRUE(task->is_done());
}

// The same, of the connection that a socket has parked. Sending is what gives it back.
TEST_P(KcmLateWorks, unattach__lets_no_message_begin_on_a_parked_connection)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket();
    Ends ends = open_parked(socket);
    tasks.push_back(start_to_hold(ends, 100 * sim::kMillisecond));
    world.run_for(sim::kMillisecond);
    bool stop = false;
    auto sender = world.spawn(a, "sender", [&] {
        while (!stop) {
            socket.send("x", 1, KCM_ABI_MSG_DONTWAIT);
            world.sleep(10 * sim::kMillisecond);
        }
    });
    world.run_for(10 * sim::kMillisecond);
    int result = 77;
    auto task = world.spawn(a, "unattach", [&] { result = socket.unattach(ends.here); });
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, sim::kSecond));
    EXPECT_EQ(result, 0);
    EXPECT_EQ(peer_reads(ends, 2), ".x");
    EXPECT_FALSE(peer_has_unread(ends)) << "the one whose call was under way";
    stop = true;
    wait_for(tasks);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
}

TEST_P(KcmLateWorks, connection__that_was_parked_is_given_to_no_other_socket_in_the_middle_of_a_message)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket(), &other = new_socket();
    const std::string message = framed(text(30'000));
    Cut cut = leave_cut(socket, message);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    EXPECT_EQ(send(other, "other", 0, cut.id), 5);
    EXPECT_EQ(peer_reads(cut.ends, message.size() + 6), "." + message + "other");
    for (const Ends &ends : cut.others)
        EXPECT_EQ(peer_reads(ends, 1), "x");
    for (const Ends &ends : cut.others)
        EXPECT_FALSE(peer_has_unread(ends));
    wait_for(tasks);
}

// The socket that sends it is then closed, and has no other connection.
TEST_P(KcmLateWorks, unattach__takes_no_connection_that_was_parked_in_the_middle_of_a_message)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket();
    const std::string message = framed(text(30'000));
    Cut cut = leave_cut(socket, message);
    EXPECT_EQ(unattach_now(socket, cut.ends), -KAPI_EAGAIN);
    for (const Ends &ends : cut.others)
        EXPECT_EQ(unattach_now(socket, ends), 0);
    run(a, [&] { socket.close(); });
    EXPECT_EQ(peer_reads(cut.ends, message.size() + 1), "." + message);
    wait_for(tasks);
}

// Nothing of it has been offered yet when it ends, and the program has closed it.
TEST_P(KcmLateWorks, works__that_are_late_lose_no_message_of_a_connection_that_was_reset)
{
    constexpr unsigned kMany = 84; // more than the ended ones that stay
    auto holders = stop_works_of(1);
    KcmSocket &socket = new_socket();
    open_as(1, socket);
    for (unsigned i = 0; i < kMany; i++) {
        Ends ends = connect();
        run(a, [&] { EXPECT_EQ(sim::program_write(ends.here, "x", 1), 1); });
        peer_writes(ends, framed("log"));
        run(b, [&] { sim::program_shutdown_write(ends.there); });
        settle();
        attach(socket, ends);
        run(a, [&] { close(ends.here); });
        run(b, [&] { close(ends.there); }); // with something unread: a reset
        settle();
    }
    wait_for(holders);
    settle();
    unsigned got = 0;
    for (unsigned i = 0; i < 2 * kMany; i++)
        got += receive(socket) == framed("log");
    EXPECT_EQ(got, kMany);
}

// The socket has sent nothing on it before, and would keep the connection for its next message.
TEST_P(KcmLateWorks, unattach__waits_for_the_message_under_way_only)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket();
    open_as(1, socket);
    Ends ends = connect();
    attach(socket, ends);
    tasks.push_back(start_to_hold(ends, 100 * sim::kMillisecond));
    world.run_for(sim::kMillisecond);
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send("x", 1), 1); });
    world.run_for(sim::kMillisecond);
    auto task = world.spawn(a, "unattach", [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    world.run_for(50 * sim::kMillisecond);
    EXPECT_FALSE(sender->is_done() || task->is_done());
    EXPECT_TRUE(world.run_until([&] { return sender->is_done() && task->is_done(); }, 100 * sim::kMillisecond));
    EXPECT_EQ(peer_reads(ends, 1), "x");
    wait_for(tasks);
}

// The connection has ended before its owner, whose work is late, gives it back: who waits for that has not to wait any more.
TEST_P(KcmLateWorks, connection__that_is_waited_for_is_idle_when_it_is_taken_from_where_it_is_parked)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket();
    Ends ends = open_parked(socket);
    tasks.push_back(start_to_hold(ends, 100 * sim::kMillisecond));
    world.run_for(sim::kMillisecond);
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send("x", 1), 1); });
    world.run_for(sim::kMillisecond);
    hw::Ref<kcm::Psock> psock;
    auto waiter = world.spawn(a, "waiter", [&] {
        auto &core = *reinterpret_cast<kcm::Socket *>(socket.core());
        psock = core.mux->find(socket.connections().at(0).id);
        core.mux->reservations.hold_back(*psock);
        EXPECT_TRUE(core.mux->reservations.wait_idle(*psock, world.now_ns() + 10 * sim::kSecond));
    });
    world.run_for(200 * sim::kMillisecond);
    EXPECT_TRUE(sender->is_done());
    EXPECT_FALSE(waiter->is_done());
    run(a, [&] { psock->mux->reservations.remove(*psock); });
    EXPECT_TRUE(world.run_until([&] { return waiter->is_done(); }, sim::kMillisecond));
    run(a, [&] {
        psock->mux->reservations.add(*psock);
        psock = nullptr;
    });
    wait_for(tasks);
    EXPECT_EQ(send(socket, "y"), 1);
    EXPECT_EQ(peer_reads(ends, 3), ".xy");
}

// A work notices each end. When they run, all connections have ended.
TEST_P(KcmLateWorks, ends__of_all_connections_are_one_report)
{
    std::vector<sim::TaskRef> tasks = stop_works_of(1);
    KcmSocket &socket = new_socket();
    open_as(1, socket);
    std::vector<Ends> all;
    for (unsigned i = 0; i < 3; i++)
        attach(socket, all.emplace_back(connect()));
    run(b, [&] {
        for (const Ends &ends : all)
            close(ends.there);
    });
    unsigned reports = 0;
    bool stop = false;
    auto reader = world.spawn(a, "reader", [&] {
        char byte;
        while (!stop)
            reports += socket.receive(&byte, 1) == -KAPI_EPIPE;
    });
    settle();
    EXPECT_EQ(reports, 0u);
    wait_for(tasks);
    settle();
    EXPECT_EQ(reports, 1u);
    stop = true;
    run(a, [&] { socket.sk().rcvtimeo_ns = 1; });
    world.signal(*reader);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmLateWorks, ::testing::Range(1, 5));

} // namespace
