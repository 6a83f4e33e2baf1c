// SPDX-License-Identifier: GPL-2.0
// RDS over RDMA in several namespaces of a machine: which device is whose, and that a namespace ends with its programs.
#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "net/rds/rdma/link.h"
#include "net/rds/rdma/net.h"
#include "rds_rdma_test.h"

namespace {

constexpr const char *kInside = "10.0.1.1", *kOutside = "10.0.0.1";

class RdsRdmaNamespaces : public RdmaTest {
protected:
    RdsRdmaNamespaces() : inside(&a.add_net())
    {
        inside->add(sim::address(kInside));
        dev_inside = &sim::plug_rdma(*inside, "rxe_i");
    }
    ~RdsRdmaNamespaces() override
    {
        if (inside && host_a.is_loaded())
            run(a, [&] { EXPECT_TRUE(host_a.delete_nets({inside})); }, 30 * sim::kSecond);
    }
    /** rds_tcp, too: it is what a namespace has without RDMA. */
    void load_both()
    {
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] {
                ASSERT_EQ(host->load(), 0);
                ASSERT_EQ(host->load_rdma(), 0);
            });
    }
    int try_open(RdsSocket &socket, int type = RDS_ABI_TRANS_IB)
    {
        if (int err = socket.open(*inside))
            return err;
        socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kSecond;
        if (int err = socket.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)))
            return err;
        return socket.bind(sim::address(kInside, kPort));
    }
    void open_inside(Program &program)
    {
        run(a, [&] { ASSERT_EQ(try_open(program.socket), 0); });
    }
    void pass(Program &from, Program &to, const std::string &bytes)
    {
        auto sends = spawn(from, [&] { from.send(bytes); });
        auto receives = spawn(to, [&] { EXPECT_EQ(to.receive(), bytes); });
        EXPECT_TRUE(wait({sends, receives})) << bytes;
    }
    int transport_of(RdsSocket &socket)
    {
        int type = -2, size = sizeof(type);
        EXPECT_EQ(socket.get_option(RDS_ABI_SO_TRANSPORT, &type, &size), 0);
        return type;
    }

    kapi_net *inside;
    kapi_rdma_dev *dev_inside;
    Program pi = on_a(kInside), po = on_a(kOutside), pb = on_b();
};

// Each has its rows, counters and settings.
TEST_P(RdsRdmaNamespaces, have_connections_of_their_own)
{
    load_both();
    open_inside(pi);
    open(po);
    open(pb);
    rds_rdma_net_sysctl(host_a.net(*inside).rdma)->max_recv_wr = 17;
    pass(po, pb, "from outside");
    pass(pi, pb, "from inside");
    auto to_inside = on_b("10.0.0.2", kInside), to_outside = on_b("10.0.0.2", kOutside);
    open(to_inside, kPort + 1);
    open(to_outside, kPort + 2);
    pass(to_inside, pi, "to inside");
    pass(to_outside, po, "to outside");
    for (auto [program, address, ring] : {std::tuple{&pi, kInside, 17u}, std::tuple{&po, kOutside, 128u}}) {
        auto connections = rows<rds_abi_info_rdma_connection>(*program, RDS_ABI_INFO_IB_CONNECTIONS);
        ASSERT_EQ(connections.size(), 1u);
        kapi_addr own = sim::address(address);
        EXPECT_EQ(std::memcmp(&connections[0].src_addr, own.ip + 12, 4), 0);
        EXPECT_EQ(connections[0].max_recv_wr, ring);
        EXPECT_GT(counter(*program, "ib_rx_total_incs"), 0u);
    }
    for (Program *program : {&pi, &po, &pb, &to_inside, &to_outside})
        close(*program);
}

// Whatever the administrator of a container sets there.
TEST_P(RdsRdmaNamespaces, leave_buffers_to_the_initial_one)
{
    load_both();
    open_inside(pi);
    open(po);
    open(pb);
    rds_rdma_net_sysctl(host_a.net().rdma)->max_recv_allocation = 1000; // half of it is less than a whole ring
    rds_rdma_net_sysctl(host_a.net(*inside).rdma)->max_recv_allocation = ~0ul;
    pass(pi, pb, "from inside");
    pass(po, pb, "from outside");
    EXPECT_EQ(counter(pi, "ib_rx_alloc_limit"), 1u) << "a short one";
    for (Program *program : {&pi, &po, &pb})
        close(*program);
}

// There he can have any number of peers, which are he himself. The administrator's have nothing where peers have used up theirs.
TEST_P(RdsRdmaNamespaces, have_rings_of_the_share_of_their_user)
{
    constexpr kapi_u32 kUser = 5000; // more than there are shares
    const kapi_addr peer = sim::address("10.0.0.2");
    for (kapi_u32 owner : {0u, kUser}) {
        inside->owner = owner;
        load_both();
        open_inside(pi);
        auto to_inside = on_b("10.0.0.2", kInside);
        open(to_inside, kPort + 1);
        rds_rdma::RingShares *rings = nullptr;
        std::vector<rds_rdma::Ring> taken;
        run(a, [&] {
            rings = &rds_rdma::Module::get().rings;
            for (rds_rdma::Ring ring; ring = rings->take(KAPI_USERS, peer, 64, 1 << 20, {256, 0, 8, 5, 128}), ring.buffers == 64;)
                taken.push_back(ring);
        });
        auto sends = spawn(to_inside, [&] { to_inside.send("to inside"); });
        world.run_for(3 * sim::kSecond);
        auto connections = rows<rds_abi_info_rdma_connection>(pi, RDS_ABI_INFO_IB_CONNECTIONS);
        EXPECT_EQ(connections.size() == 1 && connections[0].max_recv_wr != 0, owner == kUser) << owner;
        run(a, [&] {
            for (const rds_rdma::Ring &ring : taken)
                rings->give(ring, peer);
        });
        run(a, [&] { EXPECT_EQ(pi.receive(), "to inside"); });
        EXPECT_TRUE(wait({sends}));
        close(pi);
        close(to_inside);
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] { EXPECT_TRUE(host->unload_soon()); }, 200 * sim::kSecond);
    }
}

TEST_P(RdsRdmaNamespaces, use_a_device_in_exclusive_mode__if_it_is_theirs)
{
    sim::make_exclusive(*dev_inside);
    sim::make_exclusive(*dev_a);
    load_both();
    open_inside(pi);
    open(po);
    open(pb);
    pass(pi, pb, "from inside");
    pass(po, pb, "from outside");
    for (Program *program : {&pi, &po, &pb})
        close(*program);
}

TEST_P(RdsRdmaNamespaces, do_without_a_device_in_exclusive_mode__of_another)
{
    sim::make_exclusive(*dev_inside, &a.initial_net());
    load_both();
    run(a, [&] {
        RdsSocket rdma(host_a), any(host_a);
        EXPECT_EQ(try_open(rdma), -KAPI_ENOPROTOOPT);
        ASSERT_EQ(any.open(*inside), 0);
        EXPECT_EQ(any.bind(sim::address(kInside, kPort + 1)), 0);
        EXPECT_EQ(transport_of(any), RDS_ABI_TRANS_TCP);
    });
}

// The mode is changed under a socket: what it has stays, and new connections are refused until it is changed back.
TEST_P(RdsRdmaNamespaces, lose_a_device_to_another__for_new_connections)
{
    load_both();
    open_inside(pi);
    open(pb);
    sim::make_exclusive(*dev_inside, &a.initial_net());
    auto sends = spawn(pi, [&] { pi.send("waits"); });
    auto receives = spawn(pb, [&] { EXPECT_EQ(pb.receive(), "waits"); });
    EXPECT_FALSE(wait({receives}, 5 * sim::kSecond));
    sim::make_exclusive(*dev_inside, inside);
    EXPECT_TRUE(wait({sends, receives}));
    close(pi);
    close(pb);
}

// The host's connection manager holds a namespace for each listener and connection.
TEST_P(RdsRdmaNamespaces, end_with_their_last_socket)
{
    load_both();
    open(pb);
    open_inside(pi);
    pass(pi, pb, "hello");
    auto second = on_a(kInside);
    run(a, [&] {
        ASSERT_EQ(second.socket.open(*inside), 0);
        ASSERT_EQ(second.socket.bind(sim::address(kInside, kPort + 1)), 0);
    });
    close(second);
    auto to_inside = on_b("10.0.0.2", kInside);
    open(to_inside, kPort + 2);
    pass(to_inside, pi, "still there");
    cut(true); // nothing that is in flight is waited for
    run(b, [&] { to_inside.send("is never received"); });
    run(a, [&] { pi.send("neither"); });
    close(pi);
    run(a, [&] { EXPECT_TRUE(host_a.delete_nets({std::exchange(inside, nullptr)})); }, 30 * sim::kSecond);
    cut(false);
    close(pb);
    close(to_inside);
}

TEST_P(RdsRdmaNamespaces, are_not_connected__without_a_socket)
{
    load_both();
    auto to_inside = on_b("10.0.0.2", kInside);
    open(to_inside);
    run(b, [&] { to_inside.send("waits"); });
    world.run_for(5 * sim::kSecond);
    EXPECT_TRUE(rows<rds_abi_info_rdma_connection>(to_inside, RDS_ABI_INFO_IB_CONNECTIONS).size() == 1u);
    open_inside(pi);
    auto receives = spawn(pi, [&] { EXPECT_EQ(pi.receive(), "waits"); });
    EXPECT_TRUE(wait({receives}));
    EXPECT_GT(counter(pi, "ib_rx_total_incs"), 0u);
    close(pi);
    close(to_inside);
}

// What arrives while there is no socket is dropped; nothing arrives twice, or out of order, and the last socket gets all that is
// sent to it.
TEST_P(RdsRdmaNamespaces, receive_nothing_twice__when_sockets_come_and_go)
{
    load_both();
    auto to_inside = on_b("10.0.0.2", kInside);
    open(to_inside);
    constexpr unsigned kMessages = 400;
    unsigned rounds = 0, sent = 0;
    auto sends = spawn(to_inside, [&] {
        to_inside.socket.sk().sndtimeo_ns = 20 * sim::kSecond;
        for (; sent < kMessages; sent++) {
            to_inside.send(numbered(100, sent));
            world.sleep(world.random().below(20 * sim::kMillisecond));
        }
    });
    unsigned next = 0;
    auto receives = spawn(pi, [&] {
        while (next < kMessages) {
            RdsSocket socket(host_a);
            ASSERT_EQ(try_open(socket), 0);
            rounds++;
            unsigned begun_at = sent;
            for (std::uint64_t until = world.now_ns() + world.random().below(sim::kSecond);
                 next < kMessages && (world.now_ns() < until || begun_at >= kMessages / 2);) {
                char buffer[200];
                long size = socket.receive(buffer, sizeof(buffer), nullptr);
                ASSERT_EQ(size, 100);
                unsigned number;
                std::memcpy(&number, buffer, sizeof(number));
                ASSERT_GE(number, next);
                if (begun_at >= kMessages / 2 && number > begun_at) {
                    ASSERT_EQ(number, std::max(next, begun_at + 1));
                }
                next = number + 1;
            }
        }
    });
    EXPECT_TRUE(wait({sends, receives}, 200 * sim::kSecond));
    EXPECT_EQ(next, kMessages);
    EXPECT_GT(rounds, 2u);
    close(to_inside);
}

TEST_P(RdsRdmaNamespaces, are_refused__where_they_cannot_listen)
{
    load_both();
    static constexpr kapi_cm_listener_ops ops{.request = [](void *, kapi_cm *, const kapi_cm_offer *, void *, kapi_size *) {
        return 0;
    }};
    run(a, [&] {
        kapi_addr any = sim::address("0.0.0.0", 18634);
        kapi_cm_listener *taken = nullptr;
        ASSERT_EQ(kapi_cm_listen(inside, KAPI_CM_IP, &any, 8, &ops, nullptr, &taken), 0);
        RdsSocket socket(host_a);
        EXPECT_EQ(try_open(socket), -KAPI_EADDRINUSE);
        kapi_cm_listener_close(taken);
        EXPECT_EQ(socket.bind(sim::address(kInside, kPort)), 0);
    });
    run(a, [&] {
        unsigned failed = 0;
        for (unsigned step = 1; step < 30; step++) {
            RdsSocket socket(host_a);
            a.faults().fail_at = a.faults().count + step;
            failed += try_open(socket) != 0;
            a.faults().fail_at = 0;
        }
        EXPECT_GT(failed, 3u);
        EXPECT_LT(failed, 29u);
    });
}

// Who binds and who closes are ordered: there are listeners whenever there is a socket.
TEST_P(RdsRdmaNamespaces, listen_for_each_socket__of_many_programs)
{
    load_both();
    bool stopping = false;
    unsigned bound = 0;
    std::vector<sim::TaskRef> tasks;
    for (unsigned i = 0; i < 4; i++)
        tasks.push_back(world.spawn(a, "program", [&, i] {
            while (!stopping) {
                RdsSocket socket(host_a);
                ASSERT_EQ(socket.open(*inside), 0);
                bound += socket.bind(sim::address(kInside, static_cast<kapi_u16>(kPort + 10 + i))) == 0;
                world.sleep(world.random().below(3 * sim::kMillisecond));
                socket.close();
                world.sleep(world.random().below(3 * sim::kMillisecond));
            }
        }));
    auto to_inside = on_b("10.0.0.2", kInside);
    open(to_inside);
    world.run_for(sim::kSecond);
    open_inside(pi);
    pass(to_inside, pi, "hello");
    stopping = true;
    EXPECT_TRUE(wait(tasks));
    EXPECT_GT(bound, 100u);
    pass(to_inside, pi, "still there");
    close(pi);
    close(to_inside);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaNamespaces, ::testing::Range(1, 7));

} // namespace
