// SPDX-License-Identifier: GPL-2.0
// Regions and operations when devices go, break or are full; and whom a key serves.
#include <kapi/sim/wake.h>

#include "rds_rdma_memory_test.h"

namespace {

class RdsRdmaRegions : public RdmaMemoryTest {};

// The device's removal meets regions at every moment of their registration.
TEST_P(RdsRdmaRegions, are_got__while_their_device_goes)
{
    open_both();
    Bytes memory(16 * 4096);
    for (unsigned round = 0; round < 6; round++) {
        std::vector<sim::TaskRef> tasks;
        for (unsigned task = 0; task < 4; task++)
            tasks.push_back(spawn(pb, [&, task] {
                for (unsigned i = 0; i < 8; i++) {
                    kapi_u64 cookie = 0;
                    int got = get_mr(pb, memory.data() + 4096 * task, 4096, cookie);
                    EXPECT_TRUE(got == 0 || got == -KAPI_EAGAIN) << got;
                    if (got == 0) {
                        long sent = send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie), "", RDS_ABI_MSG_DONTWAIT);
                        EXPECT_TRUE(sent == 0 || sent == -KAPI_EAGAIN) << sent;
                        EXPECT_EQ(free_mr(pb, cookie), 0);
                    }
                }
            }));
        world.run_for(round * 3 * sim::kMicrosecond);
        unplug(dev_b);
        world.run_for(500 * sim::kMillisecond);
        dev_b = &sim::plug_rdma(b.initial_net(), "again");
        EXPECT_TRUE(wait(tasks, 200 * sim::kSecond));
        run(a, [&] { pa.send("again"); });
        expect_message(pb, "again");
    }
    close_both();
}

// The operation is posted, the message finds no room after it, and the connection breaks: both are given up.
TEST_P(RdsRdmaRegions, a_message_that_waits_behind_its_operation__goes_with_it)
{
    open_both();
    Bytes remote(1 << 20, 0xee), local = pattern(1 << 20, 5);
    kapi_u64 cookie = region_on_b(remote.data(), remote.size());
    std::vector<rds_abi_iovec> vectors;
    for (std::size_t i = 0; i < 1024; i++)
        vectors.push_back({place_of(local.data() + 1024 * i), 1024});
    cut(true);
    run(a, [&] {
        pa.send("breaks the connection");
        EXPECT_EQ(operate(pa, {cookie, 0, vectors}, contents(1 << 20, 9)), 1 << 20);
        pa.send("next");
    });
    world.run_for(5 * sim::kSecond);
    cut(false);
    rds_abi_rdma_notify notice = next_notice(pa);
    EXPECT_EQ(notice.status, RDS_ABI_RDMA_DROPPED);
    EXPECT_EQ(a.pinned_pages, 0u);
    expect_message(pb, "breaks the connection");
    expect_message(pb, "next");
    EXPECT_TRUE(remote == Bytes(1 << 20, 0xee));
    close_both();
}

// The operation was executed, and its program was notified: from then on its message is one like all others.
TEST_P(RdsRdmaRegions, the_message_of_an_operation_that_was_executed__outlives_the_connection)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 5);
    kapi_u64 cookie = region_on_b(remote.data(), remote.size());
    std::string text = contents(1 << 20, 9);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}, text), 1 << 20); });
    expect_success(pa);
    cut(true);
    EXPECT_TRUE(remote == local);
    std::fill(remote.begin(), remote.end(), 0xcc);
    world.run_for(5 * sim::kSecond);
    cut(false);
    run(a, [&] { pa.send("next"); });
    expect_message(pb, text);
    expect_message(pb, "next");
    EXPECT_TRUE(remote == Bytes(100, 0xcc)) << "written twice";
    close_both();
}

// What it may use for ever stays pinned, and programs are not held up.
TEST_P(RdsRdmaRegions, of_a_stuck_device__keep_what_it_may_use)
{
    open_both();
    Bytes remote(8192, 0xee), local = pattern(8192, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 8192);
    sim::make_stuck(*dev_a);
    int got = 0;
    std::uint64_t began = world.now_ns();
    run(a, [&] {
        EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 8192}}, RDS_ABI_RDMA_NOTIFY_ME}), 4);
        kapi_u64 own = 0;
        got = get_mr(pa, local.data(), 100, own);
    });
    EXPECT_EQ(got, -KAPI_ETIMEDOUT);
    EXPECT_LT(world.now_ns() - began, 6 * sim::kSecond);
    unsigned pinned = a.pinned_pages;
    EXPECT_NE(pinned, 0u);
    began = world.now_ns();
    unplug(dev_a);
    EXPECT_LT(world.now_ns() - began, 12 * sim::kSecond) << "the device has ten to end what was posted";
    run(a, [&] {
        SocketName name(sim::address(pa.to, kPort));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
    });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_DROPPED) << "it may have been executed";
    EXPECT_EQ(a.pinned_pages, pinned);
    close(pa);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    EXPECT_EQ(a.pinned_pages, pinned);
    a.crash(); // what was posted is never freed
    close(pb);
}

// Its key still opens the memory to peers: that does not become another program's.
TEST_P(RdsRdmaRegions, of_a_device_that_gives_none_up__keep_their_memory)
{
    sim::keep_regions(*dev_b);
    open_both();
    Bytes remote(8192, 0xee), local = pattern(8192, 1);
    kapi_u64 cookie = region_on_b(remote.data(), remote.size());
    unsigned pinned = b.pinned_pages;
    EXPECT_NE(pinned, 0u);
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), local.size()}}}), 4); });
    expect_success(pa);
    EXPECT_EQ(b.pinned_pages, pinned);
    expect_message(pb, "done");
    unplug(dev_b);
    close(pa);
    close(pb);
    run(b, [&] { EXPECT_TRUE(host_b.unload_soon()); }, 200 * sim::kSecond);
    EXPECT_EQ(b.pinned_pages, pinned);
    b.crash(); // what the device keeps is never freed
}

// One waits for the device, and another one for its turn: the end of the connection is reported to that one at once.
TEST_P(RdsRdmaRegions, of_a_stuck_device__wait_for_no_turn_on_a_connection_that_ended)
{
    open_both();
    Bytes memory(8192);
    sim::make_stuck(*dev_a);
    int first = 0;
    long second = 0;
    std::uint64_t told_ns = 0;
    auto posted = spawn(pa, [&] {
        kapi_u64 cookie = 0;
        first = get_mr(pa, memory.data(), 100, cookie);
    });
    world.run_for(10 * sim::kMillisecond);
    auto waits = spawn(pa, [&] {
        rds_abi_get_mr_args args{{place_of(memory.data() + 4096), 100}, 0, 0};
        second = send_with(pa, Cmsg(RDS_ABI_CMSG_RDMA_MAP, args), "x", RDS_ABI_MSG_DONTWAIT);
        told_ns = world.now_ns();
    });
    world.run_for(10 * sim::kMillisecond);
    std::uint64_t began_ns = world.now_ns();
    unplug(dev_a);
    EXPECT_TRUE(wait({posted, waits}));
    EXPECT_EQ(first, -KAPI_ETIMEDOUT);
    EXPECT_EQ(second, -KAPI_EAGAIN) << "there is no other connection";
    EXPECT_LT(told_ns - began_ns, sim::kSecond);
    close(pa);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    a.crash(); // what was posted is never freed
    close(pb);
}

// A device that comes again may begin with the same keys, and the program has not freed the region that ended with the first.
TEST_P(RdsRdmaRegions, the_newest_is_freed__of_two_with_the_same_key)
{
    sim::repeat_keys(*dev_b);
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 old = region_on_b(remote.data(), 100);
    unplug(dev_b);
    world.run_for(500 * sim::kMillisecond);
    dev_b = &sim::plug_rdma(b.initial_net(), "again");
    sim::repeat_keys(*dev_b);
    run(a, [&] { pa.send("again"); });
    expect_message(pb, "again");
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    ASSERT_EQ(cookie, old);
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    EXPECT_EQ(b.pinned_pages, 0u);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_refusal(pa);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    run(b, [&] { EXPECT_EQ(free_mr(pb, old), 0); });
    close_both();
}

// Where the device works on copies, the bytes are the program's when it gets the message.
TEST_P(RdsRdmaRegions, are_written_and_read__by_a_device_that_bounces)
{
    sim::make_bounce(*dev_b);
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1), back(100, 0);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_message(pb, "done");
    expect_success(pa);
    EXPECT_TRUE(remote == local);
    std::reverse(remote.begin(), remote.end());
    run(b, [&] { EXPECT_EQ(send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie), "read it"), 7); });
    expect_message(pa, "read it");
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(back.data()), 100}}, RDS_ABI_RDMA_NOTIFY_ME}), 4); });
    expect_message(pb, "done");
    expect_success(pa);
    EXPECT_TRUE(back == remote);
    close_both();
}

// The cookie says where in a page the memory begins: a peer would write to another place of it.
TEST_P(RdsRdmaRegions, are_refused__by_a_device_whose_copies_begin_elsewhere)
{
    sim::make_bounce(*dev_b);
    sim::shift_bounces(*dev_b);
    open_both();
    alignas(4096) static unsigned char memory[4096];
    run(b, [&] {
        kapi_u64 cookie = 0;
        EXPECT_EQ(get_mr(pb, memory + 100, 200, cookie), -KAPI_EINVAL);
        EXPECT_EQ(get_mr(pb, memory, 200, cookie), 0);
    });
    close_both();
}

// Another thread looks at it meanwhile, for a message that came or goes: the region does not end when that one is done with it.
TEST_P(RdsRdmaRegions, are_dead_when_they_are_freed__whoever_uses_them)
{
    open_both();
    Bytes remote(100, 0xee);
    for (unsigned round = 0; round < 64; round++) {
        kapi_u64 cookie = region_on_b(remote.data(), 100);
        auto sends = spawn(pb, [&] {
            for (unsigned i = 0; i < 4; i++)
                send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie), "read it", RDS_ABI_MSG_DONTWAIT);
        });
        auto frees = spawn(pb, [&] {
            EXPECT_EQ(free_mr(pb, cookie), 0);
            EXPECT_EQ(b.pinned_pages, 0u) << round;
        });
        EXPECT_TRUE(wait({sends, frees}, sim::kSecond));
        run(a, [&] {
            while (receive(pa, RDS_ABI_MSG_DONTWAIT).result > 0)
                ;
        });
    }
    close_both();
}

// Without a connection there is nobody who could register it: it is waited for, and not for ever.
TEST_P(RdsRdmaRegions, wait_for_a_connection__seconds_at_most)
{
    open(pa);
    open(pb);
    Bytes memory(100);
    kapi_u64 cookie = 0;
    SocketName name(sim::address(pa.to, kPort));
    rds_abi_get_mr_for_dest_args wanted{};
    std::memcpy(&wanted.dest_addr, name.bytes, 16);
    wanted.vec = {place_of(memory.data()), memory.size()};
    wanted.cookie_addr = place_of(&cookie);
    auto get = [&] { return pa.socket.set_option(RDS_ABI_GET_MR_FOR_DEST, &wanted, sizeof(wanted)); };
    rds_abi_get_mr_args map{wanted.vec, 0, 0};
    cut(true);
    run(a, [&] {
        std::uint64_t began = world.now_ns();
        EXPECT_EQ(get(), -KAPI_EAGAIN);
        EXPECT_GE(world.now_ns() - began, 5 * sim::kSecond);
        EXPECT_LT(world.now_ns() - began, 6 * sim::kSecond);
        began = world.now_ns();
        EXPECT_EQ(send_with(pa, Cmsg(RDS_ABI_CMSG_RDMA_MAP, map), "no", RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        EXPECT_LT(world.now_ns() - began, sim::kMillisecond);
        EXPECT_EQ(a.pinned_pages, 0u);
    });
    auto waits = spawn(pa, [&] {
        EXPECT_EQ(get(), 0);
        EXPECT_EQ(free_mr(pa, cookie), 0);
    });
    world.run_for(sim::kSecond);
    cut(false);
    EXPECT_TRUE(wait({waits}, 4 * sim::kSecond));
    close_both();
}

// A queue is woken with interrupts off: each thread wakes the next one.
TEST_P(RdsRdmaRegions, threads_that_wait_for_a_connection__wake_one_another)
{
    constexpr unsigned threads = 100;
    open(pa);
    open(pb);
    Bytes memory(100);
    SocketName name(sim::address(pa.to, kPort));
    std::vector<sim::TaskRef> waiting;
    unsigned made = 0;
    cut(true);
    for (unsigned i = 0; i < threads; i++)
        waiting.push_back(spawn(pa, [&] {
            kapi_u64 cookie = 0;
            rds_abi_get_mr_for_dest_args wanted{};
            std::memcpy(&wanted.dest_addr, name.bytes, 16);
            wanted.vec = {place_of(memory.data()), memory.size()};
            wanted.cookie_addr = place_of(&cookie);
            made += pa.socket.set_option(RDS_ABI_GET_MR_FOR_DEST, &wanted, sizeof(wanted)) == 0;
        }));
    world.run_for(sim::kSecond);
    sim::most_woken_at_once(), sim::threads_woken();
    cut(false);
    EXPECT_TRUE(wait(waiting, 4 * sim::kSecond));
    EXPECT_EQ(made, threads);
    EXPECT_LE(sim::most_woken_at_once(), threads / 4);
    EXPECT_LE(sim::threads_woken(), 5 * threads) << "for the connection, its place to register, and the answer";
    close_both();
}

// A program gives its key to whom it likes, as with the kernel's own: all connections of a namespace at a device have one
// protection domain.
TEST_P(RdsRdmaRegions, a_key_serves_every_peer_of_the_device)
{
    open_both();
    sim::Node &c = world.add_node("c");
    c.initial_net().add(sim::address("10.0.0.3"));
    sim::plug_rdma(c.initial_net(), "rxe_c");
    RdsHost host_c(c);
    run(c, [&] {
        ASSERT_EQ(host_c.load_rds(), 0);
        ASSERT_EQ(host_c.load_rdma(), 0);
    });
    Program pc{*this, host_c, "10.0.0.3", "10.0.0.2"};
    open(pc);
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    run(c, [&] { EXPECT_EQ(operate(pc, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_message(pb, "done");
    expect_success(pc);
    EXPECT_TRUE(remote == local);
    close(pc);
    run(c, [&] { EXPECT_TRUE(host_c.unload_soon()); }, 200 * sim::kSecond);
    close_both();
}

// And none that came over another device of the same host.
TEST_P(RdsRdmaRegions, a_key_serves_no_peer_of_another_device)
{
    b.initial_net().add(sim::address("10.1.0.2"), 3);
    kapi_rdma_dev &other = sim::plug_rdma(b.initial_net(), "other", 3);
    open_both();
    auto far = on_b("10.1.0.2"), near = on_a("10.0.0.1", "10.1.0.2");
    open(far);
    open(near, kPort + 1);
    run(a, [&] { near.send("hello"); });
    expect_message(far, "hello");
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    run(a, [&] { EXPECT_EQ(operate(near, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_refusal(near);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    close(near);
    close(far);
    run(b, [&] { sim::unplug_rdma(other); }, 200 * sim::kSecond);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaRegions, ::testing::Range(1, 9));

} // namespace
