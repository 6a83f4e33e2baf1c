// SPDX-License-Identifier: GPL-2.0
// Messages sent with MSG_ZEROCOPY that are cancelled: when the program's memory is free, and that nothing stays.
#include "rds_test.h"

#include <kapi/errno.h>

#include "net/rds/net.h"

namespace {

constexpr std::uint64_t kMinute = 60 * sim::kSecond;

class ZerocopyGivenUp : public RdsTest {
protected:
    static unsigned connections(RdsHost &host)
    {
        sim::NodeScope scope(host.node());
        return reinterpret_cast<rds::Net *>(host.net().rds)->connections.size();
    }
    std::uint64_t resets()
    {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host_a.net().rds)->counted(rds::Stat::conn_reset);
    }
    enum When { never, before_the_end, after_the_end };
    // A message that TCP has is cancelled, the stream ends, the peer does not come back.
    void scene(bool pinned, When when, bool closes)
    {
        RdsSocket here(host_a), there(host_b);
        run(b, [&] {
            ASSERT_EQ(there.open(), 0);
            ASSERT_EQ(there.bind(sim::address("10.0.0.2", 70)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(here.open(), 0);
            here.sk().zerocopy = true;
            ASSERT_EQ(here.bind(sim::address("10.0.0.1", 5)), 0);
            EXPECT_EQ(send(here, "first", "10.0.0.2", 70), 5);
        });
        run(b, [&] { EXPECT_EQ(receive(there), "first"); });
        world.run_for(sim::kSecond);
        world.network().cut(a, b);
        auto cancel = [&] {
            run(a, [&] {
                if (closes) {
                    here.close();
                    return;
                }
                unsigned char name[16] = {2, 0, 0, 70, 10, 0, 0, 2};
                EXPECT_EQ(here.set_option(RDS_ABI_CANCEL_SENT_TO, name, sizeof(name)), 0);
            });
        };
        run(a, [&] {
            long sent = pinned ? here.send_pinned("hello", 5, sim::address("10.0.0.2", 70), 77, RDS_ABI_MSG_DONTWAIT)
                               : send(here, "hello", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
            EXPECT_EQ(sent, 5);
            world.sleep(100 * sim::kMillisecond);
        });
        if (when == before_the_end)
            cancel();
        world.run_for(kMinute); // rds_tcp_dead_peer_ms is ten seconds
        if (when == after_the_end)
            cancel();
        world.run_for(kMinute);
        if (!closes)
            run(a, [&] {
                Received notice = receive_control(here);
                bool got = notice.result == 0 && !notice.control.empty();
                EXPECT_EQ(got, pinned) << "TCP has nothing of it any more";
                here.close();
            });
        world.run_for(180 * kMinute);
        std::uint64_t before = resets();
        world.run_for(60 * kMinute);
        EXPECT_EQ(connections(host_a), 0u);
        EXPECT_EQ(resets() - before, 0u);
        world.network().cut(a, b, false);
        run(b, [&] { there.close(); });
    }
};

TEST_F(ZerocopyGivenUp, control__copied_cancelled_before_the_end) { scene(false, before_the_end, false); }
TEST_F(ZerocopyGivenUp, control__copied_closed_before_the_end) { scene(false, before_the_end, true); }
TEST_F(ZerocopyGivenUp, pinned_cancelled_before_the_end) { scene(true, before_the_end, false); }
TEST_F(ZerocopyGivenUp, pinned_closed_before_the_end) { scene(true, before_the_end, true); }
TEST_F(ZerocopyGivenUp, pinned_cancelled_after_the_end) { scene(true, after_the_end, false); }
TEST_F(ZerocopyGivenUp, pinned_closed_after_the_end) { scene(true, after_the_end, true); }

class ZerocopyCancelled : public RdsTest {};

// What was cancelled is still in TCP's queue: the program's memory is not free.
TEST_F(ZerocopyCancelled, memory_of_a_cancelled_message_is_not_free_before_tcp_has_done)
{
    RdsSocket here(host_a), there(host_b);
    static char text[] = "hello";
    run(b, [&] {
        ASSERT_EQ(there.open(), 0);
        ASSERT_EQ(there.bind(sim::address("10.0.0.2", 70)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(here.open(), 0);
        here.sk().zerocopy = true;
        ASSERT_EQ(here.bind(sim::address("10.0.0.1", 5)), 0);
        EXPECT_EQ(send(here, "first", "10.0.0.2", 70), 5);
    });
    run(b, [&] { EXPECT_EQ(receive(there), "first"); });
    world.run_for(sim::kSecond);
    world.network().cut(a, b);
    run(a, [&] {
        EXPECT_EQ(here.send_pinned(text, 5, sim::address("10.0.0.2", 70), 77, RDS_ABI_MSG_DONTWAIT), 5);
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(receive_control(here).result, -KAPI_EAGAIN) << "no notice yet";
        unsigned char name[16] = {2, 0, 0, 70, 10, 0, 0, 2};
        EXPECT_EQ(here.set_option(RDS_ABI_CANCEL_SENT_TO, name, sizeof(name)), 0);
        Received notice = receive_control(here);
        if (notice.result == 0 && !notice.control.empty()) // "the memory is free"
            memcpy(text, "SECRT", 5);
        world.sleep(100 * sim::kMillisecond);
    });
    world.network().cut(a, b, false);
    run(b, [&] {
        there.sk().rcvtimeo_ns = 3 * sim::kSecond;
        std::string got = receive(there);
        EXPECT_TRUE(got == "hello" || got.find("error") == 0) << got;
        there.close();
    });
    run(a, [&] { here.close(); });
}

} // namespace
