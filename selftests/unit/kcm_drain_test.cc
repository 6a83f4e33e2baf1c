// SPDX-License-Identifier: GPL-2.0
// Closed sockets that still have to send: how much they may hold.
#include "kcm_test.h"

namespace {

class KcmDrain : public KcmTest {
protected:
    static constexpr std::size_t kLarge = 8 << 20;

    /** A multiplexor of this user's with a connection whose peer does not read, and sockets that have a large message to send. */
    std::vector<KcmSocket *> open_full(unsigned user, unsigned count)
    {
        std::vector<KcmSocket *> sockets;
        for (unsigned i = 0; i < count; i++) {
            KcmSocket &socket = *sockets.emplace_back(&new_socket());
            run(a, [&] {
                sim::World::current_task()->user = user;
                ASSERT_EQ(i ? socket.open_as_clone(*sockets[0]) : socket.open(), 0);
            });
        }
        connections.push_back(open_narrow(*sockets[0]));
        for (KcmSocket *socket : sockets)
            EXPECT_EQ(send(*socket, framed(text(kLarge))), static_cast<long>(kLarge + 4));
        return sockets;
    }
    void close_all(const std::vector<KcmSocket *> &sockets)
    {
        for (KcmSocket *socket : sockets)
            run(a, [&] { socket->close(); });
        settle();
    }

    std::vector<Ends> connections;
};

TEST_F(KcmDrain, closed_sockets__of_a_multiplexor_hold_so_much_and_one_message)
{
    unsigned before = a.live_sockets;
    auto sockets = open_full(1, 5);
    close_all(sockets);
    EXPECT_EQ(a.live_sockets, before + 2); // 16 MiB
    // What they have is still sent.
    const std::string message = framed(text(kLarge));
    EXPECT_EQ(peer_reads(connections[0], message.size()), message);
    settle();
    EXPECT_EQ(a.live_sockets, before + 1);
    EXPECT_EQ(peer_reads(connections[0], message.size()), message);
    settle();
    EXPECT_EQ(a.live_sockets, before);
    EXPECT_FALSE(peer_has_unread(connections[0]) && !peer_reads(connections[0], 1).empty());
}

TEST_F(KcmDrain, closed_sockets__of_a_user_have_a_limit_together)
{
    unsigned before = a.live_sockets;
    for (unsigned i = 0; i < 4; i++)
        close_all(open_full(1, 2));
    EXPECT_EQ(a.live_sockets, before + 8); // 64 MiB
    close_all(open_full(1, 2));
    EXPECT_EQ(a.live_sockets, before + 8);
    close_all(open_full(2, 2));
    EXPECT_EQ(a.live_sockets, before + 10);
    // It counts what is left, and nothing afterwards.
    world.run_for(70 * sim::kSecond);
    EXPECT_EQ(a.live_sockets, before);
    close_all(open_full(1, 2));
    EXPECT_EQ(a.live_sockets, before + 2);
}

// TCP had a part of it when the connection ended: that part is to be sent once more.
TEST_F(KcmDrain, message__that_is_sent_again_counts_until_it_is_sent)
{
    const std::string message = framed(text(kLarge));
    auto sockets = open_full(1, 1);
    KcmSocket &open = new_socket(), &later = new_socket();
    run(a, [&] { ASSERT_TRUE(open.open_as_clone(*sockets[0]) == 0 && later.open_as_clone(*sockets[0]) == 0); });
    unsigned before = a.live_sockets;
    close_all(sockets);
    Ends next = connect_narrow();
    attach(open, next);
    run(b, [&] { close(connections[0].there); });
    EXPECT_EQ(peer_reads(next, message.size()), message);
    settle();
    EXPECT_EQ(a.live_sockets, before - 1);
    EXPECT_EQ(send(later, message), static_cast<long>(message.size()));
    close_all({&later});
    EXPECT_EQ(a.live_sockets, before - 1) << "it still sends";
    EXPECT_EQ(peer_reads(next, message.size()), message);
    settle();
    EXPECT_EQ(a.live_sockets, before - 2);
}

} // namespace
