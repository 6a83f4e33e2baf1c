// SPDX-License-Identifier: GPL-2.0
// A full receiver, as the options and poll of a sender show it.
#include "rds_test.h"

#include <kapi/errno.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "net/rds/net.h"

namespace {

/** A receiver of machine b whose buffer is full, as a sender of a has found out. */
class Congested : public RdsTest {
protected:
    Congested() : full(host_b), sender(host_a)
    {
        run(b, [&] {
            ASSERT_EQ(full.open(), 0);
            full.sk().rcvbuf = 4096;
            ASSERT_EQ(full.bind(sim::address("10.0.0.2", 70)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(sender.open(), 0);
            ASSERT_EQ(sender.bind(sim::address("10.0.0.1", 5)), 0);
        });
    }
    void fill(kapi_u16 port = 70)
    {
        world.run_for(sim::kSecond);
        run(a, [&] {
            long result = 0;
            for (int i = 0; i < 50 && result >= 0; i++) {
                result = send(sender, std::string(1000, 'x'), "10.0.0.2", port, RDS_ABI_MSG_DONTWAIT);
                world.sleep(10 * sim::kMillisecond);
            }
            EXPECT_EQ(result, -KAPI_ENOBUFS);
        });
    }
    void drain() { drain(full); }
    void drain(RdsSocket &socket)
    {
        run(b, [&] {
            while (receive(socket, RDS_ABI_MSG_DONTWAIT).find("error") == std::string::npos)
                ;
        });
        world.run_for(sim::kSecond);
    }
    ~Congested() override
    {
        run(a, [&] { sender.close(); });
        run(b, [&] { full.close(); });
    }
    RdsSocket full, sender;
};

TEST_F(Congested, monitor__tells_which_ports_have_room_again)
{
    int on = 1;
    run(a, [&] { EXPECT_EQ(sender.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0); });
    fill();
    run(a, [&] { EXPECT_EQ(sender.poll() & KAPI_IN, 0u); });
    drain();
    run(a, [&] {
        EXPECT_NE(sender.poll() & KAPI_IN, 0u);
        auto [result, told] = receive_control(sender);
        EXPECT_EQ(result, 0);
        ASSERT_EQ(told.size(), 1u);
        EXPECT_EQ(told[0].type, RDS_ABI_CMSG_CONG_UPDATE);
        kapi_u64 mask;
        ASSERT_EQ(told[0].data.size(), sizeof(mask));
        std::memcpy(&mask, told[0].data.data(), sizeof(mask));
        EXPECT_EQ(mask, kapi_u64{1} << (70 % 64));
        EXPECT_EQ(sender.poll() & KAPI_IN, 0u);
        EXPECT_EQ(send(sender, "again", "10.0.0.2", 70), 5);
    });
}

// What a notice has reported is not reported again with other ports that have room.
TEST_F(Congested, monitor__is_notified_once_of_a_port)
{
    int on = 1;
    RdsSocket second(host_b);
    run(a, [&] { EXPECT_EQ(sender.set_option(RDS_ABI_CONG_MONITOR, &on, 4), 0); });
    run(b, [&] {
        ASSERT_EQ(second.open(), 0);
        second.sk().rcvbuf = 4096;
        ASSERT_EQ(second.bind(sim::address("10.0.0.2", 71)), 0);
    });
    for (auto [socket, port] : {std::pair{&full, kapi_u16{70}}, std::pair{&second, kapi_u16{71}}}) {
        fill(port);
        drain(*socket);
        run(a, [&] {
            auto [result, told] = receive_control(sender);
            ASSERT_EQ(told.size(), 1u);
            kapi_u64 mask;
            ASSERT_EQ(told[0].data.size(), sizeof(mask));
            std::memcpy(&mask, told[0].data.data(), sizeof(mask));
            EXPECT_EQ(mask, kapi_u64{1} << (port % 64));
        });
    }
    run(b, [&] { second.close(); });
}

// Taking the message would leave room; a copy that fails puts it back, and the port is as full as before.
TEST_F(Congested, receive__a_fault_leaves_the_port_full)
{
    auto refused = [&] {
        world.run_for(sim::kSecond);
        long result = 0;
        run(a, [&] { result = send(sender, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT); });
        return result == -KAPI_ENOBUFS;
    };
    run(a, [&] { EXPECT_EQ(send(sender, std::string(3000, 'x'), "10.0.0.2", 70), 3000); });
    EXPECT_TRUE(refused());
    run(b, [&] {
        full.trouble.fault_at = 0;
        char text[3000];
        EXPECT_EQ(full.receive(text, sizeof(text), nullptr, RDS_ABI_MSG_DONTWAIT), -KAPI_EFAULT);
    });
    EXPECT_TRUE(refused());
    run(b, [&] { EXPECT_EQ(receive(full).size(), 3000u); });
    EXPECT_FALSE(refused());
}

// The bit of a port needs memory when it is the first of its part of the map.
TEST_F(Congested, port_whose_bit_finds_no_memory__is_full_from_the_next_message_on)
{
    constexpr unsigned kCalls = 6, kPortsOfPart = 4096;
    unsigned accepted = 0;
    run(a, [&] { EXPECT_EQ(send(sender, "x", "10.0.0.2", 70), 1); });
    for (unsigned call = 1; call <= kCalls; call++) {
        RdsSocket socket(host_b);
        const kapi_u16 port = static_cast<kapi_u16>(call * kPortsOfPart);
        auto refused = [&] {
            world.run_for(sim::kSecond);
            long result = 0;
            run(a, [&] { result = send(sender, "x", "10.0.0.2", port, RDS_ABI_MSG_DONTWAIT); });
            return result == -KAPI_ENOBUFS;
        };
        run(b, [&] {
            ASSERT_EQ(socket.open(), 0);
            socket.sk().rcvbuf = 4096;
            ASSERT_EQ(socket.bind(sim::address("10.0.0.2", port)), 0);
        });
        world.run_for(sim::kSecond);
        b.faults().fail_at = b.faults().count + call;
        run(a, [&] { EXPECT_EQ(send(sender, std::string(3000, 'x'), "10.0.0.2", port), 3000); });
        accepted += !refused();
        EXPECT_TRUE(refused());
        run(b, [&] { socket.close(); });
    }
    EXPECT_EQ(accepted, 1u) << "of the calls that failed one was for the bit";
}

TEST_F(Congested, poll__wakes_programs_that_know_no_monitors)
{
    fill();
    run(a, [&] { sender.poll(); });
    drain();
    run(a, [&] {
        EXPECT_NE(sender.poll() & KAPI_WRBAND, 0u);
        EXPECT_EQ(sender.poll() & KAPI_WRBAND, 0u); // once
    });
}

// A stranger's port, which is full and free again all the time, wakes all of them.
TEST_F(Congested, programs_that_wait_for_other_ports__try_again_a_limited_number_of_times)
{
    constexpr unsigned kPrograms = 100;
    std::vector<std::unique_ptr<RdsSocket>> sockets;
    unsigned tries = 0;
    fill();
    run(a, [&] {
        for (unsigned i = 0; i < kPrograms; i++) {
            RdsSocket &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", static_cast<kapi_u16>(100 + i))), 0);
        }
        bool ends = false;
        std::vector<sim::TaskRef> programs;
        for (auto &socket : sockets)
            programs.push_back(world.spawn(a, "program", [&] {
                while (!ends) {
                    EXPECT_EQ(send(*socket, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
                    tries++;
                    socket->wait(KAPI_WRBAND, sim::kSecond);
                }
            }));
        world.sleep(sim::kMillisecond);
        tries = 0;
        for (unsigned i = 0; i < 1000; i++) {
            reinterpret_cast<rds::Net *>(host_a.net().rds)->congestion_changed();
            world.sleep(100 * sim::kMicrosecond);
        }
        EXPECT_GE(tries, 30 * kPrograms) << "in a tenth of a second";
        EXPECT_LE(tries, 60 * kPrograms);
        ends = true;
        world.sleep(3 * sim::kSecond);
        for (auto &task : programs)
            EXPECT_TRUE(task->is_done());
        sockets.clear();
    });
}

// Who has many sockets that wait for ports has long pauses, and others wait for none of them.
TEST_F(Congested, sockets_of_another_user__are_notified_without_its_pause)
{
    constexpr unsigned kSockets = 1000; // 20 ms
    std::vector<std::unique_ptr<RdsSocket>> sockets;
    fill();
    run(a, [&] {
        for (unsigned i = 0; i <= kSockets; i++) {
            RdsSocket &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", static_cast<kapi_u16>(100 + i))), 0);
        }
        RdsSocket &other = *sockets.back();
        other.sk().user++;
        auto refused = [&](RdsSocket &socket) {
            return send(socket, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) == -KAPI_ENOBUFS;
        };
        auto changed = [&] { reinterpret_cast<rds::Net *>(host_a.net().rds)->congestion_changed(); };
        for (auto &socket : sockets)
            ASSERT_TRUE(refused(*socket));
        changed();
        world.sleep(sim::kMillisecond); // all are notified
        kapi_u64 woken[2];
        std::vector<sim::TaskRef> programs;
        for (RdsSocket *socket : {sockets.front().get(), &other})
            programs.push_back(world.spawn(a, "program", [&, socket, at = &woken[programs.size()]] {
                EXPECT_NE(socket->wait(KAPI_WRBAND, 0), 0u);
                EXPECT_TRUE(refused(*socket));
                EXPECT_NE(socket->wait(KAPI_WRBAND, sim::kSecond), 0u);
                *at = world.now_ns();
            }));
        world.sleep(sim::kMillisecond);
        kapi_u64 before = world.now_ns();
        changed();
        world.sleep(100 * sim::kMillisecond);
        EXPECT_GT(woken[0] - before, 10 * sim::kMillisecond) << "the pause of the many";
        EXPECT_LT(woken[1] - before, 2 * sim::kMillisecond);
        sockets.clear();
    });
}

} // namespace
