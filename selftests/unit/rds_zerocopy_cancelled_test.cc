// SPDX-License-Identifier: GPL-2.0
// Messages sent with MSG_ZEROCOPY that are cancelled: when the program's memory is free, and that nothing stays.
#include "rds_test.h"

#include <cstring>

#include "net/rds/net.h"

namespace {

constexpr std::uint64_t kMinute = 60 * sim::kSecond;

class ZerocopyCancelled : public RdsTest {
protected:
    ZerocopyCancelled() : here(host_a), there(host_b)
    {
        run(b, [&] {
            ASSERT_EQ(there.open(), 0);
            ASSERT_EQ(there.bind(sim::address("10.0.0.2", 70)), 0);
            there.sk().rcvtimeo_ns = 3 * sim::kSecond;
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
    }
    ~ZerocopyCancelled() override
    {
        world.network().cut(a, b, false);
        run(a, [&] { here.close(); });
        run(b, [&] { there.close(); });
    }
    /** TCP has it all, and the peer's host nothing. */
    void send_to_tcp(const char *text, bool pinned)
    {
        run(a, [&] {
            long sent = pinned ? here.send_pinned(text, 5, sim::address("10.0.0.2", 70), 77, RDS_ABI_MSG_DONTWAIT)
                               : send(here, text, "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
            EXPECT_EQ(sent, 5);
            world.sleep(100 * sim::kMillisecond);
        });
    }
    void cancel()
    {
        unsigned char name[16] = {2, 0, 0, 70, 10, 0, 0, 2};
        run(a, [&] { EXPECT_EQ(here.set_option(RDS_ABI_CANCEL_SENT_TO, name, sizeof(name)), 0); });
    }
    /** Is the program notified that the memory is free? */
    bool is_notified()
    {
        bool notified = false;
        run(a, [&] {
            Received notice = receive_control(here);
            notified = notice.result == 0 && !notice.control.empty();
        });
        return notified;
    }
    unsigned connections()
    {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.size();
    }
    std::uint64_t resets()
    {
        sim::NodeScope scope(a);
        return reinterpret_cast<rds::Net *>(host_a.net().rds)->counted(rds::Stat::conn_reset);
    }
    /** The stream ends after a while (rds_tcp_dead_peer_ms), and the peer does not come back. */
    void lose_peer(bool pinned, bool cancelled_before, bool closes)
    {
        auto end = [&] { closes ? run(a, [&] { here.close(); }) : cancel(); };
        send_to_tcp("hello", pinned);
        if (cancelled_before)
            end();
        world.run_for(kMinute);
        if (!cancelled_before)
            end();
        world.run_for(kMinute);
        if (!closes) {
            EXPECT_EQ(is_notified(), pinned) << "TCP has nothing of it any more";
            run(a, [&] { here.close(); });
        }
        world.run_for(180 * kMinute);
        std::uint64_t before = resets();
        world.run_for(60 * kMinute);
        EXPECT_EQ(connections(), 0u);
        EXPECT_EQ(resets() - before, 0u);
    }
    /** What was cancelled is still in TCP's queue: the program's memory is not free. */
    void cancel_what_tcp_has()
    {
        static char text[] = "hello";
        send_to_tcp(text, true);
        EXPECT_FALSE(is_notified());
        cancel();
        if (is_notified()) // the program uses its memory again, and the simulator sees that TCP has it
            memcpy(text, "SECRT", 5);
        world.run_for(100 * sim::kMillisecond);
        world.network().cut(a, b, false);
        run(b, [&] { EXPECT_EQ(receive(there), "hello"); });
        world.run_for(sim::kSecond);
        EXPECT_TRUE(is_notified()) << "the peer has it";
    }

    RdsSocket here, there;
};

TEST_F(ZerocopyCancelled, copied_message__cancelled_with_its_stream) { lose_peer(false, true, false); }
TEST_F(ZerocopyCancelled, copied_message__closed_with_its_stream) { lose_peer(false, true, true); }
TEST_F(ZerocopyCancelled, message__cancelled_with_its_stream) { lose_peer(true, true, false); }
TEST_F(ZerocopyCancelled, message__closed_with_its_stream) { lose_peer(true, true, true); }
TEST_F(ZerocopyCancelled, message__cancelled_after_its_stream) { lose_peer(true, false, false); }
TEST_F(ZerocopyCancelled, message__closed_after_its_stream) { lose_peer(true, false, true); }

TEST_F(ZerocopyCancelled, memory__is_not_free_before_tcp_has_done) { cancel_what_tcp_has(); }

TEST_F(ZerocopyCancelled, memory__is_not_free_before_tcp_has_done_in_a_later_stream)
{
    world.network().cut(a, b, false);
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    run(a, [&] { EXPECT_EQ(send(here, "again", "10.0.0.2", 70), 5); });
    run(b, [&] { EXPECT_EQ(receive(there), "again"); });
    world.run_for(sim::kSecond);
    world.network().cut(a, b);
    cancel_what_tcp_has();
}

// The connection ends with it: the simulator sees what is left.
TEST_F(ZerocopyCancelled, message__goes_with_its_connection)
{
    send_to_tcp("hello", true);
    run(a, [&] { here.close(); });
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
}

} // namespace
