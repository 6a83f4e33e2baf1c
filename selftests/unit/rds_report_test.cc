// SPDX-License-Identifier: GPL-2.0
// What programs read over netlink and are notified of (Documentation/netlink/specs/hawser.yaml).
#include "rds_latency.h"
#include "rds_test.h"

#include "net/rds/latency.h"

namespace {

using sim::Report;

class RdsReport : public RdsTest {
protected:
    RdsReport()
    {
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 1000)), 0);
        });
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", 2000)), 0);
        });
    }
    ~RdsReport() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    std::vector<Report> dump(sim::Node &node, std::uint8_t command)
    {
        std::vector<Report> all;
        run(node, [&] { all = sim::dump(node.initial_net(), command); });
        return all;
    }
    /** The only object. */
    Report one(sim::Node &node, std::uint8_t command)
    {
        std::vector<Report> all = dump(node, command);
        EXPECT_EQ(all.size(), 1u);
        return all.empty() ? Report{} : all[0];
    }
    static std::string text(const Report &report, std::uint16_t type) { return Report::text(report.attributes, type); }
    /** An attribute of a connection's first path. */
    static std::string of_path(const Report &report, std::uint16_t type)
    {
        auto paths = Report::all(report.attributes, HAWSER_RDS_CONNECTION_PATH);
        return paths.empty() ? "no path" : Report::text(paths[0]->nested, type);
    }
    /** "from-to-reason" of the events of path 0, which are forgotten. */
    static std::vector<std::string> changes(sim::Node &node)
    {
        std::vector<std::string> all;
        for (const Report &event : std::exchange(node.reports.events, {})) {
            EXPECT_EQ(event.command, HAWSER_CMD_RDS_PATH_CHANGED);
            if (of_path(event, HAWSER_RDS_PATH_INDEX) == "0")
                all.push_back(of_path(event, HAWSER_RDS_PATH_FROM) + "-" + of_path(event, HAWSER_RDS_PATH_STATE) + "-" +
                              of_path(event, HAWSER_RDS_PATH_REASON));
        }
        return all;
    }
    static std::string change(unsigned from, unsigned to, unsigned reason)
    {
        return std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(reason);
    }
    /** How long messages of a waited, of all paths. */
    std::vector<std::uint64_t> latency() { return latency_of(one(a, HAWSER_CMD_RDS_CONNECTION_GET)); }
    /** After one that was timed: those that are not. */
    void pass_over()
    {
        for (unsigned i = 1; i < rds::Latency::every; i++)
            exchange("other");
    }
    void exchange(const std::string &message)
    {
        run(a, [&] { EXPECT_EQ(send(from, message, "10.0.0.2", 2000), static_cast<long>(message.size())); });
        run(b, [&] { EXPECT_EQ(receive(to), message); });
        world.run_for(sim::kSecond);
    }

    RdsSocket from{host_a}, to{host_b};
};

TEST_F(RdsReport, connection__says_who_the_peer_is_and_what_went_over_each_path)
{
    EXPECT_TRUE(dump(a, HAWSER_CMD_RDS_CONNECTION_GET).empty());
    exchange("first");
    exchange("second");
    Report seen = one(a, HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_LOCAL), "10.0.0.1");
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_REMOTE), "10.0.0.2");
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_TRANSPORT), "tcp");
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_TOS), "0");
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_PEER), std::to_string(HAWSER_RDS_PEER_HAWSER));
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_INTERFACE), "");
    auto paths = Report::all(seen.attributes, HAWSER_RDS_CONNECTION_PATH);
    ASSERT_EQ(paths.size(), 8u);
    for (std::size_t i = 0; i < paths.size(); i++) {
        EXPECT_EQ(Report::text(paths[i]->nested, HAWSER_RDS_PATH_INDEX), std::to_string(i));
        EXPECT_EQ(Report::text(paths[i]->nested, HAWSER_RDS_PATH_STATE), std::to_string(HAWSER_RDS_UP));
        EXPECT_EQ(Report::text(paths[i]->nested, HAWSER_RDS_PATH_FROM), "") << "of events only";
    }
    std::uint64_t sent = 0, queued = 0, next = 0;
    for (const auto *path : paths) {
        sent += std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_TX_BYTES));
        queued += std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_QUEUED));
        next += std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_NEXT_TX)) - 1;
        EXPECT_EQ(Report::text(path->nested, HAWSER_RDS_PATH_RETRANSMITS), "0");
        EXPECT_EQ(Report::text(path->nested, HAWSER_RDS_PATH_DROPS), "0");
        EXPECT_GE(std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_AGE_MS)), 1000u);
        EXPECT_LT(std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_AGE_MS)), 3000u);
    }
    EXPECT_GE(sent, 2 * 48 + 11u);
    EXPECT_EQ(queued, 0u);
    EXPECT_GE(next, 2u);
    const std::string trip = of_path(seen, HAWSER_RDS_PATH_RTT_US);
    ASSERT_NE(trip, "");
    EXPECT_GT(std::stoull(trip), 0u);
    Report other = one(b, HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(text(other, HAWSER_RDS_CONNECTION_LOCAL), "10.0.0.2");
    std::uint64_t received = 0;
    for (const auto *path : Report::all(other.attributes, HAWSER_RDS_CONNECTION_PATH))
        received += std::stoull(Report::text(path->nested, HAWSER_RDS_PATH_RX_BYTES));
    EXPECT_EQ(received, 2 * 48 + 11u);
}

TEST_F(RdsReport, message_that_is_lost_with_its_stream__is_counted_as_sent_again)
{
    exchange("first");
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "second", "10.0.0.2", 2000), 6); });
    world.run_for(100 * sim::kMillisecond);
    auto sum = [&](std::uint16_t type) {
        std::uint64_t total = 0;
        Report seen = one(a, HAWSER_CMD_RDS_CONNECTION_GET);
        for (const auto *path : Report::all(seen.attributes, HAWSER_RDS_CONNECTION_PATH))
            total += std::stoull(Report::text(path->nested, type));
        return total;
    };
    EXPECT_EQ(sum(HAWSER_RDS_PATH_QUEUED), 1u);
    EXPECT_EQ(sum(HAWSER_RDS_PATH_RETRANSMITS), 0u) << "TCP does it so far";
    world.network().reset(a, b, sim::Sees::both);
    world.network().cut(a, b, false);
    run(b, [&] { EXPECT_EQ(receive(to), "second"); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(sum(HAWSER_RDS_PATH_QUEUED), 0u);
    EXPECT_EQ(sum(HAWSER_RDS_PATH_RETRANSMITS), 1u);
    EXPECT_GE(sum(HAWSER_RDS_PATH_DROPS), 1u);
}

TEST_F(RdsReport, latency__is_from_sending_to_the_acknowledgement)
{
    exchange("first");
    std::vector<std::uint64_t> before = latency();
    EXPECT_EQ(timed(before), 1u);
    pass_over();
    EXPECT_EQ(latency(), before);
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "second", "10.0.0.2", 2000), 6); });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(latency(), before) << "it waits";
    world.run_for(2500 * sim::kMillisecond);
    world.network().cut(a, b, false);
    run(b, [&] { EXPECT_EQ(receive(to), "second"); });
    world.run_for(sim::kSecond);
    std::vector<std::uint64_t> after = latency();
    EXPECT_EQ(timed(after), 2u);
    EXPECT_EQ(after[22] + after[23], 1u) << "2.1 s and more";
    pass_over();
    exchange("third");
    EXPECT_EQ(timed(latency()), 3u);
}

// Nor does what goes over another stream lose its time.
TEST_F(RdsReport, latency__includes_the_time_without_a_stream)
{
    exchange("first");
    pass_over();
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "second", "10.0.0.2", 2000), 6); });
    world.run_for(3 * sim::kSecond);
    run(a, [&] {
        for (unsigned i = 0; i < rds::Latency::every; i++) // none of which is the one that is timed
            EXPECT_EQ(send(from, "third", "10.0.0.2", 2000), 5);
    });
    world.network().reset(a, b, sim::Sees::both);
    world.network().cut(a, b, false);
    run(b, [&] {
        EXPECT_EQ(receive(to), "second");
        for (unsigned i = 0; i < rds::Latency::every; i++)
            EXPECT_EQ(receive(to), "third");
    });
    world.run_for(sim::kSecond);
    std::vector<std::uint64_t> after = latency();
    EXPECT_EQ(timed(after), 2u);
    EXPECT_EQ(after[22] + after[23], 1u);
}

TEST_F(RdsReport, latency__is_measured_of_one_message_at_a_time)
{
    exchange("first");
    pass_over();
    world.network().cut(a, b);
    run(a, [&] {
        for (unsigned i = 0; i < 20; i++)
            EXPECT_EQ(send(from, "many", "10.0.0.2", 2000), 4);
    });
    world.network().cut(a, b, false);
    run(b, [&] {
        for (unsigned i = 0; i < 20; i++)
            EXPECT_EQ(receive(to), "many");
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(timed(latency()), 2u);
}

TEST_F(RdsReport, message_that_is_cancelled__is_not_timed_nor_in_the_way)
{
    exchange("first");
    pass_over();
    SocketName peer(sim::address("10.0.0.2", 2000));
    world.network().cut(a, b);
    run(a, [&] {
        EXPECT_EQ(send(from, "cancelled", "10.0.0.2", 2000), 9);
        EXPECT_EQ(from.set_option(RDS_ABI_CANCEL_SENT_TO, peer.bytes, peer.size), 0);
        EXPECT_EQ(send(from, "second", "10.0.0.2", 2000), 6);
    });
    world.run_for(3 * sim::kSecond);
    world.network().cut(a, b, false);
    run(b, [&] {
        std::string got;
        do
            got = receive(to);
        while (got == "cancelled"); // TCP had it
        EXPECT_EQ(got, "second");
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(timed(latency()), 1u) << "the one before";
    pass_over();
    EXPECT_EQ(timed(latency()), 2u);
}

TEST(RdsLatency, buckets_are_powers_of_two_of_a_microsecond)
{
    auto bucket_of = [](std::uint64_t ns) {
        rds::Latency latency;
        latency.add(ns);
        const auto &counts = latency.counts().messages;
        return std::find(std::begin(counts), std::end(counts), 1u) - std::begin(counts);
    };
    EXPECT_EQ(bucket_of(0), 0);
    EXPECT_EQ(bucket_of(999), 0);
    EXPECT_EQ(bucket_of(1000), 1);
    EXPECT_EQ(bucket_of(1999), 1);
    EXPECT_EQ(bucket_of(2000), 2);
    EXPECT_EQ(bucket_of(4'000), 3);
    EXPECT_EQ(bucket_of((1ull << 22) * 1000 - 1), 22);
    EXPECT_EQ(bucket_of((1ull << 22) * 1000), 23);
    EXPECT_EQ(bucket_of(~0ull), 23);
}

TEST_F(RdsReport, connection_to_this_host__is_loopback)
{
    run(a, [&] { EXPECT_EQ(send(from, "here", "10.0.0.1", 1000), 4); });
    EXPECT_EQ(text(one(a, HAWSER_CMD_RDS_CONNECTION_GET), HAWSER_RDS_CONNECTION_TRANSPORT), "loopback");
}

TEST_F(RdsReport, IPv6_addresses__have_16_bytes)
{
    RdsSocket six(host_a);
    run(a, [&] {
        ASSERT_EQ(six.open(), 0);
        ASSERT_EQ(six.bind(sim::address("2001:db8::1", 3000)), 0);
        EXPECT_EQ(send(six, "lost", "2001:db8::2", 1), 4);
    });
    world.run_for(sim::kSecond);
    Report seen = one(a, HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_LOCAL), "2001:db8:0:0:0:0:0:1");
    EXPECT_EQ(text(seen, HAWSER_RDS_CONNECTION_REMOTE), "2001:db8:0:0:0:0:0:2");
    run(a, [&] { six.close(); });
}

TEST_F(RdsReport, socket__shows_its_ends_and_what_it_holds)
{
    run(a, [&] { ASSERT_EQ(from.connect(sim::address("10.0.0.2", 2000)), 0); });
    run(a, [&] { EXPECT_EQ(send(from, "unread", "10.0.0.2", 2000), 6); });
    world.run_for(sim::kSecond);
    Report sender = one(a, HAWSER_CMD_RDS_SOCKET_GET);
    EXPECT_EQ(text(sender, HAWSER_RDS_SOCKET_LOCAL), "10.0.0.1");
    EXPECT_EQ(text(sender, HAWSER_RDS_SOCKET_LOCAL_PORT), "1000");
    EXPECT_EQ(text(sender, HAWSER_RDS_SOCKET_REMOTE), "10.0.0.2");
    EXPECT_EQ(text(sender, HAWSER_RDS_SOCKET_REMOTE_PORT), "2000");
    EXPECT_EQ(text(sender, HAWSER_RDS_SOCKET_SENDING), "0");
    EXPECT_NE(text(sender, HAWSER_RDS_SOCKET_INODE), "");
    Report receiver = one(b, HAWSER_CMD_RDS_SOCKET_GET);
    EXPECT_EQ(text(receiver, HAWSER_RDS_SOCKET_LOCAL_PORT), "2000");
    EXPECT_EQ(text(receiver, HAWSER_RDS_SOCKET_REMOTE), "") << "it is not connected";
    EXPECT_EQ(text(receiver, HAWSER_RDS_SOCKET_UNREAD), "6");
    EXPECT_NE(text(receiver, HAWSER_RDS_SOCKET_RECEIVE_BUFFER), "0");
}

TEST_F(RdsReport, socket_whose_message_waits__shows_it)
{
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "waits", "10.0.0.2", 2000), 5); });
    EXPECT_EQ(text(one(a, HAWSER_CMD_RDS_SOCKET_GET), HAWSER_RDS_SOCKET_SENDING), "5");
    world.network().cut(a, b, false);
    run(b, [&] { EXPECT_EQ(receive(to), "waits"); });
}

TEST_F(RdsReport, dump__shows_the_objects_of_its_namespace_only)
{
    exchange("first");
    kapi_net &other = a.add_net();
    run(a, [&] { ASSERT_EQ(host_a.add_net(other), 0); });
    run(a, [&] {
        EXPECT_TRUE(sim::dump(other, HAWSER_CMD_RDS_CONNECTION_GET).empty());
        EXPECT_TRUE(sim::dump(other, HAWSER_CMD_RDS_SOCKET_GET).empty());
    });
    run(a, [&] { EXPECT_TRUE(host_a.delete_nets({&other})); });
}

TEST_F(RdsReport, events__say_from_what_to_what_and_why)
{
    a.reports.listens = b.reports.listens = true;
    exchange("first");
    EXPECT_EQ(changes(a), (std::vector{change(HAWSER_RDS_DOWN, HAWSER_RDS_CONNECTING, HAWSER_RDS_WANTED),
                                       change(HAWSER_RDS_CONNECTING, HAWSER_RDS_UP, HAWSER_RDS_ESTABLISHED)}));
    EXPECT_EQ(changes(b), std::vector{change(HAWSER_RDS_DOWN, HAWSER_RDS_UP, HAWSER_RDS_ACCEPTED)});
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(2 * sim::kSecond);
    std::vector<std::string> seen = changes(a);
    ASSERT_GE(seen.size(), 2u);
    EXPECT_EQ(seen[0], change(HAWSER_RDS_UP, HAWSER_RDS_CLOSING, HAWSER_RDS_LOST));
    EXPECT_EQ(seen[1], change(HAWSER_RDS_CLOSING, HAWSER_RDS_DOWN, HAWSER_RDS_CLOSED));
    Report now = one(a, HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(of_path(now, HAWSER_RDS_PATH_DROPS), "1");
}

TEST_F(RdsReport, path_that_is_down__shows_why_its_last_stream_ended)
{
    exchange("first");
    run(b, [&] { to.close(); });
    run(a, [&] { from.close(); }); // so that a stream is wanted for a minute only
    world.network().cut(a, b);
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(100 * sim::kSecond);
    Report seen = one(a, HAWSER_CMD_RDS_CONNECTION_GET);
    EXPECT_EQ(of_path(seen, HAWSER_RDS_PATH_STATE), std::to_string(HAWSER_RDS_DOWN));
    EXPECT_EQ(of_path(seen, HAWSER_RDS_PATH_REASON), std::to_string(HAWSER_RDS_REFUSED)) << "not that it is closed";
    world.network().cut(a, b, false);
}

TEST_F(RdsReport, counters__are_those_of_RDS_INFO_in_its_order)
{
    exchange("first");
    std::vector<rds_abi_info_counter> rows(128);
    run(a, [&] {
        int length = static_cast<int>(rows.size() * sizeof(rows[0]));
        EXPECT_EQ(from.get_option(RDS_ABI_INFO_COUNTERS, rows.data(), &length), static_cast<int>(sizeof(rows[0])));
        rows.resize(static_cast<std::size_t>(length) / sizeof(rows[0]));
    });
    std::vector<Report> reports = dump(a, HAWSER_CMD_RDS_COUNTER_GET);
    ASSERT_EQ(reports.size(), rows.size());
    unsigned counted = 0;
    for (std::size_t i = 0; i < rows.size(); i++) {
        EXPECT_EQ(text(reports[i], HAWSER_RDS_COUNTER_NAME), reinterpret_cast<const char *>(rows[i].name));
        EXPECT_EQ(text(reports[i], HAWSER_RDS_COUNTER_VALUE), std::to_string(rows[i].value));
        counted += rows[i].value != 0;
    }
    EXPECT_GT(counted, 2u);
}

TEST_F(RdsReport, event_without_memory__is_lost_and_nothing_else)
{
    exchange("first");
    a.reports.listens = true;
    a.faults().one_in = 1;
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(10 * sim::kMillisecond);
    a.faults().one_in = 0;
    EXPECT_GT(a.faults().failed, 0u);
    EXPECT_TRUE(changes(a).empty());
    EXPECT_EQ(of_path(one(a, HAWSER_CMD_RDS_CONNECTION_GET), HAWSER_RDS_PATH_DROPS), "1") << "there was something to report";
    world.run_for(10 * sim::kSecond);
    exchange("second");
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    EXPECT_FALSE(changes(a).empty());
}

} // namespace
