// SPDX-License-Identifier: GPL-2.0
// What arrives for a socket that cannot be charged for it, while the peer, or the program, makes the host hold as much as it can.
#include "rds_peer_test.h"

#include <memory>
#include <string>
#include <vector>

#include "net/rds/socket.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr unsigned kPeers = 40;
constexpr kapi_u16 kPort = 1000, kOthersPort = 2000;

class Uncharged : public PeerTest {
protected:
    Uncharged()
    {
        open_socket(kPort);
        socket.sk().charge_limit = 0;
        socket.sk().rcvtimeo_ns = 2 * sim::kSecond;
        at_rest_ = b.uncharged_bytes();
    }
    ~Uncharged() override
    {
        const auto peers = static_cast<long>(streams_.size());
        run(a, [&] { streams_.clear(); });
        run(b, [&] { sockets_.clear(); });
        world.run_for(sim::kSecond);
        EXPECT_LT(held(), long{kMiB} / 4 + peers * 19 * 1024) << "connections, which stay for a while";
    }
    /** A stream from an address of its own. */
    WireStream &peer()
    {
        kapi_addr from = sim::address(("9.0.0." + std::to_string(streams_.size() + 1)).c_str(), 30000); // path 0
        a.initial_net().add(from);
        WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
        EXPECT_TRUE(stream.connect(from, sim::address("10.0.0.2", 16385)));
        return stream;
    }
    /** What the stream does not take at once is sent by flush_for(). */
    static void send_to(WireStream &stream, kapi_u16 port, std::size_t size = kMiB)
    {
        rds::Header header{};
        header.sequence = 1;
        header.length = static_cast<kapi_u32>(size);
        header.sport = kPeersPort;
        header.dport = port;
        stream.queue(&header, sizeof(header));
        std::string bytes(size, 'x');
        stream.queue(bytes.data(), bytes.size());
    }
    void flush_for(std::uint64_t time_ns)
    {
        for (std::uint64_t end_ns = world.now_ns() + time_ns; world.now_ns() < end_ns; world.sleep(10 * sim::kMillisecond))
            for (auto &stream : streams_)
                if (stream->has_more())
                    stream->flush();
    }
    /** Sockets of the user whose memory is used up. */
    void open_others(unsigned count)
    {
        run(b, [&] {
            for (unsigned i = 0; i < count; i++) {
                RdsSocket &other = *sockets_.emplace_back(std::make_unique<RdsSocket>(host));
                ASSERT_EQ(other.open(), 0);
                ASSERT_EQ(other.bind(sim::address("10.0.0.2", static_cast<kapi_u16>(kOthersPort + i))), 0);
                other.sk().charge_limit = 0;
                other.sk().rcvtimeo_ns = 5 * sim::kSecond;
            }
        });
    }
    /** kPeers of them send a message to kPort. */
    void many_send()
    {
        run(a, [&] {
            for (unsigned i = 0; i < kPeers; i++) {
                send_to(peer(), kPort);
                flush_for(100 * sim::kMillisecond);
            }
        }, 60 * sim::kSecond);
    }
    /** All that they sent is received, while they send what is left. */
    void receive_from_many()
    {
        unsigned taken = 0;
        auto reader = world.spawn(b, "reader", [&] {
            std::string buffer(kMiB, '\0');
            while (socket.receive(buffer.data(), buffer.size(), nullptr) == long{kMiB})
                taken++;
        });
        run(a, [&] { flush_for(20 * sim::kSecond); }, 60 * sim::kSecond);
        EXPECT_EQ(taken, kPeers) << "nothing is lost";
        EXPECT_TRUE(reader->is_done());
    }
    long held() { return static_cast<long>(b.uncharged_bytes() - at_rest_); }

    std::size_t at_rest_ = 0;
    std::vector<std::unique_ptr<WireStream>> streams_;
    std::vector<std::unique_ptr<RdsSocket>> sockets_;
};

// A peer can have any number of addresses, and eight paths from each.
TEST_F(Uncharged, messages_of_many_peers__wait_for_the_program)
{
    many_send();
    EXPECT_EQ(queued(), 1u);
    EXPECT_LT(held(), long{4 * kMiB});
    receive_from_many();
}

// What the socket's owner is charged for, too: a socket has a limit, which the last message may exceed.
TEST_F(Uncharged, full_socket__holds_its_limit_and_one_message_whatever_the_number_of_peers)
{
    socket.sk().charge_limit = std::size_t{1} << 40;
    socket.sk().rcvbuf = 4096; // then the limit is two of the largest messages and a quarter of one
    many_send();
    EXPECT_LE(queued(), 4u);
    EXPECT_GE(counted(rds::Stat::recv_stalled), kPeers - 4) << "each path that is not read";
    receive_from_many();
}

// All begin while it has room. How many may be incomplete has a limit in the namespace.
TEST_F(Uncharged, full_socket__takes_those_that_had_begun_up_to_their_limit)
{
    socket.sk().charge_limit = std::size_t{1} << 40;
    socket.sk().rcvbuf = 4096;
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++) {
            WireStream &stream = peer();
            rds::Header header{};
            header.sequence = 1;
            header.length = kMiB;
            header.sport = kPeersPort;
            header.dport = kPort;
            stream.queue(&header, sizeof(header));
            std::string bytes(10000, 'x');
            stream.queue(bytes.data(), bytes.size());
            flush_for(10 * sim::kMillisecond);
        }
        for (auto &stream : streams_) {
            std::string bytes(kMiB - 10000, 'x');
            stream->queue(bytes.data(), bytes.size());
        }
        flush_for(5 * sim::kSecond);
    }, 60 * sim::kSecond);
    EXPECT_LE(queued(), 20u);
    receive_from_many();
}

// The peer has an address for each of them.
TEST_F(Uncharged, messages_for_many_sockets_of_a_user__have_a_limit)
{
    constexpr unsigned kSockets = 60;
    open_others(kSockets);
    run(a, [&] {
        for (unsigned i = 0; i < kSockets; i++) {
            send_to(peer(), static_cast<kapi_u16>(kOthersPort + i));
            flush_for(100 * sim::kMillisecond);
        }
    }, 60 * sim::kSecond);
    EXPECT_GT(queued(), 10u);
    EXPECT_LT(held(), long{34 * kMiB}) << "a 256th of the memory, and one message";
    unsigned taken = 0;
    for (unsigned i = 0; i < kSockets; i++)
        world.spawn(b, "reader", [&, i] {
            std::string buffer(kMiB, '\0');
            taken += sockets_[i]->receive(buffer.data(), buffer.size(), nullptr) == long{kMiB};
        });
    run(a, [&] { flush_for(10 * sim::kSecond); }, 60 * sim::kSecond);
    EXPECT_EQ(taken, kSockets) << "nothing is lost";
}

class UnchargedLate : public Uncharged, public ::testing::WithParamInterface<unsigned> {};

// Each could be charged when its header came, and not when it had arrived, because it takes more memory than its bytes.
TEST_P(UnchargedLate, messages_that_seem_to_find_memory__have_a_limit_too)
{
    const unsigned users = GetParam(), kSockets = users == 1 ? 70 : 200;
    open_others(kSockets);
    for (unsigned i = 0; i < kSockets; i++) {
        sockets_[i]->sk().charge_limit = kMiB + 1024;
        sockets_[i]->sk().user += i % users;
    }
    run(a, [&] {
        for (unsigned i = 0; i < kSockets; i++) {
            send_to(peer(), static_cast<kapi_u16>(kOthersPort + i));
            flush_for(100 * sim::kMillisecond);
        }
    }, 60 * sim::kSecond);
    EXPECT_GT(queued(), 30u);
    EXPECT_LT(held(), static_cast<long>((users == 1 ? 68 : 140) * kMiB)) << "all users together: a 64th of the memory";
    unsigned taken = 0;
    for (unsigned i = 0; i < kSockets; i++)
        world.spawn(b, "reader", [&, i] {
            std::string buffer(kMiB, '\0');
            taken += sockets_[i]->receive(buffer.data(), buffer.size(), nullptr) == long{kMiB};
        });
    run(a, [&] { flush_for(10 * sim::kSecond); }, 60 * sim::kSecond);
    EXPECT_EQ(taken, kSockets) << "nothing is lost";
}

INSTANTIATE_TEST_SUITE_P(Users, UnchargedLate, ::testing::Values(1u, 20u));

class UnchargedOfOthers : public Uncharged, public ::testing::WithParamInterface<bool> {};

// Other users have more than all may: not a reason for a message to wait that can be charged.
TEST_P(UnchargedOfOthers, messages_that_can_be_charged__arrive)
{
    const bool is_lost = GetParam();
    constexpr unsigned kSize = 100;
    socket.sk().charge_limit = kMiB;
    socket.sk().rcvtimeo_ns = sim::kSecond;
    rds::PeersAccount *others = nullptr;
    kapi_u64 held = 0;
    run(b, [&] {
        auto &share = rds::Module::get().peers_share;
        for (unsigned user = 0; !others || others == &share.of_socket(&socket.sk()); user++)
            others = &share.account(rds::PeersShare::uncharged, false, user);
        held = 2 * others->most() * (is_lost ? 4 : 2);
        others->add(held);
    });
    WireStream *stream = nullptr;
    run(a, [&] {
        stream = &peer();
        send_to(*stream, kPort, kSize);
        flush_for(10 * sim::kMillisecond);
        if (is_lost)
            stream->close(false);
    });
    EXPECT_EQ(victim_receives().size(), kSize);
    run(b, [&] { others->give(held); });
}

INSTANTIATE_TEST_SUITE_P(Lost, UnchargedOfOthers, ::testing::Bool());

// The socket that their paths wait for takes more of them, because it is full of what is charged. Behind that comes what is not.
TEST_F(Uncharged, messages_of_lost_streams__have_a_limit)
{
    constexpr unsigned kPeers = 20;
    constexpr std::size_t kSize = 400 << 10; // more than any socket has for itself
    open_others(1);
    rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_rcvbuf = kMiB;
    socket.sk().charge_limit = 64 * kMiB;
    rds::PeersAccount *account;
    kapi_u64 used_up = 0;
    {
        sim::NodeScope scope(b);
        account = &rds::Module::get().peers_share.of_socket(&socket.sk());
        while (account->take(kSize))
            used_up += kSize;
    }
    WireStream stream(a);
    run(a, [&] { shake_hands(stream, 0), fill(stream, kPort); }, 10 * sim::kSecond);
    std::uint64_t before = queued();
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++) {
            WireStream &lost = peer();
            send_to(lost, kPort, 100);
            send_to(lost, kOthersPort, kSize);
            flush_for(100 * sim::kMillisecond);
            EXPECT_FALSE(lost.has_more());
            lost.close(false);
        }
    }, 60 * sim::kSecond);
    world.run_for(70 * sim::kSecond);
    EXPECT_EQ(queued() - before, kPeers) << "only those that are charged";
    account->give(used_up);
    unsigned taken = 0;
    run(b, [&] {
        std::string buffer(kMiB, '\0');
        while (sockets_[0]->receive(buffer.data(), buffer.size(), nullptr) == long{kSize})
            taken++;
    }, 100 * sim::kSecond);
    EXPECT_EQ(taken, kPeers) << "nothing is lost";
    run(a, [&] { stream.close(true); });
}

// Over loopback each socket gets one, however much there is: it is charged to its sender, and other users have their shares.
TEST_F(Uncharged, messages_over_loopback__take_no_share)
{
    constexpr unsigned kSockets = 80, kOtherUser = 77;
    open_others(kSockets);
    run(b, [&] {
        const std::string text(kMiB, 'x');
        RdsSocket sender(host);
        ASSERT_EQ(sender.open(), 0);
        ASSERT_EQ(sender.bind(sim::address("10.0.0.2", static_cast<kapi_u16>(kPort + 1))), 0);
        sender.sk().sndbuf = 4 << 20;
        for (unsigned i = 0; i < kSockets; i++) {
            kapi_addr to = sim::address("10.0.0.2", static_cast<kapi_u16>(kOthersPort + i));
            EXPECT_EQ(sender.send(text.data(), text.size(), to, RDS_ABI_MSG_DONTWAIT), long{kMiB});
        }
        auto &others = rds::Module::get().peers_share.account(rds::PeersShare::uncharged, false, kOtherUser);
        EXPECT_EQ(others.share(8 * kMiB), 0);
        std::string buffer(kMiB, '\0');
        for (auto &other : sockets_)
            EXPECT_EQ(other->receive(buffer.data(), buffer.size(), nullptr), long{kMiB});
        sender.close();
    });
}

class UnchargedCopies : public Uncharged, public ::testing::WithParamInterface<unsigned> {};

// A program has any number of threads, and each may stand still in the middle of a copy, or of one by MSG_PEEK.
TEST_P(UnchargedCopies, messages_that_are_being_copied__count)
{
    constexpr unsigned kRounds = 7; // of which a stream here queues all
    const unsigned flags = GetParam();
    unsigned taken = 0;
    WireStream *large = nullptr, *small = nullptr;
    std::vector<sim::TaskRef> stalled;
    run(a, [&] { large = &peer(), small = &peer(); });
    for (unsigned i = 0; i < kRounds; i++) {
        run(a, [&] {
            send_to(*large, kPort);
            flush_for(100 * sim::kMillisecond);
        });
        stalled.push_back(world.spawn(b, "stalled", [&] {
            std::string buffer(kMiB, '\0');
            socket.trouble = {.stall_at = 10, .stall_ns = 100 * sim::kSecond};
            bool got = socket.receive(buffer.data(), buffer.size(), nullptr, flags | RDS_ABI_MSG_DONTWAIT) > 0;
            taken += got && !flags;
        }));
        run(a, [&] {
            send_to(*small, kPort, 100);
            flush_for(100 * sim::kMillisecond);
        });
        run(b, [&] {
            std::string buffer(kMiB, '\0');
            while (socket.receive(buffer.data(), buffer.size(), nullptr, RDS_ABI_MSG_DONTWAIT) > 0)
                taken++;
        });
    }
    EXPECT_LT(held(), long{3 * kMiB});
    auto reader = world.spawn(b, "reader", [&] {
        std::string buffer(kMiB, '\0');
        socket.sk().rcvtimeo_ns = 110 * sim::kSecond;
        while (socket.receive(buffer.data(), buffer.size(), nullptr) > 0)
            taken++;
    });
    run(a, [&] { flush_for(150 * sim::kSecond); }, 200 * sim::kSecond);
    EXPECT_EQ(taken, 2 * kRounds) << "nothing is lost";
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 200 * sim::kSecond));
    for (auto &task : stalled)
        EXPECT_TRUE(task->is_done());
}

INSTANTIATE_TEST_SUITE_P(Flags, UnchargedCopies, ::testing::Values(0u, unsigned{RDS_ABI_MSG_PEEK}));

// The path is read as soon as a reader has taken a message, however long it takes to copy it.
TEST_F(Uncharged, reader_that_stalls__has_made_room_for_its_path)
{
    open_others(1);
    socket.sk().charge_limit = 64 * kMiB;
    WireStream stream(a);
    sim::TaskRef reader;
    run(a, [&] {
        shake_hands(stream, 0);
        fill(stream, kPort);
        EXPECT_TRUE(stream.message(1001, kPeersPort, kOthersPort, "others"));
    }, 10 * sim::kSecond);
    std::uint64_t before = queued();
    reader = world.spawn(b, "stalled", [&] {
        std::string buffer(kMiB, '\0');
        socket.trouble = {.stall_at = 10, .stall_ns = 10 * sim::kSecond};
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), 10000);
    });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(queued(), before + 1);
    EXPECT_FALSE(reader->is_done());
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 11 * sim::kSecond));
    run(a, [&] { stream.close(true); });
}

} // namespace
