// SPDX-License-Identifier: GPL-2.0
// Who gets a connection when queues give up waiting, or when it is taken away: calls of Reservations itself, at moments at
// which a socket makes them only now and then.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

#include "net/kcm/socket.h"

namespace {

class KcmReservations : public KcmTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmReservations() : KcmTest(GetParam()) {}

    /** A socket with one connection, as core sees them; a task of a. */
    struct Objects {
        kcm::Socket &socket;
        kcm::Reservations &reservations;
        hw::Ref<kcm::Psock> psock;
    };
    static Objects objects_of(KcmSocket &socket)
    {
        auto &core = *reinterpret_cast<kcm::Socket *>(socket.core());
        return {core, core.mux->reservations, core.mux->find(socket.connections().at(0).id)};
    }
    static hw::Ref<kcm::SendQueue> new_queue(Objects &of)
    {
        auto made = kcm::SendQueue::create(of.socket, of.psock);
        EXPECT_TRUE(made);
        return std::move(*made);
    }
};

TEST_P(KcmReservations, queue__that_gives_up_leaves_what_it_was_granted_to_the_next)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    run(a, [&] {
        Objects all = objects_of(socket);
        auto first = new_queue(all), second = new_queue(all), third = new_queue(all);
        EXPECT_TRUE(*all.reservations.take(*first));
        EXPECT_FALSE(*all.reservations.take(*second));
        all.reservations.give_back(*all.psock); // to the second
        EXPECT_EQ(all.reservations.owner(*all.psock).get(), second.get());
        all.reservations.forget(*second);
        EXPECT_FALSE(all.reservations.owner(*all.psock));
        EXPECT_TRUE(*all.reservations.take(*third));
        all.reservations.give_back(*all.psock);
    });
    EXPECT_EQ(send(socket, "x"), 1);
}

TEST_P(KcmReservations, queues__get_a_connection_in_the_order_in_which_they_began_to_wait)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    run(a, [&] {
        Objects all = objects_of(socket);
        auto owner = new_queue(all), only = new_queue(all);
        auto any = std::move(*kcm::SendQueue::create(all.socket, nullptr));
        for (bool any_first : {true, false}) {
            kcm::SendQueue &first = any_first ? *any : *only, &second = any_first ? *only : *any;
            EXPECT_TRUE(*all.reservations.take(*owner));
            for (kcm::SendQueue *queue : {&first, &second, &first})
                EXPECT_FALSE(*all.reservations.take(*queue));
            EXPECT_EQ(all.reservations.look(all.socket).waiting, 2u);
            for (kcm::SendQueue *queue : {&first, &second}) {
                EXPECT_TRUE(all.reservations.contended(*all.psock));
                EXPECT_FALSE(all.reservations.park(*all.psock));
                all.reservations.give_back(*all.psock);
                EXPECT_EQ(all.reservations.owner(*all.psock).get(), queue);
                EXPECT_TRUE(*all.reservations.take(*queue));
            }
            EXPECT_FALSE(all.reservations.contended(*all.psock));
            EXPECT_EQ(all.reservations.look(all.socket).waiting, 0u);
            EXPECT_EQ(all.reservations.look(all.socket).sends_on, 0);
            EXPECT_FALSE(all.reservations.wants_back());
            all.reservations.give_back(*all.psock);
            EXPECT_EQ(all.reservations.look(all.socket).sends_on, -1);
            EXPECT_TRUE(all.reservations.wants_back());
        }
    });
}

TEST_P(KcmReservations, connection__is_kept_by_who_sent_on_it_while_no_other_is_free)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    EXPECT_EQ(send(socket, "x"), 1);
    run(a, [&] {
        Objects all = objects_of(socket);
        EXPECT_TRUE(all.reservations.is_owned(*all.psock));
        EXPECT_FALSE(all.reservations.owner(*all.psock));
    });
    attach(socket, connect());
    for (unsigned i = 0; i < 3; i++)
        EXPECT_EQ(send(socket, "x"), 1);
    settle();
    run(a, [&] {
        Objects all = objects_of(socket);
        EXPECT_FALSE(all.reservations.is_owned(*all.psock));
    });
}

TEST_P(KcmReservations, connection__that_is_held_back_is_given_to_nobody)
{
    // It is parked at a socket that is just sending on it, so it cannot be reclaimed at the moment.
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    EXPECT_EQ(send(socket, "."), 1);
    for (unsigned round = 0; round < 20; round++) {
        bool held = false;
        unsigned refused = 0;
        auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send(".", 1), 1); });
        auto holder = world.spawn(a, "holder", [&] {
            Objects all = objects_of(socket);
            all.reservations.hold_back(*all.psock);
            held = true;
            while (refused < 3 && !HasFailure())
                world.sleep(sim::kMicrosecond);
            all.reservations.add(*all.psock);
        });
        auto taker = world.spawn(a, "taker", [&] { // as the queue of `other` for any connection
            Objects all = objects_of(other);
            while (refused < 3) {
                bool was_held = held;
                auto queue = std::move(*kcm::SendQueue::create(all.socket, nullptr));
                auto taken = all.reservations.take(*queue);
                ASSERT_TRUE(taken);
                ASSERT_FALSE(was_held && *taken);
                if (*taken)
                    all.reservations.give_back(**taken);
                else
                    all.reservations.forget(*queue);
                refused += was_held;
                world.sleep(sim::kMicrosecond);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return sender->is_done() && holder->is_done() && taker->is_done(); }, sim::kSecond));
        if (HasFailure())
            break;
    }
    run(a, [&] { EXPECT_FALSE(objects_of(socket).reservations.holds_back()); });
    EXPECT_EQ(peer_reads(ends, 21), std::string(21, '.'));
}

TEST_P(KcmReservations, connection__that_is_held_back_stays_with_an_owner_who_has_yet_to_be_woken)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    constexpr unsigned kRounds = 50;
    for (unsigned round = 0; round < kRounds && !HasFailure(); round++) {
        EXPECT_EQ(send(socket, "."), 1); // it is parked
        bool looked = false;
        auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send(".", 1), 1); });
        auto holder = world.spawn(a, "holder", [&] {
            Objects all = objects_of(socket);
            all.reservations.hold_back(*all.psock);
            while (!looked)
                world.sleep(sim::kMicrosecond);
            all.reservations.add(*all.psock);
        });
        auto taker = world.spawn(a, "taker", [&] {
            Objects all = objects_of(other);
            auto queue = std::move(*kcm::SendQueue::create(all.socket, nullptr));
            while (all.reservations.usable(*all.psock))
                world.point("not yet");
            auto taken = all.reservations.take(*queue);
            EXPECT_FALSE(*taken);
            if (*taken)
                all.reservations.give_back(**taken);
            else
                all.reservations.forget(*queue);
            looked = true;
        });
        EXPECT_TRUE(world.run_until([&] { return sender->is_done() && holder->is_done() && taker->is_done(); }, sim::kSecond));
    }
    EXPECT_EQ(peer_reads(ends, 2 * kRounds), std::string(2 * kRounds, '.'));
}

TEST_P(KcmReservations, connection__that_ends_while_it_is_waited_for)
{
    // Its owner was sending on it when it was to give it back, so it is still parked there when the connection ends.
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "."), 1);
    for (unsigned round = 0; round < 20; round++) {
        bool sent = false, held = false;
        auto sender = world.spawn(a, "sender", [&] {
            EXPECT_EQ(socket.send(".", 1), 1);
            sent = true;
        });
        std::uint64_t waited_ns = 0;
        auto waiter = world.spawn(a, "waiter", [&] {
            Objects all = objects_of(socket);
            all.reservations.hold_back(*all.psock);
            held = true;
            std::uint64_t begin_ns = world.now_ns();
            EXPECT_TRUE(all.reservations.wait_idle(*all.psock, begin_ns + sim::kSecond));
            waited_ns = world.now_ns() - begin_ns;
        });
        auto end = world.spawn(a, "end", [&] {
            Objects all = objects_of(socket);
            while (!held || (round % 2 && !sent)) // then the owner may have yet to be woken
                world.point("not yet");
            all.reservations.remove(*all.psock);
            world.sleep(2 * sim::kSecond);
            all.reservations.add(*all.psock);
        });
        EXPECT_TRUE(world.run_until([&] { return sender->is_done() && waiter->is_done() && end->is_done(); }, 5 * sim::kSecond));
        EXPECT_LT(waited_ns, sim::kMillisecond);
        if (HasFailure())
            break;
    }
    EXPECT_EQ(peer_reads(ends, 21), std::string(21, '.'));
}

INSTANTIATE_TEST_SUITE_P(Orders, KcmReservations, testing::Range<std::uint64_t>(1, 21));

// Each has a connection parked and sends on it, and their program holds the locks of these TCP sockets.
class KcmManyParked : public KcmTest {
protected:
    static constexpr unsigned kMany = 1000;

    KcmManyParked()
    {
        for (unsigned i = 0; i < kMany; i++) {
            KcmSocket &socket = *sockets.emplace_back(&new_socket());
            if (i)
                run(a, [&] { ASSERT_EQ(socket.open_as_clone(*sockets[0]), 0); });
            attach(*sockets[0], all.emplace_back(connect()));
            EXPECT_EQ(send(socket, "x"), 1); // no other connection is free
        }
        run(a, [&] { EXPECT_EQ(other.open_as_clone(*sockets[0]), 0); });
    }
    void hold_and_send(unsigned i)
    {
        tasks.push_back(world.spawn(a, "holder", [this, i] {
            sim::TcbRef tcb = sim::program_socket_of(all[i].here).tcb;
            tcb->lock.lock("a program");
            while (held && i != released)
                world.sleep(sim::kMillisecond);
            tcb->lock.unlock();
        }));
        tasks.push_back(world.spawn(a, "sender", [this, i] {
            world.sleep(sim::kMillisecond);
            EXPECT_EQ(sockets[i]->send("y", 1), 1);
        }));
    }
    void release_all()
    {
        held = false;
        settle();
        for (const sim::TaskRef &task : tasks)
            EXPECT_TRUE(task->is_done());
    }

    std::vector<KcmSocket *> sockets;
    std::vector<Ends> all;
    KcmSocket &other = new_socket();
    std::vector<sim::TaskRef> tasks;
    unsigned released = kMany;
    bool held = true;
};

TEST_F(KcmManyParked, connection__of_one_that_does_not_send_is_found_in_few_steps_at_a_time)
{
    for (unsigned i = 0; i < kMany - 1; i++)
        hold_and_send(i);
    settle();
    sim::forget_steps();
    EXPECT_EQ(send(other, "z"), 1);
    settle();
    EXPECT_LE(sim::most_steps_under("kcm transmit"), 64u * 3);
    EXPECT_LE(sim::most_steps_under("kcm send"), 64u * 3);
    EXPECT_EQ(peer_reads(all.back(), 2), "xz");
    release_all();
}

TEST_F(KcmManyParked, connection__of_the_first_that_has_sent_goes_to_who_waits)
{
    for (unsigned i = 0; i < kMany; i++)
        hold_and_send(i);
    settle();
    sim::forget_steps();
    EXPECT_EQ(send(other, "z"), 1);
    settle();
    EXPECT_LE(sim::most_steps_under("kcm transmit"), 64u * 3);
    released = 500;
    EXPECT_EQ(peer_reads(all[500], 3), "xyz");
    release_all();
}

} // namespace
