// SPDX-License-Identifier: GPL-2.0
// What tracepoints show of messages and connections (Documentation/tracepoints.rst).
#include <algorithm>

#include "kcm_test.h"

namespace {

class KcmTrace : public KcmTest {
protected:
    /** The events so far, which are forgotten, each with this connection's number replaced. */
    std::vector<std::string> take(std::uint64_t id)
    {
        std::vector<std::string> taken = std::exchange(lines, {});
        const std::string number = "connection=" + std::to_string(id) + " ";
        for (auto &line : taken)
            if (auto at = line.find(number); at != std::string::npos)
                line.replace(at, number.size(), "connection=ID ");
        return taken;
    }
    std::uint64_t id_of(KcmSocket &socket, const Ends &ends)
    {
        std::int64_t id = 0;
        run(a, [&] { id = socket.id_of(ends.here); });
        EXPECT_GT(id, 0);
        return static_cast<std::uint64_t>(id);
    }

    std::vector<std::string> &lines = a.traced.emplace();
};
using Lines = std::vector<std::string>;

TEST_F(KcmTrace, message__is_followed_from_program_to_TCP)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::uint64_t id = id_of(socket, ends);
    EXPECT_EQ(take(id), Lines{"kcm_attach connection=ID error=0"});
    EXPECT_EQ(send(socket, framed("hello")), 9);
    EXPECT_EQ(take(id), (Lines{"kcm_send connection=0 messages=1 length=9", "kcm_transmit connection=ID messages=1 length=9"}));
    EXPECT_EQ(send(socket, framed("hello").substr(0, 5), KCM_ABI_MSG_MORE, id), 5);
    EXPECT_EQ(take(id), Lines{"kcm_send connection=ID messages=0 length=5"});
    EXPECT_EQ(send(socket, "ello", 0, id), 4);
    EXPECT_EQ(take(id), (Lines{"kcm_send connection=ID messages=1 length=4", "kcm_transmit connection=ID messages=1 length=9"}));
}

TEST_F(KcmTrace, message__that_is_refused_is_not_shown)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.set_sndbuf(20'000); });
    std::uint64_t id = id_of(socket, ends);
    take(id);
    EXPECT_EQ(send(socket, framed(text(29'996))), 30'000);
    EXPECT_EQ(take(id).size(), 1u);
    EXPECT_EQ(send(socket, "no room", KCM_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
    EXPECT_EQ(send(socket, "begun", KCM_ABI_MSG_MORE, id), 5); // its own queue has room
    EXPECT_EQ(take(id), Lines{"kcm_send connection=ID messages=0 length=5"});
    EXPECT_EQ(send(socket, "another one's", 0, id + 1), -KAPI_ENOTCONN);
    EXPECT_EQ(take(id), Lines());
    // One that waits for room is shown when it has some.
    auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send("ended", 5, 0, id), 5); });
    settle();
    EXPECT_TRUE(writer->is_done());
    EXPECT_EQ(take(id), Lines{"kcm_send connection=ID messages=1 length=5"});
    writer = world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send("late", 4), 4); });
    settle();
    EXPECT_EQ(take(id), Lines());
    EXPECT_EQ(peer_reads(ends, 30'014).size(), 30'014u);
    EXPECT_TRUE(writer->is_done());
    Lines shown = take(id);
    EXPECT_EQ(std::count(shown.begin(), shown.end(), "kcm_send connection=0 messages=1 length=4"), 1);
}

TEST_F(KcmTrace, messages__arrive_together_and_are_delivered_one_by_one)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::uint64_t id = id_of(socket, ends);
    take(id);
    peer_writes(ends, framed("one") + framed("three"));
    settle();
    EXPECT_EQ(take(id), Lines{"kcm_receive connection=ID messages=2 length=16"});
    EXPECT_EQ(receive(socket, 100, KCM_ABI_MSG_DONTWAIT | KCM_ABI_MSG_PEEK), framed("one"));
    EXPECT_EQ(take(id), Lines()) << "it was only looked at";
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(take(id), Lines{"kcm_deliver connection=ID messages=1 length=7"});
    EXPECT_EQ(receive(socket), framed("three"));
    EXPECT_EQ(take(id), Lines{"kcm_deliver connection=ID messages=1 length=9"});
}

TEST_F(KcmTrace, message__that_TCP_takes_in_pieces_is_transmitted_once)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::uint64_t id = id_of(socket, ends);
    take(id);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    EXPECT_EQ(take(id), Lines{"kcm_send connection=0 messages=1 length=30004"});
    EXPECT_EQ(peer_reads(ends, message.size()), message);
    EXPECT_EQ(take(id), Lines{"kcm_transmit connection=ID messages=1 length=30004"});
}

TEST_F(KcmTrace, connection__ends_and_is_unattached)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::uint64_t id = id_of(socket, ends);
    take(id);
    run(b, [&] { close(ends.there); });
    settle();
    Lines seen = take(id);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].rfind("kcm_end connection=ID error=", 0), 0u) << seen[0];
    EXPECT_NE(seen[0].back(), '=');
    const std::string error = seen[0].substr(seen[0].find("error="));
    EXPECT_NE(error, "error=0");
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    EXPECT_EQ(take(id), Lines{"kcm_unattach connection=ID " + error});
}

class KcmTraceOrder : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmTraceOrder() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}
    std::vector<std::string> &lines = a.traced.emplace();
};
TEST_P(KcmTraceOrder, attach__is_reported_before_what_is_sent)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    Ends ends = connect();
    EXPECT_EQ(send(socket, framed("early")), 9);
    lines.clear();
    attach(socket, ends);
    settle();
    Lines seen = std::exchange(lines, {});
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].rfind("kcm_attach", 0), 0u) << seen[0] << ", " << seen[1];
}
INSTANTIATE_TEST_SUITE_P(Seeds, KcmTraceOrder, testing::Range(1, 41));

} // namespace
