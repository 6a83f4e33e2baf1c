// SPDX-License-Identifier: GPL-2.0
// Which client of kcm-server is cut off when too many answers are unread.
extern "C" {
#include "kcm-backlog.h"
}

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace {

/** The clients of a worker: what they have received, and those whose connection has ended. */
struct Clients {
    static backlog_sent send(void *context, uint64_t connection, const void *bytes, size_t size)
    {
        auto *clients = static_cast<Clients *>(context);

        if (clients->gone.contains(connection))
            return BACKLOG_GONE;
        if (!bytes || clients->stopped.contains(connection))
            return BACKLOG_NO_ROOM;
        clients->received[connection] += std::string(static_cast<const char *>(bytes), size)[0];
        return BACKLOG_SENT;
    }
    uint64_t keep(uint64_t connection, char name, size_t size)
    {
        const std::string answer(size, name);

        cut = 0;
        return backlog_keep(&answers, connection, answer.data(), size, &cut);
    }
    uint64_t flush() { return backlog_flush(&answers, send, this); }

    backlog answers{nullptr, 0, 1000000};
    uint64_t cut = 0;
    std::map<uint64_t, std::string> received;
    std::set<uint64_t> gone, stopped;
};

TEST(Backlog, KeepsTheAnswersOfEachClientInOrder)
{
    Clients clients;

    for (char name : {'a', 'b', 'c'}) {
        EXPECT_EQ(clients.keep(1, name, 10), 0U);
        EXPECT_EQ(clients.keep(2, name, 20), 0U);
    }
    clients.stopped = {2};
    EXPECT_EQ(clients.flush(), 0U);
    EXPECT_FALSE(backlog_has(&clients.answers, 1));
    EXPECT_TRUE(backlog_has(&clients.answers, 2));
    clients.gone = {2};
    EXPECT_EQ(clients.flush(), 3U);
    EXPECT_EQ(clients.received[1], "abc");
    EXPECT_EQ(clients.received[2], "");
    EXPECT_EQ(clients.answers.clients, nullptr);
    EXPECT_EQ(clients.answers.bytes, 0U);
}

TEST(Backlog, CutsOffTheClientWithTheMostWhenAllHaveTooMuch)
{
    Clients clients;

    clients.stopped = {1, 2, 3};
    EXPECT_EQ(clients.keep(3, 'x', 200000), 0U);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(clients.keep(2, 'y', 100000), 0U);
    EXPECT_EQ(clients.keep(1, 'a', 200000), 0U);
    // Not the client whose answer was too much, nor the one with the largest answer.
    EXPECT_EQ(clients.keep(1, 'b', 150000), 5U);
    EXPECT_EQ(clients.cut, 2U);
    EXPECT_LT(clients.answers.bytes, 600000U);
    // Later answers to it would follow a hole, even if it had room.
    clients.stopped = {};
    EXPECT_TRUE(backlog_has(&clients.answers, 2));
    EXPECT_EQ(clients.keep(2, 'z', 10), 1U);
    EXPECT_EQ(clients.cut, 2U);
    EXPECT_EQ(clients.flush(), 0U);
    EXPECT_TRUE(backlog_has(&clients.answers, 2));
    EXPECT_EQ(clients.keep(2, 'z', 10), 1U);
    clients.gone = {2};
    EXPECT_EQ(clients.flush(), 0U);
    EXPECT_FALSE(backlog_has(&clients.answers, 2));
    EXPECT_EQ(clients.received, (std::map<uint64_t, std::string>{{1, "ab"}, {3, "x"}}));
    EXPECT_EQ(clients.answers.bytes, 0U);
}

TEST(Backlog, CutsOffAClientThatHasTooMuch)
{
    Clients clients;
    uint64_t kept = 0;

    clients.answers.limit = BACKLOG_OF_ALL;
    clients.stopped = {1, 2};
    EXPECT_EQ(clients.keep(2, 'x', 100), 0U);
    while (!clients.keep(1, 'a', 1000000))
        kept++;
    EXPECT_EQ(kept, 16U);
    EXPECT_EQ(clients.cut, 1U);
    // A smaller one that would fit is none that may be sent.
    EXPECT_EQ(clients.keep(1, 'b', 10), 1U);
    clients.stopped = {};
    EXPECT_EQ(clients.flush(), 0U);
    EXPECT_EQ(clients.received, (std::map<uint64_t, std::string>{{2, "x"}}));
    EXPECT_EQ(backlog_drop(&clients.answers), 0U);
}

// What an answer needs besides its bytes counts, too.
TEST(Backlog, BoundsTheMemoryOfShortAnswers)
{
    Clients clients;
    uint64_t kept = 0;

    clients.stopped = {1};
    while (!clients.keep(1, 'a', 16))
        kept++;
    EXPECT_LE(kept, 1000000U / 32);
    EXPECT_EQ(backlog_drop(&clients.answers), 0U);
}

} // namespace
