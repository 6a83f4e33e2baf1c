// SPDX-License-Identifier: GPL-2.0
// Many threads that read parts of messages from several sockets, copies that fail, and sockets that are disabled meanwhile: every
// byte is read once, and those of one message at one socket.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "kcm_test.h"

namespace {

constexpr unsigned kUnit = 8, kMessages = 120, kSockets = 3, kReaders = 7;

class KcmStorm : public KcmTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmStorm() : KcmTest(GetParam()), random(GetParam()) {}

    unsigned below(unsigned n) { return static_cast<unsigned>(random() % n); }
    /** Each eight bytes tell which message they are of, and where in it: number and offset. The first are length and number. */
    static std::string message(std::uint32_t number, unsigned units)
    {
        std::string body;
        auto add = [&](std::uint32_t value) { body.append(reinterpret_cast<char *>(&value), sizeof(value)); };
        add(number);
        for (unsigned i = 1; i < units; i++)
            add(number), add(i);
        return framed(body);
    }
    void read_some(unsigned at)
    {
        char bytes[20 * kUnit];
        KcmSocket &socket = *sockets[at];
        std::size_t size = (1 + below(20)) * kUnit;
        bool fails = below(2), peeks = !below(6);
        socket.trouble = {};
        if (below(2))
            socket.trouble = {.stall_at = 1, .stall_ns = below(3 * sim::kMillisecond)};
        if (fails)
            socket.trouble.fault_at = static_cast<long>(below(static_cast<unsigned>(size)));
        long got = socket.receive(bytes, size, KCM_ABI_MSG_DONTWAIT | (peeks ? KCM_ABI_MSG_PEEK : 0));
        if (!peeks)
            note(at, bytes, got);
    }
    void note(unsigned at, const char *bytes, long size)
    {
        if (size < 0)
            return;
        ASSERT_EQ(size % kUnit, 0);
        for (long i = 0; i < size; i += kUnit) {
            std::uint32_t words[2];
            std::memcpy(words, bytes + i, sizeof(words));
            bool is_first = words[1] >= 1000;
            std::uint32_t number = is_first ? words[1] : words[0], offset = is_first ? 0 : words[1];
            ASSERT_TRUE(seen[number].emplace(offset, at).second) << number << " " << offset;
            ASSERT_EQ(seen[number].begin()->second, at) << number << " is read at two sockets";
        }
    }

    std::mt19937_64 random;
    std::vector<KcmSocket *> sockets;
    std::map<std::uint32_t, std::map<std::uint32_t, unsigned>> seen; // by number and offset: where it was read
};

TEST_P(KcmStorm, each_byte__is_read_once)
{
    for (unsigned i = 0; i < kSockets; i++)
        sockets.push_back(&new_socket());
    Ends ends = open_with_one(*sockets[0], -1, KCM_ABI_SOCK_SEQPACKET);
    run(a, [&] {
        for (unsigned i = 1; i < kSockets; i++)
            ASSERT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
    });
    std::map<std::uint32_t, unsigned> units;
    bool over = false;
    auto writer = world.spawn(b, "writer", [&] {
        for (std::uint32_t i = 1000; i < 1000 + kMessages; i++) {
            units[i] = 1 + below(40);
            std::string bytes = message(i, units[i]);
            sim::program_write(ends.there, bytes.data(), bytes.size());
            world.sleep(below(2) * below(500'000));
        }
        world.sleep(20 * sim::kMillisecond);
        over = true;
    });
    std::vector<sim::TaskRef> tasks;
    for (unsigned i = 0; i < kReaders; i++)
        tasks.push_back(world.spawn(a, "reader", [&] {
            while (!over) {
                read_some(below(kSockets));
                world.sleep(below(300'000));
            }
        }));
    tasks.push_back(world.spawn(a, "controller", [&] {
        while (!over) {
            EXPECT_EQ(sockets[below(kSockets)]->set_option(KCM_ABI_RECV_DISABLE, static_cast<int>(below(2))), 0);
            world.sleep(below(sim::kMillisecond));
        }
    }));
    EXPECT_TRUE(world.run_until([&] {
        return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); });
    }, 20 * sim::kSecond));
    run(a, [&] {
        for (KcmSocket *socket : sockets)
            EXPECT_EQ(socket->set_option(KCM_ABI_RECV_DISABLE, 0), 0);
    });
    settle();
    for (unsigned at = 0; at < kSockets; at++) {
        sockets[at]->trouble = {};
        for (std::string got; (got = receive(*sockets[at])) != kNothing;)
            note(at, got.data(), static_cast<long>(got.size()));
    }
    for (auto [number, count] : units)
        EXPECT_EQ(seen[number].size(), count) << number;
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmStorm, testing::Range<std::uint64_t>(1, 41));

// Two copies fail at once, one of them at a socket that was disabled meanwhile: what it had read goes to a socket whose program
// does not read, so that no later reader resumes a connection that was stopped in between.
class KcmStormAtRest : public KcmStorm {
protected:
    enum { kDisabled, kFails, kNeverReads };

    void read_badly(unsigned at)
    {
        char bytes[20];
        sockets[at]->trouble = {.fault_at = 1, .stall_at = 1, .stall_ns = sim::kMillisecond};
        sockets[at]->receive(bytes, sizeof(bytes), KCM_ABI_MSG_DONTWAIT);
    }
    /** Each as long after the beginning as it says. */
    void run_together(const std::vector<std::pair<std::uint64_t, std::function<void()>>> &calls)
    {
        std::vector<sim::TaskRef> tasks;
        for (const auto &[delay, call] : calls)
            tasks.push_back(world.spawn(a, "call", [this, delay, call] {
                world.sleep(delay);
                call();
            }));
        EXPECT_TRUE(world.run_until([&] {
            return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); });
        }, sim::kSecond));
        settle();
    }
    void expect_none_paused(unsigned round)
    {
        run(a, [&] {
            for (const auto &one : sockets[0]->connections())
                EXPECT_FALSE(one.state & KCM_ABI_CONN_PAUSED) << round;
        });
    }
    void read_all(unsigned at)
    {
        sockets[at]->trouble = {};
        while (receive(*sockets[at]) != kNothing)
            ;
    }
};

TEST_P(KcmStormAtRest, connection__is_not_paused_while_a_socket_has_room)
{
    for (unsigned i = 0; i < kSockets; i++)
        sockets.push_back(&new_socket());
    Ends always = open_with_one(*sockets[0]), comes = connect();
    run(a, [&] {
        for (unsigned i = 1; i < kSockets; i++)
            ASSERT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
        sockets[kNeverReads]->sk().rcvbuf = 1 << 30;
    });
    for (unsigned i = 0; i < kSockets; i++)
        peer_writes(always, framed("filler")), settle();
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned at : {kDisabled, kFails})
            read_all(at);
        for (unsigned i = 0; i < 2; i++)
            peer_writes(always, framed("one")), settle();
        peer_writes(comes, framed("two"));
        settle();
        run_together({{0, [&] { read_badly(kDisabled); }}, {0, [&] { read_badly(kFails); }},
                      {1000, [&] { EXPECT_EQ(sockets[kDisabled]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); }},
                      {sim::kMillisecond, [&] { EXPECT_EQ(sockets[kNeverReads]->attach(comes.here, by_length), 0); }}});
        expect_none_paused(round);
        run(a, [&] {
            EXPECT_EQ(sockets[kDisabled]->set_option(KCM_ABI_RECV_DISABLE, 0), 0);
            EXPECT_EQ(sockets[kNeverReads]->unattach(comes.here), 0);
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmStormAtRest, testing::Range<std::uint64_t>(1, 41));

} // namespace
