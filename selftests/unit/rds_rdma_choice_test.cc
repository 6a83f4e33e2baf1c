// SPDX-License-Identifier: GPL-2.0
// Which transport a socket gets, where there are RDMA and TCP.
#include "rds_rdma_test.h"

#include <vector>

#include "net/rds/connection.h"

namespace {

class RdsRdmaChoice : public RdmaTest {
protected:
    void load_both()
    {
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] {
                ASSERT_EQ(host->load(), 0);
                ASSERT_EQ(host->load_rdma(), 0);
            });
    }
    int transport_of(RdsSocket &socket)
    {
        int type = -2, size = sizeof(type);
        EXPECT_EQ(socket.get_option(RDS_ABI_SO_TRANSPORT, &type, &size), 0);
        return type;
    }
};

TEST_P(RdsRdmaChoice, prefers_rdma__for_an_address_that_has_both)
{
    a.initial_net().add(sim::address("10.1.0.1"), 3);
    load_both();
    run(a, [&] {
        RdsSocket both(host_a), tcp_alone(host_a), loop(host_a);
        for (RdsSocket *socket : {&both, &tcp_alone, &loop})
            ASSERT_EQ(socket->open(), 0);
        EXPECT_EQ(both.bind(sim::address("10.0.0.1", kPort)), 0);
        EXPECT_EQ(transport_of(both), RDS_ABI_TRANS_IB);
        EXPECT_EQ(tcp_alone.bind(sim::address("10.1.0.1", kPort)), 0);
        EXPECT_EQ(transport_of(tcp_alone), RDS_ABI_TRANS_TCP);
        EXPECT_EQ(loop.bind(sim::address("127.0.0.1", kPort)), 0);
    });
}

// It would be a socket of TCP for good, and its messages would go another way than those of others of the address.
TEST_P(RdsRdmaChoice, fails__without_the_memory_to_look_for_a_device)
{
    load_both();
    run(a, [&] {
        unsigned failed = 0;
        for (int chosen : {RDS_ABI_TRANS_IB, -1}) {
            for (unsigned step = 1; step < 20; step++) {
                RdsSocket socket(host_a);
                ASSERT_EQ(socket.open(), 0);
                if (chosen >= 0) {
                    ASSERT_EQ(socket.set_option(RDS_ABI_SO_TRANSPORT, &chosen, sizeof(chosen)), 0);
                }
                a.faults().fail_at = a.faults().count + step;
                int bound = socket.bind(sim::address("10.0.0.1", kPort));
                a.faults().fail_at = 0;
                EXPECT_EQ(bound, bound ? -KAPI_ENOMEM : 0);
                EXPECT_EQ(bound ? RDS_ABI_TRANS_IB : transport_of(socket), RDS_ABI_TRANS_IB);
                failed += bound != 0;
                socket.close();
            }
        }
        EXPECT_GE(failed, 2u);
    });
}

TEST_P(RdsRdmaChoice, of_a_type_of_service__is_made_once_and_before_there_is_a_connection)
{
    load_both();
    run(a, [&] {
        auto tos = [](RdsSocket &socket, unsigned command, unsigned char value) {
            kapi_optval argument{&value, 1};
            int error = rds_socket_ioctl(socket.core(), command, &argument);
            return error ? error : value;
        };
        RdsSocket chosen(host_a), used(host_a);
        for (RdsSocket *socket : {&chosen, &used})
            ASSERT_EQ(socket->open(), 0);
        ASSERT_EQ(chosen.bind(sim::address("10.0.0.1", kPort)), 0);
        ASSERT_EQ(used.bind(sim::address("10.0.0.1", kPort + 1)), 0);
        EXPECT_EQ(tos(chosen, RDS_ABI_SIOCRDSSETTOS, 3), 3);
        EXPECT_EQ(tos(chosen, RDS_ABI_SIOCRDSSETTOS, 4), -KAPI_EINVAL);
        EXPECT_EQ(tos(chosen, RDS_ABI_SIOCRDSGETTOS, 0), 3);
        ASSERT_EQ(used.send("x", 1, sim::address("10.0.0.2", kPort)), 1);
        EXPECT_EQ(tos(used, RDS_ABI_SIOCRDSSETTOS, 4), -KAPI_EINVAL);
        EXPECT_EQ(tos(used, RDS_ABI_SIOCRDSGETTOS, 0), 0);
    });
}

TEST_P(RdsRdmaChoice, of_a_type_of_service__is_shown)
{
    load_both();
    Program from = on_a();
    open(from);
    unsigned char tos = 5;
    kapi_optval argument{&tos, 1};
    run(a, [&] {
        ASSERT_EQ(rds_socket_ioctl(from.socket.core(), RDS_ABI_SIOCRDSSETTOS, &argument), 0);
        from.send("x");
    });
    auto shown = rows<rds_abi_info_connection>(from, RDS_ABI_INFO_CONNECTIONS);
    ASSERT_EQ(shown.size(), 1u);
    EXPECT_EQ(+shown[0].tos, 5);
    close(from);
}

TEST_P(RdsRdmaChoice, is_not_rdma__of_a_device_with_small_queues)
{
    a.initial_net().add(sim::address("10.1.0.1"), 3);
    a.initial_net().add(sim::address("10.2.0.1"), 4);
    sim::plug_rdma(a.initial_net(), "few requests", 3, [](kapi_rdma_attrs &attrs) { attrs.max_wr = 512; });
    sim::plug_rdma(a.initial_net(), "few pieces", 4, [](kapi_rdma_attrs &attrs) { attrs.max_sge = 5; });
    load_both();
    run(a, [&] {
        for (const char *address : {"10.1.0.1", "10.2.0.1"}) {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(), 0);
            EXPECT_EQ(socket.bind(sim::address(address, kPort)), 0);
            EXPECT_EQ(transport_of(socket), RDS_ABI_TRANS_TCP);
        }
    });
}

// The kernel's own sends its maps over TCP in no order, and a newer one may have come over RDMA.
TEST_P(RdsRdmaChoice, maps_of_a_peer_are_its_transports)
{
    load_both();
    run(a, [&] {
        auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        rds::Endpoint local{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
        rds::Endpoint remote{rds::Ip::from(sim::address("10.0.0.2").ip), 0, 0};
        auto connection_of = [&](int type) {
            const rds_transport *transport = net.module.transport(type);
            auto made = net.connections.get(net, *transport, local, remote, 0, 0, hw::Alloc::charged);
            rds::Module::drop_transport(transport);
            EXPECT_TRUE(made);
            return *made;
        };
        auto tcp = connection_of(RDS_TRANSPORT_TCP), rdma = connection_of(RDS_TRANSPORT_IB);
        std::vector<std::byte> bits(rds::map_bytes);
        bits[kPort / 8] = std::byte{1 << kPort % 8};
        tcp->remote_map().replace(bits.data());
        EXPECT_TRUE(tcp->remote_map().congested(kPort));
        EXPECT_FALSE(rdma->remote_map().congested(kPort));
        rdma->remote_map().replace(bits.data());
        net.forget_peer(remote);
        EXPECT_FALSE(tcp->remote_map().congested(kPort));
        EXPECT_FALSE(rdma->remote_map().congested(kPort));
    });
}

// The connection manager has every device for them.
TEST_P(RdsRdmaChoice, is_not_rdma__for_loopback)
{
    a.initial_net().add(sim::address("127.0.0.1"));
    a.initial_net().add(sim::address("::1"));
    load_both();
    run(a, [&] {
        for (const char *address : {"127.0.0.1", "::1"}) {
            RdsSocket rdma(host_a);
            int type = RDS_ABI_TRANS_IB;
            ASSERT_EQ(rdma.open(), 0);
            ASSERT_EQ(rdma.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)), 0);
            EXPECT_EQ(rdma.bind(sim::address(address, kPort)), -KAPI_ENOPROTOOPT);
        }
    });
}

TEST_P(RdsRdmaChoice, is_the_programs__with_SO_RDS_TRANSPORT)
{
    a.initial_net().add(sim::address("10.1.0.1"), 3);
    load_both();
    run(a, [&] {
        RdsSocket rdma(host_a), tcp(host_a);
        int type = RDS_ABI_TRANS_IB;
        ASSERT_EQ(rdma.open(), 0);
        ASSERT_EQ(rdma.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)), 0);
        EXPECT_EQ(rdma.bind(sim::address("10.1.0.1", kPort)), -KAPI_ENOPROTOOPT) << "no device has it";
        EXPECT_EQ(rdma.bind(sim::address("10.0.0.1", kPort)), 0);
        type = RDS_ABI_TRANS_TCP;
        ASSERT_EQ(tcp.open(), 0);
        ASSERT_EQ(tcp.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)), 0);
        EXPECT_EQ(tcp.bind(sim::address("10.0.0.1", kPort + 1)), 0);
        EXPECT_EQ(transport_of(tcp), RDS_ABI_TRANS_TCP);
    });
}

// Both at once between two hosts: each socket's messages go its way.
TEST_P(RdsRdmaChoice, carries_messages_over_both)
{
    load_both();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    auto tcp_a = on_a();
    run(a, [&] {
        int type = RDS_ABI_TRANS_TCP;
        ASSERT_EQ(tcp_a.socket.open(), 0);
        ASSERT_EQ(tcp_a.socket.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)), 0);
        ASSERT_EQ(tcp_a.socket.bind(sim::address("10.0.0.1", kPort + 1)), 0);
        tcp_a.send("over TCP");
        pa.send("over RDMA");
    });
    run(b, [&] {
        std::vector<std::string> got{pb.receive(), pb.receive()};
        std::sort(got.begin(), got.end());
        EXPECT_EQ(got, (std::vector<std::string>{"over RDMA", "over TCP"}));
    });
    for (Program *program : {&pa, &pb, &tcp_a})
        close(*program);
}

TEST_P(RdsRdmaChoice, is_not_rdma__in_a_namespace_without_device)
{
    kapi_net &other = a.add_net();
    load_both();
    run(a, [&] {
        RdsSocket socket(host_a);
        other.add(sim::address("10.9.0.1"));
        ASSERT_EQ(socket.open(other), 0);
        EXPECT_EQ(socket.bind(sim::address("10.9.0.1", kPort)), 0);
        EXPECT_EQ(transport_of(socket), RDS_ABI_TRANS_TCP);
        int type = RDS_ABI_TRANS_IB;
        RdsSocket rdma(host_a);
        ASSERT_EQ(rdma.open(other), 0);
        EXPECT_EQ(rdma.set_option(RDS_ABI_SO_TRANSPORT, &type, sizeof(type)), 0);
        EXPECT_EQ(rdma.bind(sim::address("10.9.0.1", kPort)), -KAPI_ENOPROTOOPT);
    });
}

TEST_P(RdsRdmaChoice, cannot_be_unloaded_while_a_socket_uses_it)
{
    load_both();
    auto pa = on_a();
    open(pa);
    run(a, [&] { EXPECT_FALSE(host_a.unload_rdma()); });
    close(pa);
    run(a, [&] {
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(host_a.unload_rdma());
        EXPECT_EQ(host_a.load_rdma(), 0);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaChoice, ::testing::Range(1, 4));

} // namespace
