// SPDX-License-Identifier: GPL-2.0
// What programs read of KCM over netlink, and are notified of (Documentation/netlink/specs/hawser.yaml).
#include "kcm_test.h"

#include <uapi/hawser_netlink.h>

#include "net/kcm/changes.h"

#include <map>
#include <set>

namespace {

using sim::Report;

class KcmReport : public KcmTest {
protected:
    std::vector<Report> dump()
    {
        std::vector<Report> all;
        run(a, [&] {
            all = sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
                return kcm_net_report_connection(host.net(a.initial_net()), place, report);
            });
        });
        return all;
    }
    std::vector<Report> dump_muxes()
    {
        std::vector<Report> all;
        run(a, [&] {
            all = sim::dump(HAWSER_CMD_KCM_MUX_GET, [&](kapi_report_place *place, kapi_report *report) {
                return kcm_net_report_mux(host.net(a.initial_net()), place, report);
            });
        });
        return all;
    }
    static std::string text(const Report &report, std::uint16_t type) { return Report::text(report.attributes, type); }
    static std::string change(unsigned change, const std::string &id, int error = 0)
    {
        static const char *const names[] = {"attached", "ended", "detached"};
        return std::string(names[change]) + " " + id + " " + std::to_string(error);
    }
    /** As change() has them: the events, which are forgotten. */
    std::vector<std::string> changes()
    {
        std::vector<std::string> all;
        for (const Report &event : std::exchange(a.reports.events, {})) {
            EXPECT_EQ(event.command, HAWSER_CMD_KCM_CONNECTION_CHANGED);
            EXPECT_EQ(text(event, HAWSER_KCM_CONNECTION_LOCAL), "10.0.0.1");
            EXPECT_EQ(text(event, HAWSER_KCM_CONNECTION_REMOTE), "10.0.0.2");
            EXPECT_EQ(text(event, HAWSER_KCM_CONNECTION_REMOTE_PORT), "7000");
            EXPECT_NE(text(event, HAWSER_KCM_CONNECTION_LOCAL_PORT), "0");
            EXPECT_EQ(text(event, HAWSER_KCM_CONNECTION_MUX), "1");
            all.push_back(change(static_cast<unsigned>(std::stoul(text(event, HAWSER_KCM_CONNECTION_CHANGE))),
                                 text(event, HAWSER_KCM_CONNECTION_ID), std::stoi(text(event, HAWSER_KCM_CONNECTION_ERROR))));
        }
        return all;
    }
    std::string id_of(KcmSocket &socket, const Ends &ends)
    {
        std::string id;
        run(a, [&] { id = std::to_string(socket.id_of(ends.here)); });
        return id;
    }
};

TEST_F(KcmReport, connection__shows_its_ends_and_what_went_over_it)
{
    EXPECT_TRUE(dump().empty());
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, framed("hello")), 9);
    EXPECT_EQ(peer_reads(ends, 9), framed("hello"));
    peer_writes(ends, framed("one") + framed("two") + framed("three").substr(0, 6));
    settle();
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(receive(socket), framed("two"));
    std::vector<Report> all = dump();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_ID), id_of(socket, ends));
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_LOCAL), "10.0.0.1");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_REMOTE), "10.0.0.2");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_REMOTE_PORT), "7000");
    EXPECT_NE(text(all[0], HAWSER_KCM_CONNECTION_LOCAL_PORT), "0");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_STATE), "0");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_ERROR), "0");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_RX_MESSAGES), "2");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_RX_BYTES), "14");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_TX_MESSAGES), "1");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_TX_BYTES), "9");
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_RX_PARTIAL), "6");
}

TEST_F(KcmReport, connection_that_has_ended__shows_why)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(b, [&] { close(ends.there); });
    settle();
    std::vector<Report> all = dump();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_ERROR), "32"); // EPIPE
    EXPECT_EQ(text(all[0], HAWSER_KCM_CONNECTION_STATE), std::to_string(KCM_ABI_CONN_RX_STOPPED | KCM_ABI_CONN_TX_STOPPED));
}

TEST_F(KcmReport, connections__are_shown_by_multiplexor_each_once)
{
    constexpr unsigned kMuxes = 5, kEach = 3;
    std::vector<KcmSocket *> sockets;
    for (unsigned i = 0; i < kMuxes; i++) {
        sockets.push_back(&new_socket());
        for (unsigned k = 0; k < kEach; k++)
            attach(*sockets.back(), connect());
    }
    KcmSocket &without = new_socket();
    run(a, [&] { ASSERT_EQ(without.open(), 0); });
    std::map<std::string, std::set<std::string>> seen;
    for (const Report &one : dump())
        EXPECT_TRUE(seen[text(one, HAWSER_KCM_CONNECTION_MUX)].insert(text(one, HAWSER_KCM_CONNECTION_REMOTE_PORT)).second);
    EXPECT_EQ(seen.size(), kMuxes);
    for (const auto &[mux, ports] : seen)
        EXPECT_EQ(ports.size(), kEach) << mux;
}

TEST_F(KcmReport, multiplexor__shows_its_sums_and_what_waits)
{
    EXPECT_TRUE(dump_muxes().empty());
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, framed("hello")), 9);
    EXPECT_EQ(peer_reads(ends, 9), framed("hello"));
    peer_writes(ends, framed("one") + framed("two") + framed("three") + framed("four").substr(0, 6));
    settle();
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(receive(socket), framed("two"));
    KcmSocket &other = new_socket(), &without = new_socket();
    run(a, [&] {
        ASSERT_EQ(other.open_as_clone(socket), 0);
        ASSERT_EQ(without.open(), 0);
    });
    std::vector<Report> all = dump_muxes();
    ASSERT_EQ(all.size(), 2u);
    auto has = [&](const Report &mux, std::vector<std::string> values) {
        for (unsigned i = 0; i < values.size(); i++)
            EXPECT_EQ(text(mux, static_cast<std::uint16_t>(HAWSER_KCM_MUX_NUMBER + i)), values[i]) << i;
    };
    has(all[0], {"1", "2", "1", "2", "14", "1", "9", "1", "0"});
    has(all[1], {"2", "1", "0", "0", "0", "0", "0", "0", "0"});
    run(a, [&] { socket.close(); });
    settle();
    has(dump_muxes().at(0), {"1", "1", "1"});
}

TEST_F(KcmReport, multiplexors__are_shown_each_once)
{
    constexpr unsigned kMuxes = 200;
    for (unsigned i = 0; i < kMuxes; i++) {
        KcmSocket &socket = new_socket();
        run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    }
    std::set<std::string> seen;
    for (const Report &mux : dump_muxes())
        EXPECT_TRUE(seen.insert(text(mux, HAWSER_KCM_MUX_NUMBER)).second);
    EXPECT_EQ(seen.size(), kMuxes);
}

TEST_F(KcmReport, events__say_that_a_connection_comes_and_goes)
{
    a.reports.listens = true;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string id = id_of(socket, ends);
    EXPECT_EQ(changes(), std::vector{change(HAWSER_KCM_ATTACHED, id)});
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    EXPECT_EQ(changes(), std::vector{change(HAWSER_KCM_DETACHED, id)});
}

TEST_F(KcmReport, event_of_the_end__says_why_and_comes_once)
{
    a.reports.listens = true;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string id = id_of(socket, ends);
    run(b, [&] { close(ends.there); });
    settle();
    EXPECT_EQ(changes(), (std::vector{change(HAWSER_KCM_ATTACHED, id), change(HAWSER_KCM_ENDED, id, 32)}));
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    settle();
    EXPECT_EQ(changes(), std::vector{change(HAWSER_KCM_DETACHED, id, 32)});
    auto noted = [&](const char *what) {
        return std::count_if(a.log.begin(), a.log.end(), [&](const std::string &line) {
            return line.rfind("kcm: multiplexor ", 0) == 0 && line.ends_with(std::string(" ") + what);
        });
    };
    EXPECT_EQ(noted("is attached"), 1) << "for debugging";
    EXPECT_EQ(noted("has ended: error 32"), 1);
    EXPECT_EQ(noted("is detached"), 1);
}

TEST_F(KcmReport, last_socket_that_is_closed__detaches)
{
    a.reports.listens = true;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string id = id_of(socket, ends);
    run(a, [&] { socket.close(); });
    settle();
    EXPECT_EQ(changes(), (std::vector{change(HAWSER_KCM_ATTACHED, id), change(HAWSER_KCM_DETACHED, id)}));
}

TEST_F(KcmReport, event_without_memory__is_lost_and_nothing_else)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string id = id_of(socket, ends);
    a.reports.listens = true;
    a.faults().one_in = 1;
    run(b, [&] { close(ends.there); });
    settle();
    a.faults().one_in = 0;
    EXPECT_TRUE(changes().empty());
    EXPECT_EQ(text(dump().at(0), HAWSER_KCM_CONNECTION_ERROR), "32") << "there was something to report";
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    EXPECT_EQ(changes(), std::vector{change(HAWSER_KCM_DETACHED, id, 32)});
}

using kcm::Changes;
using Told = std::vector<unsigned>;

TEST(KcmChanges, what_is_due_before_it_is_attached__waits)
{
    Changes changes;
    Told told;
    auto tell = [&](unsigned change) { told.push_back(change); };
    changes.add(Changes::detached | Changes::ended, tell);
    EXPECT_EQ(told, Told{});
    changes.add(Changes::attached, tell);
    EXPECT_EQ(told, (Told{Changes::attached, Changes::ended, Changes::detached}));
    changes.add(Changes::ended, tell);
    EXPECT_EQ(told.size(), 3u) << "each once";
}

TEST(KcmChanges, what_others_add_meanwhile__is_told_by_who_is_at_it)
{
    Changes changes;
    Told told;
    unsigned inside = 0;
    auto tell = [&](unsigned change) {
        EXPECT_EQ(inside++, 0u);
        if (change == Changes::attached) { // another context
            changes.add(Changes::ended, [&](unsigned) { ADD_FAILURE(); });
            changes.add(Changes::detached | Changes::ended, [&](unsigned) { ADD_FAILURE(); });
        }
        told.push_back(change);
        inside--;
    };
    changes.add(Changes::attached, tell);
    EXPECT_EQ(told, (Told{Changes::attached, Changes::ended, Changes::detached}));
}

TEST(KcmChanges, end_after_it_is_detached__is_not_told)
{
    Changes changes;
    Told told;
    auto tell = [&](unsigned change) { told.push_back(change); };
    changes.add(Changes::attached, tell);
    changes.add(Changes::detached, tell);
    changes.add(Changes::ended, tell);
    EXPECT_EQ(told, (Told{Changes::attached, Changes::detached}));
}

// More than are looked at under one lock; some go while the program reads.
TEST_F(KcmReport, connections__that_stay_are_shown_once_while_others_go)
{
    constexpr unsigned kMany = 200;
    KcmSocket &socket = new_socket(), &goes = new_socket(), &last = new_socket();
    std::vector<Ends> all;
    for (unsigned i = 0; i < kMany; i++)
        attach(socket, all.emplace_back(connect()));
    attach(goes, connect());
    attach(last, connect());
    std::multiset<std::string> seen;
    run(a, [&] {
        unsigned count = 0;
        for (const Report &one : sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
                 if (count++ == 100) { // behind number 99
                     for (unsigned i = 90; i < 110; i++)
                         EXPECT_EQ(socket.unattach(all[i].here), 0);
                     goes.close();
                 }
                 return kcm_net_report_connection(host.net(a.initial_net()), place, report);
             }))
            seen.insert(text(one, HAWSER_KCM_CONNECTION_REMOTE_PORT));
    }, 100 * sim::kSecond);
    for (unsigned i = 0; i < kMany; i++)
        EXPECT_EQ(seen.count(std::to_string(7000 + i)), i < 100 || i >= 110 ? 1u : 0u) << i;
    EXPECT_EQ(seen.count(std::to_string(7000 + kMany)), 0u);
    EXPECT_EQ(seen.count(std::to_string(7001 + kMany)), 1u);
}

// Many multiplexors are before the connections.
TEST_F(KcmReport, dump__pauses)
{
    constexpr unsigned kMany = 3000, kConnections = 20;
    for (unsigned i = 0; i < kMany; i++) {
        KcmSocket &one = new_socket();
        run(a, [&] { ASSERT_EQ(one.open(), 0); });
    }
    KcmSocket &socket = new_socket();
    for (unsigned i = 0; i < kConnections; i++)
        attach(socket, connect());
    run(a, [&] {
        std::size_t count = 0;
        sim::forget_steps();
        count = sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
            return kcm_net_report_connection(host.net(a.initial_net()), place, report);
        }).size();
        EXPECT_EQ(count, kConnections);
        EXPECT_LE(sim::most_steps_without_pause(), 64u * 8);
        EXPECT_LE(sim::all_steps(), 4 * kMany + 10 * kConnections); // none begins at the first multiplexor again
    }, 1000 * sim::kSecond);
}

// Nor with the first connection of its own.
TEST_F(KcmReport, dump__of_many_connections_is_linear)
{
    constexpr unsigned kMany = 300;
    KcmSocket &socket = new_socket();
    for (unsigned i = 0; i < kMany; i++)
        attach(socket, connect());
    run(a, [&] {
        sim::forget_steps();
        std::size_t count = sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
            return kcm_net_report_connection(host.net(a.initial_net()), place, report);
        }).size();
        EXPECT_EQ(count, kMany);
        EXPECT_LE(sim::all_steps(), 20 * kMany);
    }, 1000 * sim::kSecond);
}

} // namespace
