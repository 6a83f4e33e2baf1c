// SPDX-License-Identifier: GPL-2.0
// A message that was begun for a connection, which goes before the rest is sent.
#include "kcm_test.h"

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;
constexpr kapi_u32 kSndbuf = 5000;

class KcmBegun : public KcmTest {
protected:
    /** A socket with two connections, for the first of which a message is begun. */
    void begin(int of_type)
    {
        type = of_type;
        ends = open_with_one(socket, -1, type);
        others_ends = connect();
        attach(socket, others_ends);
        run(a, [&] {
            id = static_cast<std::uint64_t>(socket.id_of(ends.here));
            others_id = static_cast<std::uint64_t>(socket.id_of(others_ends.here));
            socket.sk().sndbuf = kSndbuf;
        });
        std::string begun = text(64 * kSndbuf); // as much as all queues for connections have room for
        EXPECT_EQ(send(socket, begun, going_on(), id), static_cast<long>(begun.size()));
    }
    unsigned going_on() const { return type == KCM_ABI_SOCK_DGRAM ? KCM_ABI_MSG_MORE : 0; }
    unsigned whole() const { return kNow | (type == KCM_ABI_SOCK_DGRAM ? 0u : KCM_ABI_MSG_EOR); }
    void expect_at_other(const std::string &bytes)
    {
        settle();
        ASSERT_TRUE(peer_has_unread(others_ends));
        EXPECT_EQ(peer_reads(others_ends, bytes.size()), bytes);
        EXPECT_FALSE(peer_has_unread(others_ends));
    }
    /** It is not of the message that had been begun, nor does it begin another one. */
    void expect_that_others_are_sent()
    {
        EXPECT_EQ(send(socket, "whole", whole()), 5);
        expect_at_other("whole");
        EXPECT_EQ(send(socket, "named", whole(), others_id), 5);
        expect_at_other("named");
    }

    KcmSocket &socket = new_socket();
    int type = 0;
    Ends ends, others_ends;
    std::uint64_t id = 0, others_id = 0;
};

// Of both types; and the connection is unattached, or else the peer closes it.
class KcmBegunInVain : public KcmBegun, public testing::WithParamInterface<std::tuple<int, bool>> {
protected:
    void SetUp() override
    {
        auto [of_type, unattached] = GetParam();
        begin(of_type);
        if (unattached)
            run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
        else
            run(b, [&] { close(ends.there); });
        settle();
    }
};

TEST_P(KcmBegunInVain, message__does_not_stop_one_for_another_connection)
{
    EXPECT_EQ(send(socket, "named", whole(), others_id), 5);
    expect_at_other("named");
    expect_that_others_are_sent();
}

TEST_P(KcmBegunInVain, message__does_not_stop_several_of_a_call)
{
    run(a, [&] { EXPECT_EQ(socket.send_each("onetwo", 6, {3, 3}, kNow, others_id), 6); });
    expect_at_other("onetwo");
    expect_that_others_are_sent();
}

TEST_P(KcmBegunInVain, message__ends_with_its_rest)
{
    EXPECT_EQ(send(socket, "rest", whole(), id), -KAPI_ENOTCONN);
    expect_that_others_are_sent();
}

TEST_P(KcmBegunInVain, message__ends_with_a_rest_that_names_no_connection)
{
    EXPECT_EQ(send(socket, "rest", whole()), -KAPI_ENOTCONN);
    settle();
    EXPECT_FALSE(peer_has_unread(others_ends));
    expect_that_others_are_sent();
}

TEST_P(KcmBegunInVain, message__ends_with_a_rest_that_is_spliced)
{
    socket.spliced = true;
    EXPECT_EQ(send(socket, "rest", KCM_ABI_MSG_MORE), -KAPI_ENOTCONN);
    socket.spliced = false;
    expect_that_others_are_sent();
}

TEST_P(KcmBegunInVain, message__ends_with_an_empty_end)
{
    EXPECT_EQ(send(socket, "", whole()), -KAPI_ENOTCONN);
    settle();
    expect_that_others_are_sent();
    EXPECT_EQ(send(socket, "", whole()), 0) << "nothing is begun";
}

// Its result is of no use.
TEST_P(KcmBegunInVain, message__ends_with_the_end_of_a_file)
{
    socket.spliced = true;
    EXPECT_EQ(send(socket, ""), 0);
    socket.spliced = false;
    settle();
    run(a, [&] { EXPECT_EQ(kapi_sk_take_error(&socket.sk()), -KAPI_ENOTCONN); });
    expect_that_others_are_sent();
}

// The queue goes when it is of no use, and nothing stays of the connection.
TEST_P(KcmBegunInVain, message__can_be_begun_again_and_closed)
{
    EXPECT_EQ(send(socket, "begun", going_on(), others_id), 5);
    EXPECT_EQ(send(socket, "rest", whole(), id), -KAPI_ENOTCONN) << "not of this message";
    EXPECT_EQ(send(socket, " and ended", whole()), 10);
    expect_at_other("begun and ended");
    EXPECT_EQ(send(socket, "begun", going_on(), others_id), 5);
    run(b, [&] { close(others_ends.there); });
    settle();
    run(a, [&] { socket.close(); });
    settle();
    run(a, [&] {
        EXPECT_TRUE(host.unload());
        ASSERT_EQ(host.load(), 0);
    });
}

INSTANTIATE_TEST_SUITE_P(Cases, KcmBegunInVain,
                         testing::Combine(testing::Values(KCM_ABI_SOCK_DGRAM, KCM_ABI_SOCK_SEQPACKET), testing::Bool()));

// Linux returns no error of a call of sendmmsg(), sendfile() or splice() when an earlier one has sent something, and the program
// goes on with what was refused. So no such part may be refused only once, and the next one begin a message of its own.
class KcmBegunByOneCall : public KcmBegun, public testing::WithParamInterface<int> {
protected:
    void SetUp() override { begin(GetParam()); }
    void end_connection()
    {
        run(b, [&] { close(ends.there); });
        settle();
    }
    /** The rest was discarded, and that is the socket's error. */
    void expect_that_it_is_reported()
    {
        settle();
        EXPECT_FALSE(peer_has_unread(others_ends)) << "a part of a message was sent as one";
        run(a, [&] { EXPECT_EQ(kapi_sk_take_error(&socket.sk()), -KAPI_ENOTCONN); });
        expect_that_others_are_sent();
    }
};

TEST_P(KcmBegunByOneCall, rest__by_sendmmsg_is_discarded_and_reported)
{
    EXPECT_EQ(send(socket, "part", going_on() | KCM_ABI_MSG_BATCH), 4);
    end_connection();
    EXPECT_EQ(send(socket, "rest", whole()), 4);
    expect_that_it_is_reported();
}

TEST_P(KcmBegunByOneCall, rest__by_sendmmsg_that_names_the_connection_is_refused_each_time)
{
    EXPECT_EQ(send(socket, "part", going_on() | KCM_ABI_MSG_BATCH), 4);
    end_connection();
    EXPECT_EQ(send(socket, "rest", whole(), id), -KAPI_ENOTCONN);
    EXPECT_EQ(send(socket, "rest", whole(), id), -KAPI_ENOTCONN);
    expect_that_others_are_sent();
}

TEST_P(KcmBegunByOneCall, rest__by_sendfile_is_discarded_and_reported)
{
    socket.spliced = true;
    EXPECT_EQ(send(socket, "part", KCM_ABI_MSG_MORE), 4);
    end_connection();
    EXPECT_EQ(send(socket, "part", KCM_ABI_MSG_MORE), 4);
    EXPECT_EQ(send(socket, "rest"), 4);
    socket.spliced = false;
    expect_that_it_is_reported();
}

TEST_P(KcmBegunByOneCall, empty_end__by_sendmmsg_is_reported)
{
    EXPECT_EQ(send(socket, "part", going_on() | KCM_ABI_MSG_BATCH), 4);
    end_connection();
    EXPECT_EQ(send(socket, "", whole()), 0);
    expect_that_it_is_reported();
}

TEST_P(KcmBegunByOneCall, message__ends_when_another_one_follows)
{
    EXPECT_EQ(send(socket, "part", going_on() | KCM_ABI_MSG_BATCH), 4);
    end_connection();
    EXPECT_EQ(send(socket, "part", going_on()), 4);
    EXPECT_EQ(send(socket, "named", whole(), others_id), 5);
    expect_at_other("named");
    expect_that_others_are_sent();
}

TEST_P(KcmBegunByOneCall, rest__by_a_later_call_is_refused)
{
    EXPECT_EQ(send(socket, "part", going_on() | KCM_ABI_MSG_BATCH), 4);
    EXPECT_EQ(send(socket, "last of sendmmsg()", going_on()), 18);
    end_connection();
    EXPECT_EQ(send(socket, "rest", whole()), -KAPI_ENOTCONN);
    expect_that_others_are_sent();
}

INSTANTIATE_TEST_SUITE_P(Types, KcmBegunByOneCall, testing::Values(KCM_ABI_SOCK_DGRAM, KCM_ABI_SOCK_SEQPACKET));

// A call waits for room in the queue of a connection, which is read empty while the begun message takes all that queues for
// connections have together. Then that message is given up: by a rest that names its connection, or one that names none.
class KcmBegunInVainBesideOneThatWaits : public KcmTest, public testing::WithParamInterface<bool> {};

TEST_P(KcmBegunInVainBesideOneThatWaits, message__makes_room_for_it)
{
    KcmSocket &socket = new_socket();
    Ends narrow = open_narrow(socket), ends = connect();
    attach(socket, ends);
    std::uint64_t narrow_id = 0, id = 0;
    run(a, [&] {
        narrow_id = static_cast<std::uint64_t>(socket.id_of(narrow.here));
        id = static_cast<std::uint64_t>(socket.id_of(ends.here));
        socket.sk().sndbuf = kSndbuf;
    });
    const std::string before = framed(text(20'000));
    EXPECT_EQ(send(socket, before, kNow, narrow_id), static_cast<long>(before.size()));
    settle();
    EXPECT_EQ(send(socket, "refused", kNow, narrow_id), -KAPI_EAGAIN);
    long result = 0;
    auto waits = world.spawn(a, "waits", [&] { result = socket.send("waited", 6, 0, narrow_id); });
    settle();
    std::string begun = text(64 * kSndbuf);
    EXPECT_EQ(send(socket, begun, KCM_ABI_MSG_MORE, id), static_cast<long>(begun.size()));
    run(b, [&] { close(ends.there); });
    EXPECT_EQ(peer_reads(narrow, before.size()), before);
    settle();
    EXPECT_FALSE(waits->is_done());
    EXPECT_EQ(send(socket, "rest", kNow, GetParam() ? id : 0), -KAPI_ENOTCONN);
    settle();
    EXPECT_TRUE(waits->is_done());
    EXPECT_EQ(result, 6);
    EXPECT_EQ(peer_reads(narrow, 6), "waited");
}

INSTANTIATE_TEST_SUITE_P(Cases, KcmBegunInVainBesideOneThatWaits, testing::Bool());

// A call waits for the end of what TCP has a part of, and may give up: until then the connection is not gone.
TEST_F(KcmBegun, message__goes_on_while_its_connection_is_being_unattached)
{
    Ends narrow = open_narrow(socket);
    std::int64_t narrow_id = 0;
    run(a, [&] { narrow_id = socket.id_of(narrow.here); });
    const std::string before = framed(text(30'000));
    EXPECT_EQ(send(socket, before, kNow), static_cast<long>(before.size()));
    EXPECT_EQ(send(socket, "begun", KCM_ABI_MSG_MORE, static_cast<std::uint64_t>(narrow_id)), 5);
    auto unattaching = world.spawn(a, "unattaching", [&] { EXPECT_EQ(socket.unattach(narrow.here), -KAPI_EINTR); });
    settle();
    EXPECT_EQ(send(socket, " and ended", kNow), 10);
    world.signal(*unattaching);
    EXPECT_EQ(peer_reads(narrow, before.size() + 15), before + "begun and ended");
}

} // namespace
