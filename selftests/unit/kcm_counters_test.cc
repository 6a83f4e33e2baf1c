// SPDX-License-Identifier: GPL-2.0
// What each event counts in /proc/net/kcm_stats, and that it counts nothing else.
#include "kcm_test.h"

#include <functional>
#include <map>
#include <string>

namespace {

using Counts = std::map<std::string, kapi_u64>;

class KcmCounters : public KcmTest {
protected:
    Counts all()
    {
        kcm_totals t{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &t); });
        return {{"mux received", t.mux.rx_msgs}, {"mux received bytes", t.mux.rx_bytes},
                {"mux sent", t.mux.tx_msgs}, {"mux sent bytes", t.mux.tx_bytes},
                {"retries", t.tx_retries}, {"attached", t.attach},
                {"unattached", t.unattach}, {"unattached, reserved", t.unattach_reserved},
                {"drops", t.rx_ready_drops}, {"received", t.connections.rx_msgs},
                {"received bytes", t.connections.rx_bytes}, {"sent", t.connections.tx_msgs},
                {"sent bytes", t.connections.tx_bytes}, {"reserved", t.reserved},
                {"unreserved", t.unreserved}, {"aborts", t.rx_aborts},
                {"interrupted", t.rx_interrupted}, {"unrecovered", t.rx_unrecovered},
                {"no memory", t.rx_no_memory}, {"need more", t.rx_need_more},
                {"bad length", t.rx_bad_length}, {"too big", t.rx_too_big},
                {"timeouts", t.rx_timeouts}, {"send aborts", t.tx_aborts}};
    }
    /** What is counted while this happens. */
    Counts during(const std::function<void()> &happens)
    {
        Counts before = all(), changed;
        happens();
        settle();
        for (const auto &[name, count] : all())
            if (count != before[name])
                changed[name] = count - before[name];
        return changed;
    }
    Counts with_filter(int said)
    {
        int filter = -1;
        run(a, [&] { filter = sim::program_filter([said](const unsigned char *, std::size_t) { return said; }); });
        Ends ends = open_with_one(new_socket(), filter);
        Counts counts = during([&] { peer_writes(ends, "0123456789"); });
        run(a, [&] { sim::program_close(filter); });
        return counts;
    }
};

TEST_F(KcmCounters, connection__that_comes_and_goes)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    Ends ends = connect();
    EXPECT_EQ(during([&] { attach(socket, ends); }), (Counts{{"attached", 1}}));
    EXPECT_EQ(during([&] { run(a, [&] { ASSERT_EQ(socket.unattach(ends.here), 0); }); }), (Counts{{"unattached", 1}}));
}

TEST_F(KcmCounters, message__that_is_received)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string message = framed("hello");
    const Counts one{{"mux received", 1}, {"mux received bytes", 9}, {"received", 1}, {"received bytes", 9}};
    EXPECT_EQ(during([&] { peer_writes(ends, message), settle(), receive(socket); }), one);
}

// The length is in four bytes: the program of the filter asks for more three times, the first time of a message's first bytes.
TEST_F(KcmCounters, message__that_comes_byte_by_byte)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    Counts counts = during([&] {
        for (char byte : framed("hello"))
            peer_writes(ends, std::string(1, byte)), settle();
        EXPECT_EQ(receive(socket), framed("hello"));
    });
    EXPECT_EQ(counts, (Counts{{"mux received", 1}, {"mux received bytes", 9}, {"need more", 3}, {"received", 1},
                              {"received bytes", 9}}));
}

TEST_F(KcmCounters, message__that_is_sent)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    Counts counts = during([&] {
        EXPECT_EQ(send(socket, framed("hello")), 9);
        EXPECT_EQ(peer_reads(ends, 9), framed("hello"));
    });
    EXPECT_EQ(counts, (Counts{{"mux sent", 1}, {"mux sent bytes", 9}, {"reserved", 1}, {"sent", 1}, {"sent bytes", 9},
                              {"unreserved", 1}}));
}

TEST_F(KcmCounters, stream__that_is_no_series_of_messages)
{
    EXPECT_EQ(with_filter(-1), (Counts{{"aborts", 1}}));
    EXPECT_EQ(with_filter(-134), (Counts{{"aborts", 1}, {"bad length", 1}}));
    EXPECT_EQ(with_filter(1'000'000), (Counts{{"aborts", 1}, {"too big", 1}}));
}

TEST_F(KcmCounters, message__whose_rest_is_late)
{
    Ends ends = open_with_one(new_socket());
    run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = sim::kSecond; });
    Counts counts = during([&] { peer_writes(ends, framed("hello").substr(0, 6)), world.run_for(2 * sim::kSecond); });
    EXPECT_EQ(counts, (Counts{{"aborts", 1}, {"timeouts", 1}}));
}

} // namespace
