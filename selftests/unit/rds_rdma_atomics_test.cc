// SPDX-License-Identifier: GPL-2.0
// Atomic operations on a peer's memory: what is there afterwards, the old value, who refuses what, and that none is done twice.
#include <set>

#include "rds_rdma_memory_test.h"

namespace {

constexpr int kAdd = RDS_ABI_CMSG_ATOMIC_FADD, kSwap = RDS_ABI_CMSG_ATOMIC_CSWP;
constexpr int kMaskedAdd = RDS_ABI_CMSG_MASKED_ATOMIC_FADD, kMaskedSwap = RDS_ABI_CMSG_MASKED_ATOMIC_CSWP;
constexpr kapi_u64 kAll = ~kapi_u64{0}, kTop = kapi_u64{1} << 63;

class RdsRdmaAtomics : public RdmaMemoryTest {
protected:
    /** A word between guards. */
    struct Word {
        alignas(8) kapi_u64 words[3] = {kGuard, 0, kGuard};
        static constexpr kapi_u64 kGuard = 0xeeeeeeeeeeeeeeee;
        kapi_u64 &value() { return words[1]; }
        bool is(kapi_u64 expected) const { return words[0] == kGuard && words[1] == expected && words[2] == kGuard; }
    };
    struct Atomic {
        int type = kAdd;
        kapi_u64 operand[4] = {1, 0, 0, 0};
        kapi_u64 flags = RDS_ABI_RDMA_NOTIFY_ME;
        kapi_u64 token = 77;
    };
    static rds_abi_atomic_args args_of(const Atomic &atomic, kapi_u64 cookie, kapi_u64 offset, const void *old)
    {
        return {cookie, place_of(old), offset, {atomic.operand[0], atomic.operand[1], atomic.operand[2], atomic.operand[3]},
                atomic.flags, atomic.token};
    }
    long act(const Atomic &atomic, kapi_u64 offset, void *old, const std::string &bytes = "done")
    {
        return send_with(pa, Cmsg(atomic.type, args_of(atomic, cookie, offset, old)), bytes);
    }
    /** With a region of the whole of remote. */
    void open_with_region(kapi_u64 flags = 0)
    {
        open_both();
        cookie = region_on_b(&remote, sizeof(remote), flags);
    }
    /** It is executed, and the peer's message says so. */
    void expect_done(const Atomic &atomic, kapi_u64 before, kapi_u64 after)
    {
        Word old;
        remote.value() = before;
        run(a, [&] { EXPECT_EQ(act(atomic, 8, &old.value()), 4); });
        expect_message(pb, "done");
        EXPECT_TRUE(remote.is(after)) << std::hex << remote.value();
        expect_success(pa);
        EXPECT_TRUE(old.is(before)) << std::hex << old.value();
    }
    void replug(kapi_rdma_dev *&dev, kapi_u32 flags)
    {
        unplug(dev);
        dev = &sim::plug_rdma(node_of_net(dev), "other", 2, [flags](kapi_rdma_attrs &attrs) { attrs.flags = flags; });
        world.run_for(sim::kMillisecond);
    }
    kapi_net &node_of_net(kapi_rdma_dev *&dev) { return (&dev == &dev_a ? a : b).initial_net(); }

    Word remote;
    kapi_u64 cookie = 0;
};

TEST_P(RdsRdmaAtomics, add_and_swap__and_give_the_old_value)
{
    if (GetParam() % 2)
        sim::make_bounce(*dev_a); // the old value is there when the mapping has ended
    open_with_region();
    expect_done({kAdd, {5}}, 0x0102030405060708, 0x010203040506070d);
    expect_done({kAdd, {kAll}}, 0, kAll);
    expect_done({kAdd, {kTop, 99}}, kTop, 0); // the second one is no argument
    expect_done({kSwap, {7, 9}}, 7, 9);
    expect_done({kSwap, {7, 9}}, 8, 8);
    Bytes local = pattern(8, 1);
    for (kapi_u64 flags : {kapi_u64{0}, kapi_u64{RDS_ABI_RDMA_READWRITE}}) { // a read and a write are none
        run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 8}}, flags}), 4); });
        expect_message(pb, "done");
        world.run_for(sim::kSecond);
    }
    EXPECT_EQ(counter(pa, "ib_atomic_fadd"), 3u);
    EXPECT_EQ(counter(pa, "ib_atomic_cswp"), 2u);
    close_both();
}

// Then a device that has no masks can do it.
TEST_P(RdsRdmaAtomics, with_a_mask_that_is_whole__are_plain_ones)
{
    open_with_region();
    expect_done({kMaskedAdd, {5, 0}}, 6, 11);
    expect_done({kMaskedAdd, {5, kTop}}, kAll, 4);
    expect_done({kMaskedSwap, {7, 9, kAll, kAll}}, 7, 9);
    expect_done({kMaskedSwap, {7, 9, kAll, kAll}}, 6, 6);
    expect_done({kMaskedSwap, {0x1234, 0xabcd, kAll, 0xff}}, 0x1234, 0x12cd);
    expect_done({kMaskedSwap, {0x1234, 0xabcd, kAll, 0xff}}, 0x1235, 0x1235);
    close_both();
}

TEST_P(RdsRdmaAtomics, with_masks__are_for_devices_that_have_them)
{
    const Atomic add{kMaskedAdd, {0x1ff, 0x8080}}, swap{kMaskedSwap, {0x1200, 0xabcd, 0xff00, 0xff}};
    open_with_region();
    Word old;
    auto expect_refused = [&] {
        run(a, [&] {
            EXPECT_EQ(act(add, 8, &old.value()), -KAPI_EOPNOTSUPP);
            EXPECT_EQ(act(swap, 8, &old.value()), -KAPI_EOPNOTSUPP);
            EXPECT_EQ(a.pinned_pages, 0u);
        });
    };
    expect_refused();
    cut(true);
    run(a, [&] { pa.send("breaks the connection"); });
    world.run_for(5 * sim::kSecond);
    expect_refused();
    cut(false);
    expect_message(pb, "breaks the connection");
    EXPECT_TRUE(old.is(0));
    EXPECT_TRUE(remote.is(0));
    close_both();
    replug(dev_a, KAPI_RDMA_ATOMICS | KAPI_RDMA_MASKED_ATOMICS);
    open_with_region();
    expect_done(add, 0x7f01, 0x8000); // 0x7f + 1 and 0x01 + 0xff: a carry leaves neither byte
    expect_done(swap, 0x12345613ff, 0x12345613ff);
    expect_done(swap, 0x34561277, 0x345612cd);
    EXPECT_EQ(counter(pa, "ib_atomic_fadd"), 1u);
    EXPECT_EQ(counter(pa, "ib_atomic_cswp"), 2u);
    close_both();
}

TEST_P(RdsRdmaAtomics, are_for_devices_that_have_them)
{
    replug(dev_a, 0);
    open_with_region();
    Word old;
    run(a, [&] {
        for (int type : {kAdd, kSwap, kMaskedAdd, kMaskedSwap})
            EXPECT_EQ(act({type}, 8, &old.value()), -KAPI_EOPNOTSUPP) << type;
    });
    close_both();
    replug(dev_a, KAPI_RDMA_ATOMICS);
    replug(dev_b, 0); // its regions are as before, but for that
    open_with_region();
    run(a, [&] { EXPECT_EQ(act({}, 8, &old.value()), 4); });
    expect_refusal(pa);
    EXPECT_TRUE(remote.is(0));
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

// Nobody knows which device it will be.
TEST_P(RdsRdmaAtomics, fail_later__when_the_next_device_does_not_have_them)
{
    open_with_region();
    Word old;
    unplug(dev_a);
    run(a, [&] {
        EXPECT_EQ(act({kMaskedAdd, {1, 1}}, 8, &old.value()), 4);
        EXPECT_EQ(act({kAdd, {3}, RDS_ABI_RDMA_NOTIFY_ME, 78}, 8, &old.value(), "next"), 4);
    });
    dev_a = &sim::plug_rdma(a.initial_net(), "again");
    rds_abi_rdma_notify notice = next_notice(pa);
    EXPECT_EQ(notice.status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_EQ(notice.user_token, 77u);
    expect_success(pa, 78);
    expect_message(pb, "next");
    EXPECT_TRUE(remote.is(3));
    EXPECT_TRUE(old.is(0));
    close_both();
}

TEST_P(RdsRdmaAtomics, are_refused__that_make_no_sense)
{
    open_with_region();
    Word old;
    run(a, [&] {
        auto with = [&](int type, auto change) {
            rds_abi_atomic_args args = args_of({}, cookie, 8, &old.value());
            change(args);
            return send_with(pa, Cmsg(type, args), "never");
        };
        for (int type : {kAdd, kSwap, kMaskedAdd, kMaskedSwap}) {
            for (unsigned skew = 1; skew < 8; skew++) {
                EXPECT_EQ(with(type, [&](auto &args) { args.local_addr += skew; }), -KAPI_EFAULT);
                EXPECT_EQ(with(type, [&](auto &args) { args.remote_addr += skew; }), -KAPI_EINVAL);
            }
            EXPECT_EQ(with(type, [&](auto &args) { args.remote_addr = kAll - 7; }), -KAPI_EINVAL) << "beyond all addresses";
            EXPECT_EQ(with(type, [&](auto &args) { args.cookie += kapi_u64{1} << 32; }), -KAPI_EINVAL) << "an odd place";
            EXPECT_EQ(with(type, [&](auto &args) { args.local_addr = 0; }), -KAPI_EFAULT);
            EXPECT_EQ(with(type, [&](auto &args) { args.local_addr = kAll - 7; }), -KAPI_EINVAL);
        }
        struct Short {
            char bytes[sizeof(rds_abi_atomic_args) - 8];
        };
        EXPECT_EQ(send_with(pa, Cmsg(kAdd, Short{}), "never"), -KAPI_EINVAL);
        a.memlock_pages = a.pinned_pages;
        EXPECT_EQ(with(kAdd, [](auto &) {}), -KAPI_ENOMEM);
        a.memlock_pages = ~0u;
        EXPECT_EQ(a.pinned_pages, 0u);
        pa.to = "10.0.0.1";
        EXPECT_EQ(with(kAdd, [](auto &) {}), -KAPI_EOPNOTSUPP) << "this host itself";
        EXPECT_EQ(a.pinned_pages, 0u);
        pa.to = "10.0.0.2";
    });
    EXPECT_TRUE(old.is(0));
    EXPECT_TRUE(remote.is(0));
    close_both();
}

TEST_P(RdsRdmaAtomics, reach_the_region__and_nothing_else)
{
    open_both();
    Word old;
    char *at = reinterpret_cast<char *>(&remote.value());
    cookie = region_on_b(at - 4, 16); // 4 bytes before, 4 behind
    run(a, [&] { EXPECT_EQ(act({kAdd, {6}}, 4, &old.value()), 4); });
    expect_message(pb, "done");
    expect_success(pa);
    EXPECT_TRUE(remote.is(6));
    for (kapi_u64 offset : {kapi_u64{12}, (kapi_u64{1} << 40) + 4}) {
        run(a, [&] { EXPECT_EQ(act({kAdd, {6}}, offset, &old.value()), 4); });
        expect_refusal(pa);
        EXPECT_TRUE(remote.is(6));
    }
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    run(a, [&] { EXPECT_EQ(act({kAdd, {6}}, 4, &old.value()), 4); });
    expect_refusal(pa);
    EXPECT_TRUE(remote.is(6));
    close_both();
}

TEST_P(RdsRdmaAtomics, use_a_region_up__that_is_to_be_used_once)
{
    open_with_region(RDS_ABI_RDMA_USE_ONCE);
    expect_done({kAdd, {5}}, 1, 6);
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), -KAPI_EINVAL); });
    close_both();
}

// A fenced message that is sent again would wait for the operations behind it on such a device, for ever.
TEST_P(RdsRdmaAtomics, behind_fenced_messages__go_on_after_losses)
{
    constexpr unsigned kTasks = 4, kEach = 40;
    open_with_region();
    std::vector<kapi_u64> old(kTasks); // the device writes to it after a task has ended
    std::vector<sim::TaskRef> tasks;
    for (unsigned task = 0; task < kTasks; task++)
        tasks.push_back(spawn(pa, [&, task] {
            for (unsigned i = 0; i < kEach; i++)
                EXPECT_EQ(act({kAdd, {1}, 0}, 8, &old[task]), 4);
        }));
    for (unsigned i = 0; i < 8; i++) {
        world.run_for(3 * sim::kMillisecond);
        cut(true); // shorter than what ends the connection
        world.run_for(10 * sim::kMillisecond);
        cut(false);
    }
    EXPECT_TRUE(wait(tasks));
    world.run_for(10 * sim::kSecond);
    EXPECT_TRUE(remote.is(kTasks * kEach)) << remote.value();
    close_both();
}

// Each gets the value that another one left.
TEST_P(RdsRdmaAtomics, of_many_programs__count_right)
{
    constexpr unsigned kTasks = 4, kEach = 50, kAllOfThem = kTasks * kEach;
    open_with_region();
    std::vector<kapi_u64> old(kAllOfThem, kAll);
    std::vector<sim::TaskRef> tasks;
    for (unsigned task = 0; task < kTasks; task++)
        tasks.push_back(spawn(pa, [&, task] {
            for (unsigned i = 0; i < kEach; i++) {
                const bool silent = i % 3 == 0;
                const kapi_u64 flags = silent ? RDS_ABI_RDMA_SILENT : 0;
                EXPECT_EQ(act({kAdd, {1}, flags}, 8, &old[task * kEach + i], silent ? "" : "done"), silent ? 0 : 4);
            }
        }));
    EXPECT_TRUE(wait(tasks));
    world.run_for(5 * sim::kSecond);
    EXPECT_TRUE(remote.is(kAllOfThem));
    std::set<kapi_u64> seen(old.begin(), old.end());
    EXPECT_EQ(seen.size(), kAllOfThem);
    EXPECT_EQ(*seen.rbegin(), kAllOfThem - 1);
    for (unsigned task = 0; task < kTasks; task++)
        EXPECT_TRUE(std::is_sorted(&old[task * kEach], &old[task * kEach] + kEach)) << "one after the other";
    EXPECT_EQ(a.pinned_pages, 0u);
    close_both();
}

// What the message's receiver does with the region comes after it, and an operation of the same message does not exist.
TEST_P(RdsRdmaAtomics, are_over__when_the_message_arrives)
{
    open_with_region();
    std::vector<kapi_u64> old(20, kAll);
    auto sends = spawn(pa, [&] {
        for (kapi_u64 &value : old)
            EXPECT_EQ(act({kAdd, {1}, 0}, 8, &value), 4);
    });
    for (unsigned i = 0; i < 20; i++) {
        expect_message(pb, "done");
        EXPECT_GE(remote.value(), i + 1);
        EXPECT_EQ(old[i], i) << "fenced";
    }
    EXPECT_TRUE(wait({sends}));
    world.run_for(100 * sim::kMillisecond); // the messages may be here before their requests have completed
    close_both();
}

TEST_P(RdsRdmaAtomics, happen_once_at_most__when_the_connection_breaks)
{
    open_with_region();
    unsigned failures = 0;
    for (unsigned i = 0; i < 12; i++) {
        Word old;
        kapi_u64 before = remote.value();
        run(a, [&] { EXPECT_EQ(act({kAdd, {1}}, 8, &old.value()), 4); });
        world.run_for(i * 7 * sim::kMicrosecond);
        cut(true);
        world.run_for(5 * sim::kSecond);
        cut(false);
        int status = next_notice(pa).status;
        EXPECT_TRUE(status == RDS_ABI_RDMA_SUCCESS || status == RDS_ABI_RDMA_DROPPED || status == RDS_ABI_RDMA_OTHER_ERROR);
        kapi_u64 noticed = old.value(), after = remote.value();
        EXPECT_TRUE(after == before || after == before + 1);
        if (status == RDS_ABI_RDMA_SUCCESS) {
            EXPECT_EQ(after, before + 1);
            EXPECT_TRUE(old.is(before));
        }
        failures += status != RDS_ABI_RDMA_SUCCESS;
        world.run_for(5 * sim::kSecond);
        EXPECT_EQ(remote.value(), after) << "executed after the program was notified";
        EXPECT_EQ(old.value(), noticed);
        EXPECT_EQ(a.pinned_pages, 0u);
    }
    EXPECT_NE(failures, 0u);
    EXPECT_TRUE(remote.is(remote.value()));
    run(b, [&] {
        while (receive(pb, RDS_ABI_MSG_DONTWAIT).result >= 0)
            ;
    });
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

TEST_P(RdsRdmaAtomics, notices_come__only_if_they_are_wanted)
{
    open_with_region();
    Word old;
    auto add = [&](kapi_u64 offset, kapi_u64 flags, kapi_u64 token, const std::string &bytes = "done") {
        run(a, [&] { EXPECT_EQ(act({kAdd, {1}, flags, token}, offset, &old.value(), bytes), static_cast<long>(bytes.size())); });
    };
    add(8, 0, 1);
    expect_message(pb, "done");
    int on = 1;
    run(a, [&] { EXPECT_EQ(pa.socket.set_option(RDS_ABI_RECVERR, &on, sizeof(on)), 0); });
    add(8, 0, 2);
    expect_message(pb, "done");
    add(8, RDS_ABI_RDMA_NOTIFY_ME | RDS_ABI_RDMA_SILENT, 3, "");
    expect_success(pa, 3);
    add(8, RDS_ABI_RDMA_NOTIFY_ME | RDS_ABI_RDMA_SILENT, 4, "with bytes");
    expect_success(pa, 4);
    expect_message(pb, "with bytes");
    EXPECT_TRUE(remote.is(4));
    run(a, [&] { EXPECT_EQ(receive(pa, RDS_ABI_MSG_DONTWAIT).result, -KAPI_EAGAIN); });
    run(b, [&] { EXPECT_EQ(receive(pb, RDS_ABI_MSG_DONTWAIT).result, -KAPI_EAGAIN) << "silent ones"; });
    add(4096, 0, 5);
    EXPECT_EQ(next_notice(pa).user_token, 5u) << "of errors";
    EXPECT_TRUE(remote.is(4));
    close_both();
}

TEST_P(RdsRdmaAtomics, notices_come__of_what_was_cancelled)
{
    open_with_region();
    Word old;
    cut(true);
    run(a, [&] { pa.send("breaks the connection"); });
    world.run_for(5 * sim::kSecond);
    run(a, [&] {
        EXPECT_EQ(act({}, 8, &old.value()), 4);
        EXPECT_EQ(a.pinned_pages, 1u);
        SocketName name(sim::address(pa.to, kPort));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
        EXPECT_EQ(a.pinned_pages, 0u);
    });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_CANCELED);
    cut(false);
    world.run_for(5 * sim::kSecond);
    EXPECT_TRUE(remote.is(0));
    EXPECT_TRUE(old.is(0));
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaAtomics, ::testing::Range(1, 9));

} // namespace
