// SPDX-License-Identifier: GPL-2.0
// Many threads that send on several sockets, with and without batches and addresses, while connections are unattached and
// attached again: each message arrives whole and once, and none waits for the end of a batch, which may never come.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "kcm_test.h"

namespace {

constexpr unsigned kSockets = 3, kWriters = 5, kRounds = 20;

class KcmSendStorm : public KcmTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmSendStorm() : KcmTest(GetParam()), random(GetParam()) {}

    unsigned below(unsigned n) { return static_cast<unsigned>(random() % n); }
    /** Sends the next message on this socket, and notes whether it has to arrive. */
    void send_one(unsigned at)
    {
        std::uint32_t number = next++;
        std::string payload(sizeof(number) + below(below(4) ? 100 : 9000), 'x');
        std::memcpy(payload.data(), &number, sizeof(number));
        std::string bytes = framed(payload);
        std::uint64_t to = below(3) ? 0 : last_id - below(2);
        unsigned flags = below(3) ? 0 : KCM_ABI_MSG_BATCH;
        long sent = sockets[at]->send(bytes.data(), bytes.size(), flags, to);
        if (sent < 0)
            EXPECT_TRUE(sent == -KAPI_ENOTCONN) << sent;
        else if (!to)
            owed[at].insert(number);
    }
    void end_batch(KcmSocket &socket)
    {
        long sent = send(socket, ""); // an error that was not reported yet ends it, too
        EXPECT_TRUE(sent == 0 || sent == -KAPI_ENOTCONN) << sent;
    }
    /** All writers send some messages, and maybe a connection is another one. */
    void work(const std::vector<Ends> &ends)
    {
        std::vector<sim::TaskRef> tasks;
        unsigned most = below(2) ? 1 : 20;
        for (unsigned i = 0; i < kWriters; i++)
            tasks.push_back(world.spawn(a, "writer", [&, count = 1 + below(most)] {
                for (unsigned message = 0; message < count; message++) {
                    send_one(below(kSockets));
                    world.sleep(below(2) * below(300'000));
                }
            }));
        tasks.push_back(world.spawn(a, "controller", [&, times = below(2) * below(3)] {
            for (unsigned i = 0; i < times; i++) {
                const Ends &one = ends[below(static_cast<unsigned>(ends.size()))];
                world.sleep(below(2 * sim::kMillisecond));
                EXPECT_EQ(sockets[0]->unattach(one.here), 0);
                world.sleep(below(2) * below(sim::kMillisecond));
                EXPECT_EQ(sockets[0]->attach(one.here, by_length), 0);
                last_id++;
            }
        }));
        EXPECT_TRUE(world.run_until([&] {
            return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); });
        }, 100 * sim::kSecond));
    }
    void read_all(int fd)
    {
        std::string stream;
        std::vector<char> bytes(5000);
        for (long got; (got = sim::program_read(fd, bytes.data(), 1 + below(5000))) > 0;) {
            stream.append(bytes.data(), static_cast<std::size_t>(got));
            for (std::uint32_t size; stream.size() >= 8 && stream.size() >= 4 + (size = length_of(stream));) {
                std::uint32_t number;
                std::memcpy(&number, stream.data() + 4, sizeof(number));
                ASSERT_EQ(stream.substr(8, size - 4), std::string(size - 4, 'x')) << number;
                ASSERT_TRUE(arrived.insert(number).second) << number << " arrives twice";
                stream.erase(0, 4 + size);
            }
            world.sleep(below(2) * below(sim::kMillisecond));
        }
        EXPECT_EQ(stream, "");
    }
    static std::uint32_t length_of(const std::string &stream)
    {
        std::uint32_t size = 0;
        for (unsigned i = 0; i < 4; i++)
            size = size << 8 | static_cast<unsigned char>(stream[i]);
        return size;
    }
    void expect_all(unsigned at)
    {
        for (std::uint32_t number : owed[at])
            EXPECT_TRUE(arrived.contains(number)) << number << " of socket " << at;
    }

    std::mt19937_64 random;
    std::vector<KcmSocket *> sockets;
    std::uint32_t next = 1;
    std::uint64_t last_id = 0; // of a connection
    std::set<std::uint32_t> owed[kSockets], arrived;
};

TEST_P(KcmSendStorm, each_message__arrives_once_whatever_others_do)
{
    std::vector<Ends> ends;
    for (unsigned i = 0; i < kSockets; i++)
        sockets.push_back(&new_socket());
    for (last_id = 1 + below(2); ends.size() < last_id;)
        attach(*sockets[0], ends.emplace_back(below(2) ? connect_narrow() : connect()));
    run(a, [&] {
        for (unsigned i = 1; i < kSockets; i++)
            ASSERT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
    });
    std::vector<sim::TaskRef> peers;
    for (const Ends &each : ends)
        peers.push_back(world.spawn(b, "peer", [&, fd = each.there] { read_all(fd); }));
    for (unsigned round = 0; round < kRounds; round++) {
        work(ends);
        for (unsigned at = 0; at < kSockets; at++)
            if (below(2))
                end_batch(*sockets[at]);
        world.run_for(sim::kSecond);
        for (unsigned at = 0; at < kSockets; at++)
            expect_all(at);
    }
    run(a, [&] {
        for (const Ends &each : ends) {
            EXPECT_EQ(sockets[0]->unattach(each.here), 0);
            close(each.here);
        }
    });
    for (const sim::TaskRef &peer : peers)
        EXPECT_TRUE(world.run_until([&] { return peer->is_done(); }, 10 * sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmSendStorm, testing::Range<std::uint64_t>(1, 41));

} // namespace
