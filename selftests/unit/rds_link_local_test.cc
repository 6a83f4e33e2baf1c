// SPDX-License-Identifier: GPL-2.0
// An address that is good on a link only may talk to one that is good everywhere: both ends find the same connection, and the
// same sockets.
#include "rds_test.h"

#include <kapi/errno.h>

#include <string>
#include <utility>

#include "net/rds/net.h"

namespace {

constexpr kapi_u32 kLinkOfA = 5, kLinkOfB = 7;

class LinkLocal : public RdsTest {
protected:
    LinkLocal()
    {
        a.initial_net().add(sim::address("fe80::1"), kLinkOfA);
        b.initial_net().add(sim::address("fe80::2"), kLinkOfB);
        for (auto *net : {&a.initial_net(), &b.initial_net()}) {
            bool is_a = net == &a.initial_net();
            kapi_addr global = sim::address(is_a ? "2001:db8::1" : "2001:db8::2");
            net->remove(global);
            net->add(global, is_a ? kLinkOfA : kLinkOfB); // of the same link
        }
    }
    static kapi_addr on_link(const char *ip, kapi_u16 port, kapi_u32 link)
    {
        bool scoped = std::string(ip).starts_with("fe80");
        return sim::address(ip, port, scoped ? link : 0);
    }
    void open(sim::Node &node, RdsSocket &socket, const kapi_addr &name)
    {
        run(node, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(name), 0);
            socket.sk().rcvtimeo_ns = sim::kSecond;
        });
    }
    // A message from one host to the other and, to the sender's name as it came, one back.
    void there_and_back(RdsSocket &from, sim::Node &from_node, RdsSocket &to, sim::Node &to_node, const kapi_addr &name)
    {
        kapi_addr sender{};
        run(from_node, [&] { EXPECT_EQ(from.send("ping", 4, name, 0), 4); });
        run(to_node, [&] {
            EXPECT_EQ(receive(to, 0, &sender), "ping");
            EXPECT_EQ(to.send("pong", 4, sender, 0), 4);
        });
        run(from_node, [&] { EXPECT_EQ(receive(from), "pong"); });
    }
    void check(const char *of_a, const char *of_b)
    {
        RdsSocket one(host_a), other(host_b);
        open(a, one, on_link(of_a, 11, kLinkOfA));
        open(b, other, on_link(of_b, 12, kLinkOfB));
        there_and_back(one, a, other, b, on_link(of_b, 12, kLinkOfA));
        there_and_back(other, b, one, a, on_link(of_a, 11, kLinkOfB));
        run(a, [&] { one.close(); });
        run(b, [&] { other.close(); });
    }
};

TEST_F(LinkLocal, both_ends) { check("fe80::1", "fe80::2"); }
TEST_F(LinkLocal, the_end_that_connects) { check("2001:db8::1", "fe80::2"); }
TEST_F(LinkLocal, the_end_that_listens) { check("fe80::1", "2001:db8::2"); }
TEST_F(LinkLocal, neither) { check("2001:db8::1", "2001:db8::2"); }

TEST_F(LinkLocal, between_addresses_of_one_host)
{
    for (auto [from, to] : {std::pair{"fe80::1", "2001:db8::1"}, std::pair{"2001:db8::1", "fe80::1"}}) {
        RdsSocket one(host_a), other(host_a);
        open(a, one, on_link(from, 11, kLinkOfA));
        open(a, other, on_link(to, 12, kLinkOfA));
        there_and_back(one, a, other, a, on_link(to, 12, kLinkOfA));
        run(a, [&] { one.close(), other.close(); });
    }
}

// The link of a destination binds a socket to it only as long as it is the destination.
TEST_F(LinkLocal, bind_after_connect)
{
    for (bool again : {false, true}) {
        RdsSocket socket(host_a);
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.connect(on_link("fe80::2", 12, kLinkOfA + 1)), 0);
            if (again) {
                ASSERT_EQ(socket.connect(sim::address("2001:db8::2", 12)), 0);
            }
            EXPECT_EQ(socket.bind(on_link("fe80::1", 11, kLinkOfA)), again ? 0 : -KAPI_EINVAL);
            socket.close();
        });
    }
}

// The same address on two links is two addresses.
TEST_F(LinkLocal, one_address_on_two_links)
{
    a.initial_net().add(sim::address("fe80::1"), kLinkOfA + 1);
    RdsSocket one(host_a), other(host_a), peer(host_b);
    open(a, one, on_link("fe80::1", 11, kLinkOfA));
    open(a, other, on_link("fe80::1", 11, kLinkOfA + 1));
    open(b, peer, sim::address("2001:db8::2", 12));
    auto connections = [&] {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.size();
    };
    run(a, [&] {
        EXPECT_EQ(one.send("x", 1, sim::address("2001:db8::2", 12), RDS_ABI_MSG_DONTWAIT), 1);
        EXPECT_EQ(other.send("x", 1, sim::address("2001:db8::2", 12), RDS_ABI_MSG_DONTWAIT), 1);
    });
    EXPECT_EQ(connections(), 2u);
    run(a, [&] { one.close(), other.close(); });
    run(b, [&] { peer.close(); });
}

} // namespace
