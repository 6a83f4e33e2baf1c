// SPDX-License-Identifier: GPL-2.0
// What /proc/net/kcm and KCM_STATS show of a socket and of a connection in each state, and that they show nothing else.
#include "kcm_test.h"

#include <map>
#include <string>

namespace {

using Fields = std::map<std::string, long>; // those that are not 0; an index is there when it is not -1

constexpr long kSome = -2; // as much as TCP, or an object of core, takes

class KcmRows : public KcmTest {
protected:
    struct Shown {
        std::vector<Fields> sockets, connections;
    };

    static Fields without_zeros(Fields all)
    {
        std::erase_if(all, [](const auto &field) { return field.second == 0; });
        return all;
    }
    static long some(unsigned count) { return count ? kSome : 0; }
    static void add_traffic(Fields &to, const kcm_traffic &traffic)
    {
        to["received"] = static_cast<long>(traffic.rx_msgs);
        to["received bytes"] = static_cast<long>(traffic.rx_bytes);
        to["sent"] = static_cast<long>(traffic.tx_msgs);
        to["sent bytes"] = static_cast<long>(traffic.tx_bytes);
    }
    static Fields of(const kcm_socket_row &row)
    {
        Fields all{{"unread", row.recv_q}, {"memory", some(row.rmem)}, {"unsent", row.send_q}, {"waits", row.tx_wait},
                   {"waits for more", row.tx_wait_more}, {"ready", row.rx_wait}};
        add_traffic(all, row.traffic);
        all = without_zeros(all);
        if (row.reserved != -1)
            all["connection"] = row.reserved;
        return all;
    }
    static Fields of(const kcm_connection_row &row)
    {
        Fields all{{"with TCP", some(row.recv_q)}, {"memory", some(row.rmem)}, {"at TCP", some(row.send_q)}, {"done", row.done},
                   {"sends no more", row.tx_stopped}, {"receives no more", row.rx_stopped}, {"paused", row.rx_paused},
                   {"needs", row.rx_need}};
        EXPECT_GT(row.smem, 0u);
        add_traffic(all, row.traffic);
        all = without_zeros(all);
        if (row.reserved != -1)
            all["socket"] = row.reserved;
        return all;
    }
    Shown show()
    {
        static constexpr kcm_rows rows = {
            .mux = [](void *, const kcm_mux_row *) { return 0; },
            .socket =
                [](void *context, const kcm_socket_row *row) {
                    auto &sockets = static_cast<Shown *>(context)->sockets;
                    EXPECT_EQ(row->index, sockets.size());
                    sockets.push_back(of(*row));
                    return 0;
                },
            .connection =
                [](void *context, const kcm_connection_row *row) {
                    auto &connections = static_cast<Shown *>(context)->connections;
                    EXPECT_EQ(row->index, connections.size());
                    connections.push_back(of(*row));
                    return 0;
                },
        };
        Shown shown;
        run(a, [&] { kcm_net_show(host.net(a.initial_net()), &rows, &shown); });
        return shown;
    }
    /** Of each connection: KCM_CONN_*, and the error. */
    std::vector<std::pair<unsigned, int>> states(KcmSocket &socket)
    {
        std::vector<std::pair<unsigned, int>> all;
        run(a, [&] {
            for (const auto &row : socket.connections())
                all.emplace_back(row.state, row.error);
        });
        return all;
    }
    using States = std::vector<std::pair<unsigned, int>>;
};

TEST_F(KcmRows, nothing__has_happened)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    settle();
    Shown shown = show();
    EXPECT_EQ(shown.sockets, (std::vector<Fields>{{{"ready", 1}}}));
    EXPECT_EQ(shown.connections, (std::vector<Fields>{{}}));
    EXPECT_EQ(states(socket), (States{{0, 0}}));
}

TEST_F(KcmRows, messages__are_to_be_read)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("one") + framed("two") + framed("three").substr(0, 6));
    settle();
    EXPECT_EQ(receive(socket), framed("one"));
    Shown shown = show();
    EXPECT_EQ(shown.sockets, (std::vector<Fields>{{{"received", 1}, {"received bytes", 7}, {"unread", 1}, {"memory", kSome}}}));
    EXPECT_EQ(shown.connections, (std::vector<Fields>{{{"received", 2}, {"received bytes", 14}, {"needs", 3}}}));
    EXPECT_EQ(receive(socket), framed("two"));
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"received", 2}, {"received bytes", 14}, {"ready", 1}}}));
}

TEST_F(KcmRows, message__has_been_read_in_part)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    peer_writes(ends, framed("message"));
    settle();
    EXPECT_EQ(receive(socket, 5), framed("message").substr(0, 5));
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"received bytes", 5}, {"unread", 1}}}));
    EXPECT_EQ(receive(socket), "essage");
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"received", 1}, {"received bytes", 11}, {"ready", 1}}}));
}

// The second socket sends on the second connection, so no index is 0 by chance.
TEST_F(KcmRows, messages__go_to_a_peer_that_does_not_read)
{
    KcmSocket &first = new_socket(), &second = new_socket(), &third = new_socket();
    Ends one = open_narrow(first), two = connect_narrow();
    run(a, [&] { ASSERT_TRUE(second.open_as_clone(first) == 0 && third.open_as_clone(first) == 0); });
    EXPECT_EQ(send(first, framed(text(30'000))), 30'004);
    attach(first, two);
    EXPECT_EQ(send(second, framed(text(30'000))), 30'004);
    EXPECT_EQ(send(third, "waits"), 5);
    settle();
    Shown shown = show();
    const long to_one = shown.sockets.at(0)["sent bytes"], to_two = shown.sockets.at(1)["sent bytes"];
    EXPECT_EQ(shown.sockets, (std::vector<Fields>{
        {{"unsent", 1}, {"sent bytes", to_one}, {"connection", 0}, {"ready", 1}},
        {{"unsent", 1}, {"sent bytes", to_two}, {"connection", 1}, {"ready", 1}},
        {{"unsent", 1}, {"waits", 1}, {"ready", 1}}}));
    EXPECT_EQ(shown.connections, (std::vector<Fields>{
        {{"sent bytes", to_one}, {"at TCP", kSome}, {"socket", 0}}, {{"sent bytes", to_two}, {"at TCP", kSome}, {"socket", 1}}}));
    EXPECT_EQ(states(first), (States{{KCM_ABI_CONN_RESERVED, 0}, {KCM_ABI_CONN_RESERVED, 0}}));
    EXPECT_EQ(peer_reads(one, 30'009), framed(text(30'000)) + "waits");
    EXPECT_EQ(peer_reads(two, 30'004), framed(text(30'000)));
    settle();
    shown = show();
    EXPECT_EQ(shown.sockets, (std::vector<Fields>{{{"sent", 1}, {"sent bytes", 30'004}, {"ready", 1}},
                                                  {{"sent", 1}, {"sent bytes", 30'004}, {"ready", 1}},
                                                  {{"sent", 1}, {"sent bytes", 5}, {"ready", 1}}}));
    EXPECT_EQ(shown.connections, (std::vector<Fields>{{{"sent", 2}, {"sent bytes", 30'009}},
                                                      {{"sent", 1}, {"sent bytes", 30'004}}}));
    EXPECT_EQ(states(first), (States{{0, 0}, {0, 0}}));
}

TEST_F(KcmRows, message__is_held_for_the_rest_of_its_batch)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    EXPECT_EQ(send(socket, "held", KCM_ABI_MSG_BATCH), 4);
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"unsent", 1}, {"waits for more", 1}, {"ready", 1}}}));
    EXPECT_EQ(send(socket, ""), 0);
    EXPECT_EQ(send(socket, "begun", KCM_ABI_MSG_MORE), 5);
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"sent", 1}, {"sent bytes", 4}, {"waits for more", 1}, {"ready", 1}}}));
}

TEST_F(KcmRows, socket__has_no_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    peer_writes(ends, framed(text(3000)));
    settle();
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{{"unread", 1}, {"memory", kSome}}}));
    EXPECT_EQ(show().connections, (std::vector<Fields>{{{"received", 1}, {"received bytes", 3004}}})) << "nothing waits yet";
    peer_writes(ends, framed("waits"));
    settle();
    EXPECT_EQ(show().connections, (std::vector<Fields>{
        {{"received", 1}, {"received bytes", 3004}, {"paused", 1}, {"with TCP", kSome}, {"memory", kSome}}}));
    EXPECT_EQ(states(socket), (States{{KCM_ABI_CONN_PAUSED, 0}}));
    EXPECT_EQ(receive(socket), framed(text(3000)));
    settle();
    EXPECT_EQ(show().connections, (std::vector<Fields>{{{"received", 2}, {"received bytes", 3013}}}));
    EXPECT_EQ(states(socket), (States{{0, 0}}));
}

TEST_F(KcmRows, socket__that_receives_nothing_is_not_ready)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    EXPECT_EQ(show().sockets, (std::vector<Fields>{{}}));
}

TEST_F(KcmRows, connection__has_ended)
{
    KcmSocket &socket = new_socket();
    Ends one = open_with_one(socket), two = connect();
    attach(socket, two);
    run(b, [&] { close(one.there); });
    settle();
    EXPECT_EQ(show().connections, (std::vector<Fields>{{{"sends no more", 1}, {"receives no more", 1}}, {}}));
    constexpr unsigned kStopped = KCM_ABI_CONN_RX_STOPPED | KCM_ABI_CONN_TX_STOPPED;
    EXPECT_EQ(states(socket), (States{{kStopped, KAPI_EPIPE}, {0, 0}}));
}

} // namespace
