// SPDX-License-Identifier: GPL-2.0
// Queues as programs read them over netlink: the messages that RDS_INFO_* shows, in parts, and each once.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <kapi/errno.h>
#include <kapi/report.h>
#include <uapi/hawser_netlink.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kapi/sim/lock.h"
#include "kapi/sim/report.h"
#include "net/rds/connection.h"

namespace {

using sim::Report;

constexpr std::uint64_t kSteps = 200; // under a lock

/** Both ends with their ports, type of service, number, bytes. */
using Shown = std::tuple<std::string, std::string, std::string, std::string, unsigned, std::string, std::string>;

std::string ip_text(const kapi_u8 (&ip)[16])
{
    sim::Attribute bytes{.type = 1, .bytes = {ip, ip + 16}};
    if (std::all_of(ip, ip + 10, [](kapi_u8 byte) { return byte == 0; }) && ip[10] == 0xff)
        bytes.bytes.erase(0, 12);
    return Report::text({bytes}, 1);
}

std::string port_text(kapi_u16 big) { return std::to_string((big & 0xffu) << 8 | big >> 8); }

class ReportQueues : public RdsTest {
protected:
    ReportQueues() : from(host_a), to(host_b), from6(host_a), to6(host_b)
    {
        run(a, [&] { open(from, "10.0.0.1", 100), open(from6, "2001:db8::1", 101); });
        run(b, [&] { open(to, "10.0.0.2", 200), open(to6, "2001:db8::2", 201); });
    }
    ~ReportQueues() override
    {
        run(a, [&] { from.close(), from6.close(); });
        run(b, [&] { to.close(), to6.close(); });
    }
    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    /** Messages of a kind of queue, by a request for that kind. */
    static std::vector<Shown> in(const std::vector<Report> &reports, unsigned kind)
    {
        std::vector<Shown> all;
        for (const Report &queue : reports) {
            const auto &of = queue.attributes;
            EXPECT_EQ(Report::text(of, HAWSER_RDS_QUEUE_KIND), std::to_string(kind));
            bool received = kind == HAWSER_RDS_RECEIVE;
            EXPECT_EQ(Report::text(of, HAWSER_RDS_QUEUE_TRANSPORT), received ? "" : "tcp");
            for (const auto *message : Report::all(of, HAWSER_RDS_QUEUE_MESSAGE)) {
                auto text = [&](kapi_u16 type) { return Report::text(message->nested, type); };
                all.emplace_back(Report::text(of, HAWSER_RDS_QUEUE_LOCAL), text(HAWSER_RDS_MESSAGE_LOCAL_PORT),
                                 received ? text(HAWSER_RDS_MESSAGE_REMOTE) : Report::text(of, HAWSER_RDS_QUEUE_REMOTE),
                                 text(HAWSER_RDS_MESSAGE_REMOTE_PORT),
                                 received ? 0u : static_cast<unsigned>(std::stoul(Report::text(of, HAWSER_RDS_QUEUE_TOS))),
                                 text(HAWSER_RDS_MESSAGE_SEQUENCE), text(HAWSER_RDS_MESSAGE_BYTES));
            }
        }
        return all;
    }
    std::vector<Shown> dumped(sim::Node &node, unsigned kind)
    {
        std::vector<Report> reports;
        run(node, [&] { reports = sim::dump(node.initial_net(), HAWSER_CMD_RDS_QUEUE_GET, kind); });
        return in(reports, kind);
    }
    /** What the socket option shows of the same queues. */
    std::vector<Shown> shown(sim::Node &node, RdsSocket &socket, int item)
    {
        std::vector<rds_abi_info6_message> rows(128);
        std::vector<Shown> all;
        run(node, [&] {
            int length = static_cast<int>(rows.size() * sizeof(rows[0]));
            EXPECT_EQ(socket.get_option(item, rows.data(), &length), static_cast<int>(sizeof(rows[0])));
            rows.resize(static_cast<std::size_t>(length) / sizeof(rows[0]));
        });
        for (const auto &row : rows)
            all.emplace_back(ip_text(row.laddr), port_text(row.lport), ip_text(row.faddr), port_text(row.fport), +row.tos,
                             std::to_string(row.seq), std::to_string(row.len));
        return all;
    }
    /** Calls between() in a task of a after each report of a dump. */
    std::vector<Report> dump_with(unsigned kind, const std::function<void()> &between)
    {
        std::vector<Report> reports;
        run(a, [&] {
            auto next = [&](kapi_report_place *place, kapi_report *report) {
                int result = table().next(&a.initial_net(), place, report);
                between();
                return result;
            };
            reports = sim::dump(HAWSER_CMD_RDS_QUEUE_GET, next, kind);
        }, 600 * sim::kSecond);
        return reports;
    }
    static const kapi_report_table &table()
    {
        return *std::find_if(rds_report_tables, rds_report_tables + rds_report_table_count,
                             [](const auto &one) { return one.command == HAWSER_CMD_RDS_QUEUE_GET; });
    }
    /** What a program that ends after the first part of a dump has called. */
    std::function<int(kapi_report_place *, kapi_report *)> first_part()
    {
        return [this, parts = 0](kapi_report_place *place, kapi_report *report) mutable {
            return parts++ ? 0 : table().next(&a.initial_net(), place, report);
        };
    }
    /** Messages of a to an address that nobody has. */
    void send_in_vain(RdsSocket &socket, unsigned count, const char *address = "10.0.0.77")
    {
        run(a, [&] {
            socket.sk().sndbuf = 1 << 30;
            for (unsigned i = 0; i < count; i++)
                ASSERT_EQ(send(socket, "x", address, 9, RDS_ABI_MSG_DONTWAIT), 1);
        }, 600 * sim::kSecond);
    }
    static std::vector<unsigned> numbers(const std::vector<Shown> &messages)
    {
        std::vector<unsigned> all;
        for (const Shown &one : messages)
            all.push_back(static_cast<unsigned>(std::stoul(std::get<5>(one))));
        return all;
    }

    RdsSocket from, to, from6, to6;
};

TEST_F(ReportQueues, show_what_the_socket_options_show)
{
    run(a, [&] {
        EXPECT_EQ(send(from, "one", "10.0.0.2", 200), 3);
        EXPECT_EQ(send(from6, "three", "2001:db8::2", 201), 5);
    });
    world.run_for(sim::kSecond);
    run(a, [&] {
        EXPECT_EQ(send(from, "four", "10.0.0.77", 9, RDS_ABI_MSG_DONTWAIT), 4);
        EXPECT_EQ(send(from6, "eleven", "2001:db8::77", 10, RDS_ABI_MSG_DONTWAIT), 6);
    });
    world.network().cut(a, b);
    run(a, [&] {
        for (unsigned i = 0; i < 3; i++) {
            EXPECT_EQ(send(from, std::string(7 + i, 'x'), "10.0.0.2", 200), 7 + i);
            EXPECT_EQ(send(from6, "seven", "2001:db8::2", 201), 5);
        }
    });
    world.run_for(50 * sim::kMillisecond);
    const auto receive = dumped(b, HAWSER_RDS_RECEIVE), send = dumped(a, HAWSER_RDS_SEND);
    const auto retransmit = dumped(a, HAWSER_RDS_RETRANSMIT);
    EXPECT_EQ(receive.size(), 2u);
    EXPECT_EQ(send.size(), 2u);
    EXPECT_EQ(retransmit.size(), 6u);
    EXPECT_EQ(std::count(receive.begin(), receive.end(), Shown("10.0.0.2", "200", "10.0.0.1", "100", 0, "1", "3")), 1);
    EXPECT_EQ(std::count(send.begin(), send.end(), Shown("10.0.0.1", "100", "10.0.0.77", "9", 0, "1", "4")), 1);
    EXPECT_EQ(receive, shown(b, to, RDS_ABI_INFO6_RECV_MESSAGES));
    EXPECT_EQ(send, shown(a, from, RDS_ABI_INFO6_SEND_MESSAGES));
    EXPECT_EQ(retransmit, shown(a, from, RDS_ABI_INFO6_RETRANS_MESSAGES));
    EXPECT_TRUE(dumped(a, HAWSER_RDS_RECEIVE).empty());
    EXPECT_TRUE(dumped(b, HAWSER_RDS_SEND).empty());
    EXPECT_TRUE(dumped(b, HAWSER_RDS_RETRANSMIT).empty());
    world.network().cut(a, b, false);
}

TEST_F(ReportQueues, without_a_choice__are_those_of_all_kinds)
{
    send_in_vain(from, 1);
    run(a, [&] { EXPECT_EQ(send(from, "here", "10.0.0.1", 100), 4); });
    std::vector<Report> reports;
    run(a, [&] { reports = sim::dump(a.initial_net(), HAWSER_CMD_RDS_QUEUE_GET); });
    ASSERT_EQ(reports.size(), 2u);
    EXPECT_EQ(Report::text(reports[0].attributes, HAWSER_RDS_QUEUE_KIND), std::to_string(HAWSER_RDS_RECEIVE));
    EXPECT_EQ(Report::text(reports[1].attributes, HAWSER_RDS_QUEUE_KIND), std::to_string(HAWSER_RDS_SEND));
    EXPECT_NE(Report::text(reports[1].attributes, HAWSER_RDS_QUEUE_PATH), "");
}

TEST_F(ReportQueues, of_no_kind__are_refused)
{
    EXPECT_EQ(table().choice, HAWSER_RDS_QUEUE_KIND);
    run(a, [&] {
        kapi_report_place place{.choice = HAWSER_RDS_RETRANSMIT + 1, .step = 0, .words = {}};
        EXPECT_EQ(table().next(&a.initial_net(), &place, nullptr), -KAPI_EINVAL);
    });
}

TEST_F(ReportQueues, of_another_namespace__are_not_shown)
{
    send_in_vain(from, 1);
    kapi_net &other = a.add_net();
    run(a, [&] { ASSERT_EQ(host_a.add_net(other), 0); });
    run(a, [&] { EXPECT_TRUE(sim::dump(other, HAWSER_CMD_RDS_QUEUE_GET).empty()); });
    run(a, [&] { EXPECT_TRUE(host_a.delete_nets({&other})); });
}

// In several parts, between which nothing is held: those before are passed over again, a few under each lock.
TEST_F(ReportQueues, that_are_long__come_in_order_and_in_short_steps)
{
    constexpr unsigned kMessages = 10'000;
    send_in_vain(from, kMessages);
    std::vector<Report> reports;
    run(a, [&] {
        sim::forget_steps();
        reports = sim::dump(a.initial_net(), HAWSER_CMD_RDS_QUEUE_GET, HAWSER_RDS_SEND);
        EXPECT_LE(sim::most_steps_under("rds path"), kSteps);
        EXPECT_LE(sim::most_steps_without_pause(), 4 * kSteps);
    }, 600 * sim::kSecond);
    EXPECT_GT(reports.size(), 10u);
    EXPECT_LE(reports.size(), kMessages / 60);
    std::vector<unsigned> all = numbers(in(reports, HAWSER_RDS_SEND));
    ASSERT_EQ(all.size(), kMessages);
    for (unsigned i = 0; i < kMessages; i++)
        ASSERT_EQ(all[i], i + 1);
}

TEST_F(ReportQueues, of_a_socket_that_are_long__come_in_order_and_in_short_steps)
{
    constexpr unsigned kMessages = 5'000;
    RdsSocket sink(host_a);
    std::vector<Report> reports;
    run(a, [&] {
        open(sink, "10.0.0.1", 102);
        from.sk().sndbuf = sink.sk().rcvbuf = 1 << 30;
        for (unsigned i = 0; i < kMessages; i++)
            ASSERT_EQ(send(from, std::string(i % 100 + 1, 'x'), "10.0.0.1", 102), i % 100 + 1);
        world.sleep(sim::kSecond);
        sim::forget_steps();
        reports = sim::dump(a.initial_net(), HAWSER_CMD_RDS_QUEUE_GET, HAWSER_RDS_RECEIVE);
        EXPECT_LE(sim::most_steps_under("rds socket"), kSteps);
    }, 600 * sim::kSecond);
    EXPECT_GT(reports.size(), 10u);
    auto all = in(reports, HAWSER_RDS_RECEIVE);
    ASSERT_EQ(all.size(), kMessages);
    for (unsigned i = 0; i < kMessages; i++)
        ASSERT_EQ(std::get<6>(all[i]), std::to_string(i % 100 + 1));
    run(a, [&] { sink.close(); });
}

TEST_F(ReportQueues, that_are_emptied_meanwhile__are_left)
{
    constexpr unsigned kMessages = 1'000;
    send_in_vain(from, kMessages);
    send_in_vain(from6, kMessages, "2001:db8::77");
    unsigned parts = 0;
    SocketName gone(sim::address("10.0.0.77", 9)), gone6(sim::address("2001:db8::77", 9));
    auto all = in(dump_with(HAWSER_RDS_SEND, [&] {
        if (parts++)
            return;
        EXPECT_EQ(from.set_option(RDS_ABI_CANCEL_SENT_TO, gone.bytes, gone.size), 0);
        EXPECT_EQ(from6.set_option(RDS_ABI_CANCEL_SENT_TO, gone6.bytes, gone6.size), 0);
    }), HAWSER_RDS_SEND);
    EXPECT_GT(all.size(), 0u);
    EXPECT_LT(all.size(), 200u) << "one part";
}

/** Connections that end while one of them has been shown in part. */
TEST_F(ReportQueues, whose_connection_ends_meanwhile__do_not_hide_others_or_come_twice)
{
    constexpr unsigned kMessages = 500, kPeers = 8;
    for (unsigned i = 0; i < kPeers; i++)
        send_in_vain(from, kMessages, ("10.0.0.7" + std::to_string(i)).c_str());
    unsigned parts = 0;
    std::string first;
    std::vector<Report> reports = dump_with(HAWSER_RDS_SEND, [&] {
        if (parts++ != 0)
            return;
        // That of the first part, whichever it is: the table knows.
        sim::NodeScope scope(a);
        auto *net = reinterpret_cast<rds::Net *>(host_a.net().rds);
        rds::ConnectionTable::Cursor cursor;
        auto connection = net->connections.next(cursor);
        first = ip_text(reinterpret_cast<const kapi_u8(&)[16]>(*connection->remote.ip.bytes()));
        SocketName peer(sim::address(first.c_str(), 9));
        EXPECT_EQ(from.set_option(RDS_ABI_CANCEL_SENT_TO, peer.bytes, peer.size), 0);
        net->connections.remove(*connection);
        connection->kill();
    });
    std::map<std::string, std::vector<unsigned>> of;
    for (const Report &queue : reports)
        for (unsigned number : numbers(in({queue}, HAWSER_RDS_SEND)))
            of[Report::text(queue.attributes, HAWSER_RDS_QUEUE_REMOTE)].push_back(number);
    ASSERT_EQ(of.size(), kPeers);
    for (auto &[peer, seen] : of) {
        EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end(), std::less_equal<>()));
        EXPECT_EQ(seen.size() == kMessages, peer != first) << peer;
    }
}

/** While its dump passes over what another program's has looked at since: it goes on from there. */
TEST_F(ReportQueues, that_are_long__end_when_the_program_is_killed)
{
    send_in_vain(from, 1'000);
    unsigned ended = 0;
    for (unsigned tries = 0; tries < 200; tries++) {
        run(a, [&] {
            sim::TaskRef program = sim::World::current_task()->shared_from_this();
            unsigned parts = 0;
            auto next = [&](kapi_report_place *place, kapi_report *report) {
                if (++parts == 6) {
                    static_cast<void>(sim::dump(HAWSER_CMD_RDS_QUEUE_GET, first_part(), HAWSER_RDS_SEND));
                    world.spawn(a, "killer", [this, program] { world.signal(*program); });
                }
                return table().next(&a.initial_net(), place, report);
            };
            ended += numbers(in(sim::dump(HAWSER_CMD_RDS_QUEUE_GET, next, HAWSER_RDS_SEND), HAWSER_RDS_SEND)).size() < 1'000;
        }, 20 * sim::kMillisecond);
        if (HasFailure())
            break;
    }
    EXPECT_GT(ended, 0u);
}

} // namespace
