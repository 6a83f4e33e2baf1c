// SPDX-License-Identifier: GPL-2.0
// Buffers of sockets whose programs set none: they grow with what is under way and with how fast it is read.
#include "rds_buffers_test.h"

namespace {

TEST_F(Buffers, send_limit__grows_while_the_stream_takes_all)
{
    connect_them();
    // The last doubling is that at which the stream has room left.
    EXPECT_EQ(sent_at_once(), messages_of(4 * kDefault));
    EXPECT_GT(4 * kDefault, kTcpBuffer);
    EXPECT_LT(2 * kDefault, kTcpBuffer);
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), 4 * kDefault);
}

TEST_F(Buffers, send_limit__that_is_set_stays)
{
    connect_them();
    from.sk().sndbuf = 2 * kDefault;
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
}

TEST_F(Buffers, send_limit__that_is_set_after_it_has_grown_is_obeyed)
{
    connect_them();
    sent_at_once();
    from.sk().sndbuf = 2 * 50'000;
    EXPECT_EQ(sent_at_once(), messages_of(50'000));
}

TEST_F(Buffers, send_limit__has_a_maximum)
{
    connect_them();
    settings().send_limit_max = 150'000;
    EXPECT_EQ(sent_at_once(), messages_of(150'000));
}

TEST_F(Buffers, send_limit__without_one)
{
    connect_them();
    settings().send_limit_max = 0;
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
}

// They fill the memory first.
TEST_F(Buffers, send_limit__stays_with_tiny_messages)
{
    connect_them();
    world.network().cut(a, b);
    unsigned count = 0;
    run(a, [&] {
        while (send(from, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
    });
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    world.network().cut(a, b, false);
    run(b, [&] {
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(receive(to), "x");
    });
}

// SO_BUF_LOCK sets and unsets without notice. A sender that met the limit of a set buffer would wait for room that is there.
TEST_F(Buffers, send_limit__does_not_come_back_for_a_sender_that_waits)
{
    connect_them();
    sent_at_once();
    world.network().cut(a, b);
    unsigned count = 0;
    run(a, [&] {
        for (; count < 5; count++)
            EXPECT_GT(send_one(), 0);
        from.sk().sndbuf = 2 * kDefault;
        EXPECT_EQ(send_one(), -KAPI_EAGAIN);
        from.sk().sndbuf = sim::BufferSize();
        EXPECT_EQ(send_one(), -KAPI_EAGAIN);
    });
    world.network().cut(a, b, false);
    read(count);
}

// SO_SNDBUF, then SO_BUF_LOCK.
TEST_F(Buffers, send_limit__does_not_come_back_when_it_is_unset_again)
{
    connect_them();
    sent_at_once();
    run(a, [&] {
        from.sk().sndbuf = 2 * kDefault;
        rds_socket_send_limit_changed(from.core());
    });
    from.sk().sndbuf = sim::BufferSize();
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
}

// What is not connected takes nothing.
TEST_F(Buffers, send_limit__stays_while_there_is_no_stream)
{
    unsigned count = 0;
    run(a, [&] {
        while (send(from, std::string(kSize, 'x'), "10.0.0.77", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
    });
    EXPECT_EQ(count, messages_of(kDefault));
}

TEST_F(Buffers, send_limit__is_the_default_again_after_congestion)
{
    connect_them();
    sent_at_once();
    settings().send_limit_max = 0; // for the limit that it has by now, too late
    EXPECT_EQ(sent_at_once(), messages_of(4 * kDefault));
    to.sk().rcvbuf = 4096;
    unsigned count = sent_until_congested();
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    read(count);
    EXPECT_EQ(sent_at_once(), messages_of(kDefault));
}

TEST_F(Buffers, send_limit__is_the_default_again_when_a_sender_waits_for_a_congested_port)
{
    connect_them();
    sent_at_once();
    settings().send_limit_max = 0;
    to.sk().rcvbuf = 4096;
    run(a, [&] { EXPECT_GT(send_one(), 0); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), 4 * kDefault);
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 70), 1); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(sender->is_done());
    EXPECT_EQ(reported(a, HAWSER_RDS_SOCKET_SEND_BUFFER), kDefault);
    read(1);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 60 * sim::kSecond));
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
}

// Settings may be written twice before one of the writers notifies, and the limits of a namespace may change.
TEST_F(Buffers, streams_that_began_between_two_writes__have_the_sizes_of_the_last)
{
    auto write = [&](int size) {
        rds_tcp_net_sysctl(host_a.net().tcp)->rds_tcp_sndbuf = size;
    };
    auto works_of_notice = [&] {
        std::uint64_t before = a.works_run;
        run(a, [&] { rds_tcp_net_sysctl_changed(host_a.net().tcp); });
        world.run_for(10 * sim::kMillisecond);
        return a.works_run - before;
    };
    write(300'000);
    works_of_notice();
    write(500'000);
    connect_them();
    write(300'000);
    EXPECT_GT(works_of_notice(), 1u);
    unsigned streams = 0;
    for (const sim::TcbRef &tcb : world.network().tcbs()) {
        if (tcb->node != &a || tcb->state != sim::TcpState::established)
            continue;
        EXPECT_EQ(tcb->options.sndbuf, 300'000u);
        streams++;
    }
    EXPECT_GT(streams, 0u);
    EXPECT_EQ(works_of_notice(), 1u) << "streams that have these sizes are left alone";
}

/** Anyone can be the administrator of a user's namespace. */
class BuffersOfUsers : public Buffers {
protected:
    static constexpr unsigned kUsual = 512 << 10;
    BuffersOfUsers() { a.wmem_max = 8 * kUsual; }
    /** As sent_at_once(), of another socket, which may have more than usual. In a task of a. */
    unsigned fill(kapi_net &net, const char *address)
    {
        RdsSocket socket(host_a);
        rds_tcp_net_sysctl(host_a.net(net).tcp)->rds_tcp_sndbuf = 8 * kUsual;
        EXPECT_EQ(socket.open(net), 0);
        EXPECT_EQ(socket.bind(sim::address(address, 71)), 0);
        EXPECT_EQ(send(socket, "first", "10.0.0.2", 70), 5);
        world.sleep(sim::kSecond);
        unsigned count = 0;
        world.network().cut(a, b);
        while (send(socket, std::string(kSize, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) > 0)
            count++;
        world.network().cut(a, b, false);
        return count;
    }
    unsigned fill_of_user()
    {
        kapi_net &net = a.add_net();
        net.owner = 1000;
        net.add(sim::address("10.0.0.9"));
        EXPECT_EQ(host_a.add_net(net), 0);
        rds_net_sysctl(host_a.net(net).rds)->send_limit_max = 4 * kUsual;
        unsigned count = fill(net, "10.0.0.9");
        EXPECT_TRUE(host_a.delete_nets({&net}));
        return count;
    }
};

TEST_F(BuffersOfUsers, send_limit__is_the_usual_one_at_most)
{
    settings().send_limit_max = 4 * kUsual;
    run(a, [&] {
        EXPECT_EQ(fill_of_user(), messages_of(kUsual));
        EXPECT_EQ(fill(a.initial_net(), "10.0.0.1"), messages_of(4 * kUsual));
    });
}

TEST_F(BuffersOfUsers, send_limit__is_that_of_the_host_at_most)
{
    settings().send_limit_max = 150'000;
    run(a, [&] { EXPECT_EQ(fill_of_user(), messages_of(150'000)); });
}

} // namespace
