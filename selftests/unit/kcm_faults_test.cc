// SPDX-License-Identifier: GPL-2.0
// Every allocation, and every kapi call that can fail without memory, is failed once over a fixed course of events:
// the calls may report it, everything still arrives, and nothing leaks.
#include "kapi_sim_test.h"

#include <kapi/errno.h>

#include <functional>
#include <string>

#include "selftests/sim/kcm_host.h"

namespace {

/** Repeats a step that may fail without memory until it works; the failure is injected once. */
long again(const std::function<long()> &attempt)
{
    long result = -KAPI_ENOMEM;
    for (int i = 0; i < 5 && result == -KAPI_ENOMEM; i++)
        result = attempt();
    return result;
}

/** Two KCM sockets and a connection; the peer sends back what it gets. */
struct Course {
    explicit Course(std::uint64_t fail_at) : world(7)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
        a.faults().fail_at = fail_at;
    }

    void peer()
    {
        kapi_listener *listener = sim::program_listen(b.initial_net(), sim::address("::", 7000));
        ready = true;
        int fd = sim::program_accept(listener);
        char bytes[5000];
        for (long got; (got = sim::program_read(fd, bytes, sizeof(bytes))) > 0;)
            sim::program_write(fd, bytes, static_cast<std::size_t>(got));
        sim::program_close(fd);
        sim::program_unlisten(listener);
    }

    static std::string framed(std::size_t size)
    {
        std::string bytes(size + 4, 'x');
        for (int i = 0; i < 4; i++)
            bytes[static_cast<std::size_t>(i)] = static_cast<char>(size >> (24 - 8 * i));
        return bytes;
    }

    void exchange(KcmSocket &socket)
    {
        for (std::size_t size : {100u, 3000u, 90'000u}) {
            std::string out = framed(size), in(size + 100, '\0');
            EXPECT_EQ(again([&] { return socket.send(out.data(), out.size()); }), static_cast<long>(out.size()));
            EXPECT_EQ(again([&] { return socket.receive(in.data(), in.size()); }), static_cast<long>(out.size()));
            in.resize(out.size());
            EXPECT_EQ(in, out);
        }
    }

    void program()
    {
        KcmHost host(a);
        ASSERT_EQ(again([&] { return host.load(); }), 0);
        int filter = sim::program_length_filter(), fd = -1;
        KcmSocket socket(host), other(host);
        ASSERT_EQ(again([&] { return socket.open(); }), 0);
        while (!ready)
            world.sleep(sim::kMillisecond);
        again([&] {
            fd = sim::program_connect(a.initial_net(), sim::address("10.0.0.1"), sim::address("10.0.0.2", 7000));
            return fd;
        });
        ASSERT_GT(fd, 0);
        ASSERT_EQ(again([&] { return socket.attach(fd, filter); }), 0);
        socket.sk().rcvtimeo_ns = 20 * sim::kSecond;
        exchange(socket);
        ASSERT_EQ(again([&] { return other.open_as_clone(socket); }), 0);
        EXPECT_EQ(again([&] { return socket.unattach(fd); }), 0);
        EXPECT_EQ(again([&] { return other.attach(fd, filter); }), 0);
        other.close();
        exchange(socket);
        socket.close();
        sim::program_close(fd);
        sim::program_close(filter);
        EXPECT_TRUE(host.unload_soon());
    }

    void run()
    {
        auto first = world.spawn(b, "peer", [&] { peer(); });
        auto second = world.spawn(a, "program", [&] { program(); });
        ASSERT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 200 * sim::kSecond));
        world.run_for(100 * sim::kSecond);
        calls = a.faults().count;
    }

    sim::World world;
    sim::Node &a = world.add_node("a");
    sim::Node &b = world.add_node("b");
    bool ready = false;
    std::uint64_t calls = 0;
};

TEST(KcmFaults, each_call_fails_once)
{
    std::uint64_t calls;
    {
        Course course(0);
        course.run();
        calls = course.calls;
    }
    EXPECT_GT(calls, 30u);
    for (std::uint64_t i = 1; i <= calls && !testing::Test::HasFailure(); i++) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Course course(i);
        course.run();
    }
}

} // namespace
