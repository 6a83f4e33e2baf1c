// SPDX-License-Identifier: GPL-2.0
// Every allocation, and every kapi call that can fail for want of memory, is failed once over a fixed course of events over
// RDMA: the calls may report it, everything still arrives, and nothing leaks.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/sim/rdma_control.h>

#include <cstring>
#include <functional>
#include <string>

#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

namespace {

/** Does what may fail for want of memory until it works; the failure is injected once. */
long again(const std::function<long()> &attempt)
{
    long result = -KAPI_ENOMEM;
    for (int i = 0; i < 5 && (result == -KAPI_ENOMEM || result == -KAPI_ENOBUFS || result == -KAPI_ETIMEDOUT); i++)
        result = attempt();
    return result;
}

struct Course {
    Course(std::uint64_t fail_at, bool on_a) : world(7)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
        a.total_memory = b.total_memory = 16 << 20; // so that rings, where all calls are alike, are short
        sim::plug_rdma(a.initial_net(), "rxe_a");
        sim::plug_rdma(b.initial_net(), "rxe_b");
        victim = on_a ? &a : &b;
        victim->faults().fail_at = fail_at;
    }

    static void load(RdsHost &host, RdsSocket &socket, const char *own)
    {
        ASSERT_EQ(again([&] { return host.load_rds(); }), 0);
        ASSERT_EQ(again([&] { return host.load_rdma(); }), 0);
        for (int i = 0; i < 2; i++) {
            ASSERT_EQ(again([&] { return socket.open(); }), 0);
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kSecond;
            long bound = again([&] { return socket.bind(sim::address(own, 7)); });
            if (bound == 0)
                return;
            // For want of memory the device is not used until the module is loaded again, or it was not found at that moment.
            ASSERT_EQ(bound, -KAPI_EADDRNOTAVAIL);
            socket.close();
            ASSERT_TRUE(host.unload_rdma());
            ASSERT_EQ(host.load_rdma(), 0);
        }
        FAIL() << "not bound";
    }

    void program(RdsHost &host, const char *own, const char *peer)
    {
        RdsSocket socket(host);
        load(host, socket, own);
        ready++;
        while (ready < 2)
            world.sleep(sim::kMillisecond);
        for (std::size_t size : {100u, 5000u, 20'000u}) {
            std::string out(size, 'x'), in(size + 1, '\0');
            EXPECT_EQ(again([&] { return socket.send(out.data(), size, sim::address(peer, 7)); }),
                      static_cast<long>(size));
            EXPECT_EQ(again([&] { return socket.receive(in.data(), in.size(), nullptr); }), static_cast<long>(size));
        }
        give_memory(socket, peer);
        finished++;
        while (finished < 2) // close() would cancel what the peer has not acknowledged
            world.sleep(sim::kMillisecond);
        world.sleep(20 * sim::kMillisecond);
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    }

    /** Each gives the other one a page to be written, and writes into that of the other. */
    void give_memory(RdsSocket &socket, const char *peer)
    {
        std::string page(4096, '\0'), bytes(3000, 'y');
        kapi_u64 cookie = 0, theirs = 0;
        rds_abi_get_mr_args region{{at(page.data()), page.size()}, at(&cookie), 0};
        auto get = [&] { return socket.set_option(RDS_ABI_GET_MR, &region, sizeof(region)); };
        long got = again(get);
        EXPECT_EQ(got == -KAPI_EIO ? get() : got, 0); // the device did not reach the memory, once
        EXPECT_EQ(again([&] { return socket.send(&cookie, 8, sim::address(peer, 7)); }), 8);
        EXPECT_EQ(again([&] { return socket.receive(&theirs, 8, nullptr); }), 8);
        unsigned messages = 0;
        until_done(socket, messages, [&] { write(socket, theirs, bytes, peer); });
        alignas(8) kapi_u64 old = 0;
        unsigned added = until_done(socket, messages, [&] { add(socket, theirs, old, peer); });
        EXPECT_LT(old, added) << "what was added before";
        for (int i = 0; i < 6 && messages < 2; i++)
            take(socket, messages);
        EXPECT_GE(messages, 2u);
        given++;
        while (given < 2) // the other one may have to write again
            world.sleep(sim::kMillisecond);
        EXPECT_EQ(page.substr(0, 3000), bytes);
        EXPECT_NE(page[kCounter], 0) << "added to";
        rds_abi_free_mr_args ended{cookie, 0};
        EXPECT_EQ(socket.set_option(RDS_ABI_FREE_MR, &ended, sizeof(ended)), 0);
    }
    /** The next message is counted, or of the next notice the status is returned. */
    static int take(RdsSocket &socket, unsigned &messages)
    {
        char in[9] = "";
        kapi_msg msg = sim::make_msg(in, sizeof(in), {});
        msg.control_room = 64;
        rds_receive call{};
        call.msg = &msg;
        call.size = sizeof(in);
        long size = again([&] { return static_cast<long>(rds_socket_recvmsg(socket.core(), &call)); });
        EXPECT_TRUE(size == 0 || size == 8) << size;
        messages += size == 8;
        if (msg.control.empty())
            return -1;
        rds_abi_rdma_notify notice;
        std::memcpy(&notice, msg.control[0].data.data(), 12);
        return notice.status;
    }
    /** Does what a notice follows, until it has worked. How often. */
    static unsigned until_done(RdsSocket &socket, unsigned &messages, const std::function<void()> &attempt)
    {
        unsigned attempts = 1;
        attempt();
        for (int i = 0; i < 8; i++) {
            int status = take(socket, messages);
            if (status == RDS_ABI_RDMA_SUCCESS)
                return attempts;
            attempts += status > 0;
            if (status > 0)
                attempt();
        }
        ADD_FAILURE() << "not done";
        return attempts;
    }
    /** A notice follows. */
    static void write(RdsSocket &socket, kapi_u64 cookie, const std::string &bytes, const char *peer)
    {
        rds_abi_iovec local{at(bytes.data()), bytes.size()};
        struct {
            rds_abi_cmsghdr header;
            rds_abi_rdma_args args;
        } control{{sizeof(control), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RDMA_ARGS},
                  {cookie, {0, bytes.size()}, at(&local), 1, RDS_ABI_RDMA_READWRITE | RDS_ABI_RDMA_NOTIFY_ME, 1}};
        send_with(socket, control, peer);
    }
    /** The same: adds one to a counter behind the bytes. */
    static void add(RdsSocket &socket, kapi_u64 cookie, kapi_u64 &old, const char *peer)
    {
        struct {
            rds_abi_cmsghdr header;
            rds_abi_atomic_args args;
        } control{{sizeof(control), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ATOMIC_FADD},
                  {cookie, at(&old), kCounter, {1, 0, 0, 0}, RDS_ABI_RDMA_NOTIFY_ME, 2}};
        send_with(socket, control, peer);
    }
    template <class Control> static void send_with(RdsSocket &socket, const Control &control, const char *peer)
    {
        SocketName name(sim::address(peer, 7));
        char text[8] = "written";
        EXPECT_EQ(again([&] {
            kapi_msg msg = sim::make_msg(text, sizeof(text), {});
            rds_send call{&msg, sizeof(text), name.bytes, name.size, &control, sizeof(control), 0};
            return static_cast<long>(rds_socket_sendmsg(socket.core(), &call));
        }), 8);
    }
    static constexpr kapi_u64 kCounter = 3072;
    static kapi_u64 at(const void *memory) { return reinterpret_cast<std::uintptr_t>(memory); }

    void run()
    {
        RdsHost host_a(a), host_b(b);
        auto first = world.spawn(a, "a", [&] { program(host_a, "10.0.0.1", "10.0.0.2"); });
        auto second = world.spawn(b, "b", [&] { program(host_b, "10.0.0.2", "10.0.0.1"); });
        ASSERT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 200 * sim::kSecond));
        calls = victim->faults().count;
    }

    sim::World world;
    sim::Node &a = world.add_node("a");
    sim::Node &b = world.add_node("b");
    sim::Node *victim;
    unsigned ready = 0, given = 0, finished = 0;
    std::uint64_t calls = 0;
};

void fail_each_once(bool on_a)
{
    std::uint64_t calls;
    {
        Course course(0, on_a);
        course.run();
        calls = course.calls;
    }
    EXPECT_GT(calls, 50u);
    for (std::uint64_t i = 1; i <= calls && !testing::Test::HasFailure(); i++) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Course course(i, on_a);
        course.run();
    }
}

TEST(RdsRdmaFaults, each_call_of_the_smaller_side_fails_once)
{
    fail_each_once(true);
}

TEST(RdsRdmaFaults, each_call_of_the_larger_side_fails_once)
{
    fail_each_once(false);
}

} // namespace
