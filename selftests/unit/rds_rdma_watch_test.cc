// SPDX-License-Identifier: GPL-2.0
// Peers whose device answers, and who stand still or are late for another reason: how long they are waited for, and what makes
// them go on.
#include <kapi/sim/rdma.h>

#include "net/rds/connection.h"
#include "net/rds/net.h"
#include "net/rds/rdma/watch.h"
#include "rds_rdma_peer.h"

namespace {

constexpr std::uint64_t kMs = sim::kMillisecond;
const std::string kForeign = says("10.0.0.2", "10.0.0.1", 3, 1);

class RdsRdmaWatch : public RdsRdmaPeer {
protected:
    void connect_as(const std::string &data)
    {
        ask(data);
        ASSERT_TRUE(wait_for([&] { return peer.established; }));
        ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 2; })) << "the map";
    }
    void leave()
    {
        run(b, [&] { peer.drop(); });
        peer = Peer();
        fed = 0;
    }
    /** Receives are posted for what was received. */
    void feed()
    {
        run(b, [&] {
            for (; fed < peer.messages.size(); fed++)
                ASSERT_EQ(peer.post_recv(fed % Peer::kSlots), 0);
        });
    }
    void run_fed(std::uint64_t seconds)
    {
        for (std::uint64_t i = 0; i < seconds * 10; i++) {
            world.run_for(100 * kMs);
            feed();
        }
    }
    /** It is not silent, so it is not asked for anything, but acknowledges nothing. */
    void talk(std::uint64_t seconds)
    {
        for (std::uint64_t i = 0; i < seconds * 4 && !peer.end; i++) {
            acknowledge(0);
            world.run_for(230 * kMs);
        }
    }
    std::vector<Header> pings() const
    {
        std::vector<Header> found;
        for (const auto &bytes : peer.messages)
            if (Header header = header_of(bytes); *rds::classify(header) == rds::MessageKind::probe)
                found.push_back(header);
        return found;
    }
    rds::Path::Snapshot path()
    {
        rds::Path *found = nullptr;
        rds::Path::Snapshot now{};
        run(a, [&] {
            auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
            net.connections.for_each([&](rds::Connection &one) { found = &one.path(0); });
            now = found->snapshot();
        });
        return now;
    }
    std::size_t fed = 0;
};

// The kernel's own is to be sent a packet again once, which is for both sides of a connection that it asks for.
TEST_P(RdsRdmaWatch, two_seconds__however_often_the_peer_would_have_us_try)
{
    for (unsigned tries : {1u, 2u, 3u, 6u}) {
        SCOPED_TRACE(tries);
        retry = static_cast<kapi_u8>(tries);
        connect_as(kForeign);
        for (const auto &[number, qp] : sim::fabric().qps) {
            if (qp->node != &a)
                continue;
            EXPECT_EQ(qp->retry, tries);
            EXPECT_GE((tries + 1) * qp->ack_timeout_ns, 1800 * kMs);
            EXPECT_LT((tries + 1) * qp->ack_timeout_ns, 3500 * kMs);
        }
        leave();
    }
}

TEST_P(RdsRdmaWatch, peer_that_stands_still_for_a_second__keeps_the_connection_that_it_asked_for)
{
    retry = 1;
    connect_as(kForeign);
    world.run_for(100 * kMs); // the map is acknowledged
    cut(true);
    run(a, [&] { program.send("hello"); });
    world.run_for(1080 * kMs);
    cut(false);
    EXPECT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    EXPECT_FALSE(peer.end);
}

TEST_P(RdsRdmaWatch, peer_that_forgot_the_rest_of_a_message__sends_it_when_it_is_asked)
{
    connect_as(kForeign);
    world.run_for(3 * sim::kSecond); // nothing is looked at any more
    const std::string bytes = contents(5000, 3);
    post(sealed(data_header(bytes.size()), bytes.substr(0, 4096)));
    sim::forget_request(*dev_b);
    post(sealed(data_header(bytes.size()), bytes.substr(4096)));
    ASSERT_TRUE(wait_for([&] { return !pings().empty(); }));
    Header ping = pings()[0], bare{};
    EXPECT_EQ(+ping.flags, rds::flag_ack_required);
    EXPECT_EQ(std::memcmp(ping.extensions, bare.extensions, sizeof(bare.extensions)), 0) << "the kernel's own would believe it";
    acknowledge(ping.sequence);
    EXPECT_TRUE(received() == bytes);
    run_fed(20);
    EXPECT_EQ(pings().size(), 1u);
    EXPECT_EQ(path().queued, 0u);
    EXPECT_FALSE(peer.end);
}

TEST_P(RdsRdmaWatch, peer_that_forgot_to_acknowledge__does_so_when_it_is_asked)
{
    connect_as(kForeign);
    run(a, [&] { program.send("hello"); });
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    sim::forget_request(*dev_b);
    acknowledge(1);
    EXPECT_EQ(path().queued, 1u) << "it is not forgotten";
    ASSERT_TRUE(wait_for([&] { return !pings().empty(); }));
    acknowledge(pings()[0].sequence);
    EXPECT_EQ(path().queued, 0u);
    run_fed(20);
    EXPECT_EQ(pings().size(), 1u);
}

// Its connection stays, as that of a peer from whom nothing else is wanted.
TEST_P(RdsRdmaWatch, peer_that_acknowledges_nothing__is_noted_once_and_asked_a_few_times)
{
    connect_as(kForeign);
    run(a, [&] { program.send("hello"); });
    run_fed(9);
    EXPECT_NE(path().reason, KAPI_RDS_UNANSWERED);
    run_fed(60);
    EXPECT_EQ(pings().size(), 3u);
    EXPECT_EQ(path().reason, KAPI_RDS_UNANSWERED);
    EXPECT_EQ(std::count(a.log.begin(), a.log.end(), "rds: 10.0.0.2 acknowledges nothing"), 1);
    EXPECT_FALSE(peer.end);
    acknowledge(pings().back().sequence);
    run(a, [&] { program.send("more"); });
    run_fed(3);
    EXPECT_NE(path().reason, KAPI_RDS_UNANSWERED);
    EXPECT_EQ(path().state, rds::PathState::up);
}

TEST_P(RdsRdmaWatch, peer_that_never_ends_a_message__is_asked_a_few_times)
{
    connect_as(kForeign);
    post(sealed(data_header(5000), contents(4096, 3)));
    run_fed(60);
    EXPECT_EQ(pings().size(), 3u);
    EXPECT_FALSE(peer.end);
}

// On Soft-RoCE the time-out of a packet that is alone on its way runs on while the peer has no receive for it.
TEST_P(RdsRdmaWatch, peer_without_a_receive__keeps_its_connection_however_few_messages_wait)
{
    sim::count_not_ready(*dev_a);
    std::string hawser = kForeign;
    hawser.replace(13, 3, "hw\3");
    for (const std::string &data : {kForeign, hawser}) {
        SCOPED_TRACE(&data == &hawser);
        retry = 1;
        connect_as(data);
        const auto sent = Peer::kSlots + 1 - peer.messages.size();
        run(a, [&] {
            for (std::size_t i = 0; i < sent; i++)
                program.send("hello");
        });
        talk(20);
        EXPECT_EQ(peer.messages.size(), Peer::kSlots);
        EXPECT_FALSE(peer.end) << "the last message waits, alone at first";
        run(b, [&] { ASSERT_EQ(peer.post_recv(0), 0); });
        talk(20);
        EXPECT_EQ(peer.messages.size(), Peer::kSlots + 1);
        EXPECT_FALSE(peer.end) << "an acknowledgement waits, alone at first";
        leave();
        run(a, [&] { program.socket.close(), program.open(); });
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaWatch, ::testing::Range(1, 7));

// ---- the rules alone

using rds_rdma::Watch;

/** The outcomes of so many ticks. */
std::string outcomes(Watch &watch, const Watch::Seen &seen, unsigned ticks)
{
    std::string all;
    for (unsigned i = 0; i < ticks; i++)
        switch (watch.tick(seen)) {
        case RDS_TICK_ASKS:
            all += 'a';
            break;
        case RDS_TICK_IGNORED:
            all += 'i';
            break;
        default:
            all += '.';
        }
    return all;
}

TEST(RdsRdmaWatchRules, peer_that_says_nothing__is_asked_ever_more_rarely)
{
    Watch watch;
    EXPECT_EQ(outcomes(watch, {false, false, false, 1, 0}, 16), ".a.a...a.iiiiiii");
    EXPECT_TRUE(watch.has_given_up());
    EXPECT_EQ(outcomes(watch, {true, false, false, 1, 1}, 1), ".");
    EXPECT_FALSE(watch.has_given_up());
}

TEST(RdsRdmaWatchRules, peer_that_sends_and_acknowledges_nothing__is_not_asked)
{
    Watch watch;
    EXPECT_EQ(outcomes(watch, {true, false, false, 1, 0}, 12), ".........iii");
}

TEST(RdsRdmaWatchRules, incomplete_message__is_asked_for)
{
    Watch watch;
    EXPECT_EQ(outcomes(watch, {false, false, true, 0, 0}, 16), ".a.a...a........");
}

// What it says may wait behind its messages for one of our sockets.
TEST(RdsRdmaWatchRules, peer__is_not_asked_while_we_do_not_take_what_it_sends)
{
    Watch watch;
    EXPECT_EQ(outcomes(watch, {false, true, true, 1, 0}, 20), std::string(20, '.'));
    EXPECT_EQ(outcomes(watch, {false, false, true, 1, 0}, 2), ".a");
}

TEST(RdsRdmaWatchRules, idle_connection__is_left_alone)
{
    Watch watch;
    EXPECT_EQ(outcomes(watch, {false, false, false, 5, 5}, 20), std::string(20, '.'));
}

} // namespace
