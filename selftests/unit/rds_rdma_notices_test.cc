// SPDX-License-Identifier: GPL-2.0
// When a program gets a notice of an operation.
#include "rds_rdma_memory_test.h"

#include <algorithm>

namespace {

class RdsRdmaNotices : public RdmaMemoryTest {};

TEST_P(RdsRdmaNotices, notices_come__only_if_they_are_wanted)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    auto write = [&](kapi_u64 offset, kapi_u64 flags, kapi_u64 token) {
        Operation operation{cookie, offset, {{place_of(local.data()), 10}}, flags | RDS_ABI_RDMA_READWRITE, token};
        run(a, [&] { EXPECT_EQ(operate(pa, operation), 4); });
    };
    write(0, 0, 1);
    expect_message(pb, "done");
    int on = 1;
    run(a, [&] { EXPECT_EQ(pa.socket.set_option(RDS_ABI_RECVERR, &on, sizeof(on)), 0); });
    write(0, 0, 2);
    expect_message(pb, "done");
    write(0, RDS_ABI_RDMA_NOTIFY_ME, 3);
    expect_message(pb, "done");
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] {
        EXPECT_TRUE(pa.socket.poll() & KAPI_IN);
        Received received = receive(pa, RDS_ABI_MSG_DONTWAIT);
        ASSERT_EQ(received.notices.size(), 1u);
        EXPECT_EQ(received.notices[0].user_token, 3u);
        EXPECT_EQ(receive(pa, RDS_ABI_MSG_DONTWAIT).result, -KAPI_EAGAIN);
    });
    write(100, 0, 4);
    EXPECT_EQ(next_notice(pa).user_token, 4u) << "of errors";
    close_both();
}

TEST_P(RdsRdmaNotices, notices_stay__when_the_memory_for_them_is_bad)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_message(pb, "done");
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] {
        Inbox inbox;
        kapi_msg msg = sim::make_msg(inbox.data(), inbox.size(), {});
        msg.control_room = 256;
        msg.control_faults = true;
        rds_receive call{};
        call.msg = &msg;
        call.size = inbox.size();
        EXPECT_EQ(rds_socket_recvmsg(pa.socket.core(), &call), -KAPI_EFAULT);
    });
    EXPECT_EQ(next_notice(pa).user_token, 77u);
    close_both();
}

// What is cancelled before it is sent, because the peer takes nothing.
TEST_P(RdsRdmaNotices, notices_come__of_what_was_cancelled)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    cut(true);
    run(a, [&] { pa.send("breaks the connection"); });
    world.run_for(5 * sim::kSecond);
    run(a, [&] {
        EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4);
        EXPECT_NE(a.pinned_pages, 0u);
        SocketName name(sim::address(pa.to, kPort));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
        EXPECT_EQ(a.pinned_pages, 0u);
    });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_CANCELED);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    cut(false);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaNotices, ::testing::Range(1, 9));

} // namespace
