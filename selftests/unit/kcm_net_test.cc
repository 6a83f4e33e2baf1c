// SPDX-License-Identifier: GPL-2.0
// The contents of /proc/net/kcm and /proc/net/kcm_stats: for many objects, without delays for others, under changes.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

#include "kapi/sim/stream.h"

#include <algorithm>
#include <functional>

namespace {

class KcmNet : public KcmTest {
protected:
    struct Shown {
        std::vector<kcm_mux_row> muxes;
        std::vector<kcm_socket_row> sockets;
        std::vector<kcm_connection_row> connections;
        std::function<void()> at_socket = [] {}; // what others do meanwhile
        std::size_t most = SIZE_MAX;             // limit of rows of sockets
    };

    /** The function that shows a row may sleep, which the simulator does not allow under a lock. */
    Shown show() { return show(Shown()); }
    Shown show(Shown shown)
    {
        static constexpr kcm_rows rows = {
            .mux =
                [](void *context, const kcm_mux_row *row) {
                    static_cast<Shown *>(context)->muxes.push_back(*row);
                    return 0;
                },
            .socket =
                [](void *context, const kcm_socket_row *row) {
                    auto *all = static_cast<Shown *>(context);
                    all->sockets.push_back(*row);
                    sim::World::current()->sleep(sim::kMicrosecond);
                    all->at_socket();
                    return all->sockets.size() == all->most ? 1 : 0;
                },
            .connection =
                [](void *context, const kcm_connection_row *row) {
                    static_cast<Shown *>(context)->connections.push_back(*row);
                    sim::World::current()->sleep(sim::kMicrosecond);
                    return 0;
                },
        };
        run(a, [&] { kcm_net_show(host.net(a.initial_net()), &rows, &shown); });
        return shown;
    }
    void open_multiplexor(std::size_t count)
    {
        run(a, [&] {
            for (std::size_t i = 0; i < count; i++) {
                sockets.push_back(&new_socket());
                ASSERT_EQ(i ? sockets.back()->open_as_clone(*sockets[sockets.size() - 1 - i]) : sockets.back()->open(), 0);
            }
        });
    }
    static std::vector<unsigned> indexes(const Shown &shown)
    {
        std::vector<unsigned> all;
        for (const auto &row : shown.sockets)
            all.push_back(row.index);
        return all;
    }
    static bool is_ascending(const std::vector<unsigned> &all)
    {
        return std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()) == all.end();
    }

    std::vector<KcmSocket *> sockets;
};

TEST_F(KcmNet, show__tells_of_all_in_order)
{
    open_multiplexor(200);
    for (int i = 0; i < 20; i++) {
        Ends ends = connect();
        run(a, [&] { ASSERT_EQ(sockets[0]->attach(ends.here, by_length), 0); });
    }
    Shown shown = show();
    ASSERT_EQ(shown.muxes.size(), 1u);
    EXPECT_EQ(shown.muxes[0].sockets, 200u);
    EXPECT_EQ(shown.muxes[0].connections, 20u);
    EXPECT_EQ(shown.sockets.size(), 200u);
    EXPECT_TRUE(is_ascending(indexes(shown)));
    EXPECT_EQ(shown.connections.size(), 20u);
}

TEST_F(KcmNet, show__ends_when_nobody_wants_more)
{
    open_multiplexor(50);
    open_multiplexor(50);
    Shown wish;
    wish.most = 11;
    Shown shown = show(wish);
    EXPECT_EQ(shown.sockets.size(), 11u);
    EXPECT_EQ(shown.muxes.size(), 1u);
}

TEST_F(KcmNet, show__goes_on_when_those_around_are_closed)
{
    open_multiplexor(100);
    Shown wish;
    wish.at_socket = [&, shown = 0]() mutable {
        if (++shown == 10) // with the whole piece that was just looked at
            for (int i = 1; i < 60; i++)
                sockets[i]->close();
    };
    Shown shown = show(wish);
    auto seen = indexes(shown);
    EXPECT_TRUE(is_ascending(seen));
    for (unsigned stays = 60; stays < 100; stays++)
        EXPECT_EQ(std::count(seen.begin(), seen.end(), stays), 1) << stays;
    EXPECT_EQ(seen.back(), 99u);
}

TEST_F(KcmNet, show__finds_its_place_again_in_few_steps_at_a_time)
{
    open_multiplexor(300);
    Shown wish;
    wish.at_socket = [&, shown = 0]() mutable {
        if (++shown == 200)
            for (int i = 190; i < 210; i++)
                sockets[i]->close();
    };
    sim::forget_steps();
    auto seen = indexes(show(wish));
    EXPECT_LE(sim::most_steps_under("kcm members"), 64u + 2); // those of the walk that adds up the totals
    EXPECT_TRUE(is_ascending(seen));
    for (unsigned stays = 210; stays < 300; stays++)
        EXPECT_EQ(std::count(seen.begin(), seen.end(), stays), 1) << stays;
}

TEST_F(KcmNet, show__goes_on_when_the_index_is_anothers_by_now)
{
    open_multiplexor(40);
    Shown wish;
    wish.at_socket = [&] {
        // Each that was ever shown last may be closed, and opened again with the lowest index that is free.
        for (int i = 1; i < 30; i++)
            sockets[i]->close();
        for (int i = 29; i > 0; i--)
            ASSERT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
    };
    Shown shown = show(wish);
    EXPECT_TRUE(is_ascending(indexes(shown)));
    EXPECT_EQ(shown.sockets.size(), 40u);
}

TEST_F(KcmNet, show__goes_on_behind_a_multiplexor_that_goes)
{
    for (int i = 0; i < 5; i++)
        open_multiplexor(1);
    Shown wish;
    wish.at_socket = [&, shown = 0]() mutable {
        if (++shown == 2) {
            sockets[1]->close();
            sockets[2]->close();
        }
    };
    Shown shown = show(wish);
    EXPECT_EQ(shown.muxes.size(), 4u); // all but the third
    EXPECT_EQ(kcm_net_muxes(host.net(a.initial_net())), 3u);
}

TEST_F(KcmNet, show__finds_its_place_again_among_many_multiplexors)
{
    for (int i = 0; i < 300; i++)
        open_multiplexor(1);
    Shown wish;
    wish.at_socket = [&, shown = 0]() mutable {
        if (++shown == 250)
            sockets[249]->close();
    };
    sim::forget_steps();
    Shown shown = show(wish);
    EXPECT_LE(sim::most_steps_under("kcm namespace"), 64u + 2);
    EXPECT_EQ(shown.sockets.size(), 300u);
}

TEST_F(KcmNet, clone__takes_the_lowest_index_that_is_free)
{
    open_multiplexor(10);
    run(a, [&] {
        sockets[3]->close();
        sockets[9]->close();
        ASSERT_EQ(sockets[9]->open_as_clone(*sockets[0]), 0);
        ASSERT_EQ(sockets[3]->open_as_clone(*sockets[0]), 0);
    });
    EXPECT_EQ(indexes(show()), (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(KcmNet, totals__lose_nobody_who_closes_meanwhile)
{
    constexpr unsigned kMultiplexors = 6, kEach = 20;
    kcm_net *net = host.net(a.initial_net());
    for (unsigned i = 0; i < kMultiplexors; i++) {
        open_multiplexor(kEach);
        Ends ends = connect();
        run(a, [&] {
            ASSERT_EQ(sockets[i * kEach]->attach(ends.here, by_length), 0);
            for (unsigned s = 0; s < kEach; s++)
                ASSERT_EQ(sockets[i * kEach + s]->send("0000", 4), 4);
        });
    }
    bool over = false;
    auto closer = world.spawn(a, "closer", [&] {
        // From the last one on: those that leave are those that have not been counted yet.
        for (std::size_t i = sockets.size(); i-- > 0;) {
            world.sleep(sim::kMicrosecond);
            sockets[i]->close();
        }
        over = true;
    });
    run(a, [&] {
        while (!over) {
            kcm_totals totals;
            kcm_net_totals(net, &totals);
            EXPECT_EQ(totals.mux.tx_msgs, kMultiplexors * kEach);
            world.sleep(300);
        }
    });
    EXPECT_TRUE(closer->is_done());
}

TEST_F(KcmNet, totals__lose_no_connection_that_was_unattached_meanwhile)
{
    constexpr unsigned kCount = 200, kClosers = 3;
    const std::size_t each = framed("in").size();
    kcm_net *net = host.net(a.initial_net());
    open_multiplexor(1);
    std::vector<Ends> all;
    for (unsigned i = 0; i < kCount; i++) {
        all.push_back(connect());
        attach(*sockets[0], all.back());
        peer_writes(all.back(), framed("in"));
    }
    settle();
    unsigned closing = kClosers;
    for (unsigned first = 0; first < kClosers; first++)
        world.spawn(a, "closer", [&, first] {
            // As above.
            for (unsigned i = kCount - first; i-- > 0; i -= std::min(i, kClosers - 1)) {
                world.sleep(sim::kMillisecond); // else one goes in each of the tries
                EXPECT_EQ(sockets[0]->unattach(all[i].here), 0);
            }
            closing--;
        });
    run(a, [&] {
        while (closing) {
            kcm_totals totals;
            kcm_net_totals(net, &totals);
            EXPECT_EQ(totals.connections.rx_bytes, kCount * each);
            world.sleep(300);
        }
    });
}

// A program keeps the lock of the TCP socket, for which giving back waits.
TEST_F(KcmNet, totals__do_not_go_back_while_a_connection_is_given_back)
{
    constexpr unsigned kMessages = 7;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    kcm_net *net = host.net(a.initial_net());
    auto received = [&] {
        kcm_totals sum{};
        run(a, [&] { kcm_net_totals(net, &sum); });
        return sum.connections.rx_msgs;
    };
    for (unsigned i = 0; i < kMessages; i++)
        peer_writes(ends, framed("x"));
    settle();
    EXPECT_EQ(received(), kMessages);
    sim::TcbRef tcb;
    run(a, [&] { tcb = sim::program_socket_of(ends.here).tcb; });
    auto holder = world.spawn(a, "holder", [&] {
        sim::Locked locked(*tcb);
        world.sleep(sim::kSecond);
    });
    settle();
    auto leaver = world.spawn(a, "leaver", [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    settle();
    EXPECT_FALSE(leaver->is_done());
    EXPECT_EQ(received(), kMessages);
    EXPECT_TRUE(world.run_until([&] { return leaver->is_done() && holder->is_done(); }, 10 * sim::kSecond));
    EXPECT_EQ(received(), kMessages);
}

TEST_F(KcmNet, totals__count_connections_that_came_and_went)
{
    KcmSocket &socket = new_socket();
    auto totals = [&] {
        kcm_totals sum{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &sum); });
        return sum;
    };
    Ends idle = connect(), busy = connect_narrow();
    attach(socket, idle);
    peer_writes(idle, framed("in"));
    EXPECT_EQ(send(socket, "out"), 3);
    settle();
    run(a, [&] { EXPECT_EQ(socket.unattach(idle.here), 0); });
    kcm_totals sum = totals();
    EXPECT_EQ(sum.attach, 1u);
    EXPECT_EQ(sum.unattach, 1u);
    EXPECT_EQ(sum.unattach_reserved, 0u);
    EXPECT_EQ(sum.connections.rx_bytes, 6u);
    EXPECT_EQ(sum.connections.tx_bytes, 3u);
    // One that sends when it is to be unattached, and at first goes on to.
    attach(socket, busy);
    EXPECT_EQ(send(socket, text(30'000)), 30'000);
    run(a, [&] { EXPECT_EQ(socket.unattach(busy.here, true), -KAPI_EAGAIN); });
    EXPECT_EQ(totals().unattach, 1u);
    EXPECT_EQ(totals().unattach_reserved, 0u);
    auto task = world.spawn(a, "unattach", [&] { EXPECT_EQ(socket.unattach(busy.here), 0); });
    EXPECT_EQ(peer_reads(busy, 30'000), text(30'000));
    settle();
    EXPECT_TRUE(task->is_done());
    sum = totals();
    EXPECT_EQ(sum.attach, 2u);
    EXPECT_EQ(sum.unattach, 2u);
    EXPECT_EQ(sum.unattach_reserved, 1u);
    EXPECT_EQ(sum.connections.tx_bytes, 30'003u);
}

// Each is a bundle of its own: they are more than move at a time.
TEST_F(KcmNet, messages_that_move__are_all_at_the_other_socket_at_once)
{
    constexpr unsigned kMessages = 150;
    open_multiplexor(2);
    Ends ends = connect();
    attach(*sockets[0], ends);
    auto disable = [&](unsigned socket, int disabled) {
        run(a, [&] { EXPECT_EQ(sockets[socket]->set_option(KCM_ABI_RECV_DISABLE, disabled), 0); });
    };
    disable(1, 1);
    for (unsigned i = 0; i < kMessages; i++) {
        peer_writes(ends, framed("x"));
        world.run_for(200 * sim::kMicrosecond);
    }
    settle();
    EXPECT_EQ(show().sockets.at(0).recv_q, kMessages);
    disable(1, 0);
    EXPECT_EQ(show().sockets.at(1).recv_q, 0u);
    disable(0, 1);
    Shown shown = show();
    EXPECT_EQ(shown.sockets.at(0).recv_q, 0u);
    EXPECT_EQ(shown.sockets.at(0).rmem, 0u);
    EXPECT_EQ(shown.sockets.at(1).recv_q, kMessages);
    EXPECT_GT(shown.sockets.at(1).rmem, kMessages);
}

// A queue that waits gets a connection as soon as that is attached.
TEST_F(KcmNet, connection__has_its_own_index_from_the_first_message_on)
{
    open_multiplexor(2);
    const std::string large = framed(text(30'000));
    std::vector<Ends> ends;
    for (KcmSocket *socket : sockets) {
        EXPECT_EQ(send(*socket, large), static_cast<long>(large.size()));
        attach(*socket, ends.emplace_back(connect_narrow()));
        settle();
    }
    Shown shown = show();
    EXPECT_EQ(shown.sockets.at(0).reserved + shown.sockets.at(1).reserved, 0 + 1);
    for (const Ends &each : ends)
        EXPECT_EQ(peer_reads(each, large.size()), large);
    settle();
    shown = show();
    EXPECT_EQ(shown.sockets.at(0).reserved, -1);
    EXPECT_EQ(shown.sockets.at(1).reserved, -1);
}

TEST_F(KcmNet, message_that_waits_for_its_rest__is_shown)
{
    open_multiplexor(1);
    KcmSocket &socket = *sockets[0];
    Ends ends = connect();
    attach(socket, ends);
    std::string message = framed(text(1000));
    EXPECT_EQ(show().sockets.at(0).tx_wait_more, 0);
    EXPECT_EQ(send(socket, message.substr(0, 500), KCM_ABI_MSG_MORE), 500);
    EXPECT_EQ(show().sockets.at(0).tx_wait_more, 1);
    EXPECT_EQ(send(socket, message.substr(500)), 504);
    EXPECT_EQ(show().sockets.at(0).tx_wait_more, 0);
    EXPECT_EQ(peer_reads(ends, message.size()), message);
}

} // namespace
