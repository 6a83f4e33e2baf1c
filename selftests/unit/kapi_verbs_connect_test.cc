// SPDX-License-Identifier: GPL-2.0
// The simulated RDMA connections: set-up, refusal, private data, lost messages, the end.
#include "kapi_verbs_test.h"

namespace {

class VerbsConnect : public VerbsTest {
protected:
    static std::string padded(std::string text, std::size_t size)
    {
        text.resize(size);
        return text;
    }
    void drop_client()
    {
        run(a, [&] { client.drop(); });
    }
};

TEST_P(VerbsConnect, connection__carries_messages_and_completions)
{
    connect();
    run(a, [&] { EXPECT_EQ(client.send("good morning", 7), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 1 && client.sent.size() == 1; }));
    EXPECT_EQ(server.messages.at(0), "good morning");
    EXPECT_EQ(client.sent.at(0).cookie, 7u);
    EXPECT_EQ(client.sent.at(0).status, KAPI_WC_OK);
    EXPECT_EQ(client.sent.at(0).qp_context, &client);
    EXPECT_EQ(server.received.at(0).length, 12u);
    EXPECT_TRUE(wait([&] { return server.established; })); // at the latest by the message
    close_all();
}

TEST_P(VerbsConnect, private_data__is_padded)
{
    connect();
    EXPECT_EQ(asked, padded("hello", KAPI_CM_REQUEST_BYTES));
    EXPECT_EQ(client.data, padded("welcome", KAPI_CM_ACCEPT_BYTES));
    close_all();
}

TEST_P(VerbsConnect, refusal__brings_the_peers_bytes)
{
    refusal = "go away";
    plug();
    listen();
    resolve();
    ask();
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }, 100 * sim::kSecond));
    EXPECT_EQ(client.end->why, KAPI_CM_REJECTED);
    EXPECT_EQ(client.end->reason, 28u);
    EXPECT_EQ(client.data, padded("go away", KAPI_CM_REJECT_BYTES));
    drop_client();
    close_listener();
}

TEST_P(VerbsConnect, refusal__from_work)
{
    plug();
    listen();
    resolve();
    ask();
    ASSERT_TRUE(wait([&] { return server.cm; }, 100 * sim::kSecond));
    run(b, [&] {
        kapi_cm_reject(server.cm, "no", 2);
        kapi_cm_destroy(std::exchange(server.cm, nullptr));
    });
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }, 100 * sim::kSecond));
    EXPECT_EQ(client.data, padded("no", KAPI_CM_REJECT_BYTES));
    drop_client();
    close_listener();
}

TEST_P(VerbsConnect, nobody_listens__is_refused_by_the_host)
{
    plug();
    resolve();
    ask();
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }, 100 * sim::kSecond));
    EXPECT_EQ(client.end->why, KAPI_CM_REJECTED);
    EXPECT_EQ(client.end->error, -KAPI_ECONNREFUSED);
    EXPECT_EQ(client.end->reason, 8u);
    EXPECT_EQ(client.data, "");
    drop_client();
}

TEST_P(VerbsConnect, silent_peer__is_unreachable_after_70_s)
{
    plug();
    listen();
    resolve();
    world.network().cut(a, b);
    std::uint64_t since = world.now_ns();
    ask();
    EXPECT_FALSE(wait([&] { return client.end.has_value(); }, 60 * sim::kSecond));
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }, 30 * sim::kSecond));
    EXPECT_EQ(client.end->why, KAPI_CM_UNREACHABLE);
    EXPECT_EQ(client.end->error, -KAPI_ETIMEDOUT);
    EXPECT_GE(world.now_ns() - since, 65 * sim::kSecond);
    drop_client();
    close_listener();
}

TEST_P(VerbsConnect, lost_and_doubled_datagrams__do_not_matter)
{
    world.network().link(a, b).lose_one_in = world.network().link(b, a).lose_one_in = 3;
    world.network().link(a, b).duplicate_one_in = world.network().link(b, a).duplicate_one_in = 3;
    connect();
    world.network().heal_all();
    run(a, [&] { EXPECT_EQ(client.send("x"), 0); });
    EXPECT_TRUE(wait([&] { return server.established && server.messages.size() == 1; }, 100 * sim::kSecond));
    EXPECT_EQ(requests, 1u);
    close_all();
}

TEST_P(VerbsConnect, disconnect__is_heard_by_the_peer_and_ends_when_it_answers)
{
    connect();
    EXPECT_TRUE(wait([&] { return server.established; }, 100 * sim::kSecond));
    run(a, [&] { kapi_cm_disconnect(client.cm); });
    ASSERT_TRUE(wait([&] { return server.end.has_value(); }));
    EXPECT_EQ(server.end->why, KAPI_CM_DISCONNECTED);
    world.run_for(10 * sim::kSecond);
    EXPECT_FALSE(client.end);
    run(b, [&] { kapi_cm_disconnect(server.cm); });
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }));
    EXPECT_EQ(client.end->why, KAPI_CM_DISCONNECTED);
    close_all();
}

TEST_P(VerbsConnect, disconnect__from_a_dead_peer_takes_long)
{
    connect();
    EXPECT_TRUE(wait([&] { return server.established; }, 100 * sim::kSecond));
    world.network().cut(a, b);
    run(a, [&] { kapi_cm_disconnect(client.cm); });
    EXPECT_FALSE(wait([&] { return client.end.has_value(); }, 60 * sim::kSecond));
    EXPECT_TRUE(wait([&] { return client.end.has_value(); }, 30 * sim::kSecond));
    EXPECT_FALSE(server.end);
    world.network().heal_all();
    close_all();
}

TEST_P(VerbsConnect, disconnects__may_cross)
{
    connect();
    EXPECT_TRUE(wait([&] { return server.established; }, 100 * sim::kSecond));
    auto one = world.spawn(a, "a", [&] { kapi_cm_disconnect(client.cm); });
    auto other = world.spawn(b, "b", [&] { kapi_cm_disconnect(server.cm); });
    EXPECT_TRUE(wait([&] { return client.end && server.end && one->is_done() && other->is_done(); }));
    close_all();
}

TEST_P(VerbsConnect, destroy__while_connecting)
{
    plug();
    listen();
    resolve();
    ask();
    world.run_for(world.random().below(3 * sim::kMillisecond));
    drop_client();
    world.run_for(5 * sim::kSecond);
    if (server.cm) { // it was asked: it hears that nobody wants it any more
        EXPECT_TRUE(wait([&] { return server.end.has_value(); }, 100 * sim::kSecond));
        run(b, [&] { server.drop(); });
    }
    close_listener();
}

TEST_P(VerbsConnect, destroy__before_anything_is_known)
{
    plug();
    run(a, [&] {
        kapi_cm_route to = route();
        ASSERT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), 0);
        kapi_cm_destroy(std::exchange(client.cm, nullptr));
    });
    world.run_for(10 * sim::kSecond);
    EXPECT_FALSE(client.resolved || client.end);
}

TEST_P(VerbsConnect, connect__errors)
{
    run(a, [&] {
        kapi_cm_route to = route();
        EXPECT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), -KAPI_ENODEV);
    });
    plug();
    run(a, [&] {
        kapi_cm_route to = route();
        to.local = sim::address("10.0.0.9");
        EXPECT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), -KAPI_EADDRNOTAVAIL);
        to.local = sim::address("127.0.0.1");
        EXPECT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), -KAPI_ENODEV);
        to.local = sim::address("10.0.0.1");
        to.remote = sim::address("10.0.0.99", kPort);
        EXPECT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), 0);
    });
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }));
    EXPECT_EQ(client.end->why, KAPI_CM_UNRESOLVED);
    run(a, [&] { kapi_cm_destroy(std::exchange(client.cm, nullptr)); });
}

TEST_P(VerbsConnect, listeners__share_no_port)
{
    plug();
    listen();
    run(b, [&] {
        static constexpr kapi_cm_listener_ops ops{take};
        kapi_cm_listener *other = nullptr;
        kapi_addr any = sim::address("0.0.0.0", kPort), some = sim::address("10.0.0.2", kPort);
        EXPECT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_IP, &any, 8, &ops, this, &other), -KAPI_EADDRINUSE);
        EXPECT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_IP, &some, 8, &ops, this, &other), -KAPI_EINVAL);
        ASSERT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_GID, &any, 8, &ops, this, &other), 0);
        kapi_cm_listener_close(other);
    });
    close_listener();
}

TEST_P(VerbsConnect, request__after_the_end_fails)
{
    plug();
    resolve();
    ask();
    ASSERT_TRUE(wait([&] { return client.end.has_value(); }, 100 * sim::kSecond));
    run(a, [&] {
        std::string hello = "again";
        kapi_cm_options asks = options(hello);
        EXPECT_EQ(kapi_cm_request(client.cm, &asks), -KAPI_EINVAL);
        asks.size = KAPI_CM_REQUEST_BYTES + 1;
        EXPECT_EQ(kapi_cm_request(client.cm, &asks), -KAPI_EINVAL);
    });
    drop_client();
}

TEST_P(VerbsConnect, callbacks__may_not_sleep)
{
    plug();
    static constexpr auto sleeps = [](void *context, kapi_rdma_dev *) { kapi_cm_disconnect(static_cast<Peer *>(context)->cm); };
    static constexpr kapi_cm_ops bad{sleeps, Peer::hear_established, Peer::hear_ended};
    EXPECT_DEATH(
        {
            run(a, [&] {
                kapi_cm_route to = route();
                kapi_cm_connect(&a.initial_net(), &to, &bad, &client, &client.cm);
            });
            world.run_for(10 * sim::kSecond);
        },
        "kapi_cm_disconnect may sleep, but is called from a callback");
}

TEST_P(VerbsConnect, taken__without_being_attached_is_reported)
{
    plug();
    run(b, [&] {
        kapi_addr any = sim::address("::", kPort);
        static constexpr auto forgets = [](void *, kapi_cm *, const kapi_cm_offer *, void *, kapi_size *) { return 1; };
        static constexpr kapi_cm_listener_ops bad{forgets};
        ASSERT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_IP, &any, 8, &bad, this, &listener), 0);
    });
    resolve();
    EXPECT_DEATH(
        {
            ask();
            world.run_for(10 * sim::kSecond);
        },
        "taken without kapi_cm_attach");
    run(a, [&] { kapi_cm_destroy(std::exchange(client.cm, nullptr)); });
    close_listener();
}

TEST_P(VerbsConnect, order_of_the_end__is_checked)
{
    connect();
    EXPECT_DEATH(run(a, [&] { kapi_cm_destroy(client.cm); }), "destroyed before its queue pair");
    EXPECT_DEATH(run(b, [&] { kapi_qp_free(server.qp); }), "16 receives that have not completed");
    EXPECT_DEATH(run(b, [&] { kapi_cq_free(server.recv_cq); }), "ends with 1 queue pairs");
    EXPECT_DEATH(run(b, [&] { kapi_pd_free(server.pd); }), "ends with 1 regions and queue pairs");
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsConnect, ::testing::Range(1, 6));

} // namespace
