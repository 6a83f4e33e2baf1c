// SPDX-License-Identifier: GPL-2.0
// net/rds/uncharged: what a socket takes beyond the limit of its queue, and beyond what its user is charged for, to the byte.
#include "rds_peer_test.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/rds/socket.h"

namespace {

constexpr kapi_u16 kPort = 1000;

class Overdraft : public PeerTest {
protected:
    static constexpr std::size_t kLimit = 2 * rds::max_message + 256 * 1024; // of the queue, when SO_RCVBUF is small
    static constexpr std::size_t kPart = kLimit / 4;
    using Share = rds::PeersShare;

    Overdraft()
    {
        open_socket(kPort);
        socket.sk().rcvbuf = 4096;
    }
    ~Overdraft() override
    {
        run(a, [&] { stream.close(true); });
        for (auto &[account, bytes] : added_)
            give(*account, bytes);
    }
    bool takes(std::size_t bytes, std::size_t beyond = 0, bool posted = false)
    {
        sim::NodeScope scope(b);
        return core().takes_overdraft(bytes, beyond, posted);
    }
    /** How many parts the socket takes of a stream, with so many bytes beyond. */
    unsigned parts_taken(std::size_t beyond)
    {
        unsigned count = 0;
        while (count < 100 && takes(kPart, beyond))
            count++;
        return count;
    }
    bool has_memory_for(std::size_t bytes)
    {
        sim::NodeScope scope(b);
        return core().has_memory_for(bytes);
    }
    void fill_queue()
    {
        run(a, [&] { shake_hands(stream, 0), fill(stream, kPort); }, 10 * sim::kSecond);
    }
    /** The queue gets one message, which cannot be charged. */
    void fill_memory()
    {
        socket.sk().charge_limit = 0;
        run(a, [&] {
            shake_hands(stream, 0);
            EXPECT_TRUE(stream.message(1, kPeersPort, kPort, std::string(rds::max_message, 'x')));
            world.sleep(100 * sim::kMillisecond);
        });
        EXPECT_EQ(queued(), 1u);
    }
    /** The user has so much more of it that this is so. */
    void use_up(Share::Kind kind, const std::function<bool(const rds::PeersAccount &)> &is_so)
    {
        sim::NodeScope scope(b);
        auto &account = rds::Module::get().peers_share.of_socket(&socket.sk(), kind);
        kapi_u64 bytes = 0;
        for (; !is_so(account); bytes += kPart)
            account.add(kPart);
        added_.emplace_back(&account, bytes);
    }
    void use_up(Share::Kind kind, int share)
    {
        use_up(kind, [=](const rds::PeersAccount &account) { return account.share(1) == share; });
    }
    /** What can be charged finds no memory either. */
    void use_up_twice()
    {
        use_up(Share::uncharged, [](const rds::PeersAccount &account) { return account.has_all(); });
    }
    void give(rds::PeersAccount &account, kapi_u64 bytes)
    {
        sim::NodeScope scope(b);
        account.give(bytes);
    }
    rds::Socket &core() { return *reinterpret_cast<rds::Socket *>(socket.core()); }

    WireStream stream{a};
    std::vector<std::pair<rds::PeersAccount *, kapi_u64>> added_;
};

TEST_F(Overdraft, of_a_queue_with_room__is_not_counted)
{
    for (unsigned i = 0; i < 8; i++)
        EXPECT_TRUE(takes(kLimit));
    fill_queue();
    EXPECT_EQ(parts_taken(0), 4u);
}

TEST_F(Overdraft, of_a_full_queue__is_the_limit_once_more_and_what_is_let_through_of_a_stream)
{
    fill_queue();
    EXPECT_EQ(parts_taken(0), 4u);
    EXPECT_EQ(parts_taken(0), 0u) << "the one before, that was not taken, counts, too";
    EXPECT_EQ(parts_taken(4 * kPart), 2u) << "6 parts are counted";
    EXPECT_FALSE(takes(0, 0, true)) << "however it comes";
}

TEST_F(Overdraft, of_a_socket_that_is_closed__is_taken_and_dropped)
{
    fill_queue();
    EXPECT_EQ(parts_taken(0), 4u);
    run(b, [&] {
        auto held = rds::Ref<rds::Socket>::share(core());
        socket.close();
        EXPECT_TRUE(held->takes_overdraft(1, 0, false));
    });
}

TEST_F(Overdraft, of_memory_that_is_not_charged__is_the_users_share_and_more_through_a_ring)
{
    fill_memory();
    EXPECT_TRUE(takes(1));
    use_up(Share::uncharged, 1);
    EXPECT_TRUE(takes(1)) << "there is room, but not for much";
    use_up(Share::uncharged, -KAPI_ENOMEM);
    EXPECT_FALSE(takes(1));
    EXPECT_TRUE(takes(1, 0, true));
    use_up(Share::overdrawn, 1);
    EXPECT_TRUE(takes(1, 0, true));
    use_up(Share::overdrawn, -KAPI_ENOMEM);
    EXPECT_FALSE(takes(1, 0, true));
}

// What can be charged is taken until the user has twice the share of what is not.
TEST_F(Overdraft, memory_that_the_user_lacks__is_charged_up_to_twice_the_share)
{
    const std::size_t charged = socket.sk().charged;
    EXPECT_TRUE(has_memory_for(rds::max_message));
    use_up(Share::uncharged, 1);
    socket.sk().charge_limit = 0;
    EXPECT_TRUE(has_memory_for(rds::max_message)) << "there is room, but not for much";
    use_up(Share::uncharged, -KAPI_ENOMEM);
    EXPECT_FALSE(has_memory_for(rds::max_message));
    socket.sk().charge_limit = ~std::size_t{0};
    EXPECT_TRUE(has_memory_for(rds::max_message));
    EXPECT_EQ(socket.sk().charged, charged) << "it was only tried";
    use_up_twice();
    EXPECT_FALSE(has_memory_for(1));
}

// A tenth of a millisecond apart, however many they are: alone each would try a hundred times in a second.
TEST_F(Overdraft, paths_that_wait_for_memory__try_again_in_turn)
{
    constexpr unsigned kPeers = 250;
    use_up_twice();
    std::vector<std::unique_ptr<WireStream>> streams;
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++) {
            kapi_addr from = sim::address(("9.0.0." + std::to_string(i + 1)).c_str(), 30000);
            a.initial_net().add(from);
            WireStream &peer = *streams.emplace_back(std::make_unique<WireStream>(a));
            EXPECT_TRUE(peer.connect(from, sim::address("10.0.0.2", 16385)));
            EXPECT_TRUE(peer.message(1, kPeersPort, kPort, "x"));
        }
    });
    world.run_for(sim::kSecond);
    std::uint64_t before = b.works_run;
    world.run_for(sim::kSecond);
    std::uint64_t tried = b.works_run - before;
    EXPECT_TRUE(tried > 19'000 && tried < 22'000) << tried << ", with two works for each";
    EXPECT_EQ(queued(), 0u);
    run(a, [&] { streams.clear(); });
}

} // namespace
