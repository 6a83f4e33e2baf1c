// SPDX-License-Identifier: GPL-2.0
// Connections that have ended, and that no program can unattach: it has closed their TCP sockets.
#include "kcm_test.h"

namespace {

constexpr unsigned kKept = 64; // as in net/kcm/mux.h

class KcmEnded : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmEnded() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    std::vector<Ends> attach_some(KcmSocket &socket, unsigned count)
    {
        std::vector<Ends> all;
        for (unsigned i = 0; i < count; i++)
            attach(socket, all.emplace_back(connect()));
        return all;
    }
    void close_here(const std::vector<Ends> &all)
    {
        run(a, [&] {
            for (const Ends &ends : all)
                close(ends.here);
        });
    }
    void end_by_peer(const std::vector<Ends> &all)
    {
        run(b, [&] {
            for (const Ends &ends : all)
                close(ends.there);
        });
        settle();
    }
    std::size_t connections(KcmSocket &socket)
    {
        std::size_t count = 0;
        run(a, [&] { count = socket.connections().size(); });
        return count;
    }
};

TEST_P(KcmEnded, connections__without_a_descriptor_do_not_stay)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> open = attach_some(socket, 10), closed = attach_some(socket, 3 * kKept);
    close_here(closed);
    EXPECT_EQ(connections(socket), 10 + 3 * kKept);
    end_by_peer(open);
    end_by_peer(closed);
    EXPECT_EQ(connections(socket), kKept); // programs see why the last ones ended
    run(a, [&] {
        for (const Ends &ends : open)
            EXPECT_EQ(socket.unattach(ends.here), 0);
    });
    EXPECT_EQ(connections(socket), kKept - 10);
    EXPECT_EQ(receive(socket), "error 32"); // EPIPE, of the last one
    std::vector<Ends> last = attach_some(socket, 1);
    EXPECT_EQ(send(socket, "still works"), 11);
    EXPECT_EQ(peer_reads(last[0], 11), "still works");
}

TEST_P(KcmEnded, connections__with_a_descriptor_stay)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> open = attach_some(socket, kKept + 20);
    end_by_peer(open);
    EXPECT_EQ(connections(socket), open.size());
    close_here(open);
    std::vector<Ends> more = attach_some(socket, 20);
    close_here(more);
    end_by_peer(more);
    EXPECT_EQ(connections(socket), kKept);
}

TEST_P(KcmEnded, connections__without_a_descriptor_are_read_to_their_end)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> all = attach_some(socket, 2 * kKept);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    const std::string filler = framed(text(3000)), one = framed("one"), two = framed("two");
    peer_writes(all[0], filler);
    settle();
    peer_writes(all[1], one); // stays with TCP
    close_here(all);
    peer_writes(all[2], two);
    end_by_peer(all);
    EXPECT_EQ(connections(socket), kKept);
    EXPECT_EQ(receive(socket), filler);
    settle();
    std::set<std::string> rest{receive(socket)};
    settle();
    rest.insert(receive(socket));
    EXPECT_EQ(rest, (std::set<std::string>{one, two}));
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmEnded, ::testing::Range(1, 5));

} // namespace
