// SPDX-License-Identifier: GPL-2.0
// Messages over loopback that go past the path's queue, beside those that cannot.
#include "rds_test.h"

#include <kapi/errno.h>

#include <string>

#include "net/rds/net.h"

namespace {

class LoopPass : public RdsTest, public testing::WithParamInterface<int> {
protected:
    LoopPass() : RdsTest(static_cast<std::uint64_t>(GetParam())), from(host_a), to(host_a)
    {
        run(a, [&] {
            for (RdsSocket *socket : {&from, &to})
                ASSERT_EQ(socket->open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.1", 6)), 0);
            to.sk().rcvtimeo_ns = sim::kSecond;
            EXPECT_EQ(send(from, "first", "10.0.0.1", 6), 5);
            EXPECT_EQ(receive(to), "first");
        });
    }
    ~LoopPass() override
    {
        run(a, [&] { from.close(), to.close(); });
    }
    RdsSocket from, to;
};

// What is received is in the memory of what was sent.
TEST_P(LoopPass, message__is_one_allocation)
{
    run(a, [&] {
        std::uint64_t before = a.faults().count;
        EXPECT_EQ(send(from, "x", "10.0.0.1", 6), 1);
        EXPECT_EQ(a.faults().count - before, 2u); // and its charge to the receiver
        EXPECT_EQ(receive(to), "x");
    });
}

// One allocation of two pages would be more than the two that it replaces. Such a message is queued, and arrives in the call all
// the same.
TEST_P(LoopPass, message__of_almost_a_page_takes_no_two)
{
    run(a, [&] {
        for (std::size_t size = 3400; size <= 3840; size++) {
            std::string text(size, 'x');
            ASSERT_EQ(send(from, text, "10.0.0.1", 6, RDS_ABI_MSG_DONTWAIT), static_cast<long>(size));
            ASSERT_LE(to.sk().charged, 4096u + 512u) << size;
            ASSERT_TRUE(receive(to, RDS_ABI_MSG_DONTWAIT) == text) << size;
        }
        EXPECT_EQ(to.sk().charged, 0u);
    });
}

// What could not be charged counts for nobody, for it is charged to the sender.
TEST_P(LoopPass, message__without_memory_is_forgotten)
{
    run(a, [&] {
        a.faults().fail_at = a.faults().count + 2; // its charge
        EXPECT_EQ(send(from, "x", "10.0.0.1", 6), 1);
        EXPECT_EQ(a.faults().failed, 1u);
        EXPECT_EQ(receive(to), "x");
        EXPECT_FALSE(rds::Module::get().peers_share.has_uncharged());
    });
}

// Memory of a program has no room for what is received, and waits in the queue when there is no other.
TEST_P(LoopPass, message__does_not_overtake_one_that_waits_for_memory)
{
    run(a, [&] {
        from.sk().zerocopy = true;
        unsigned waited = 0;
        for (unsigned step = 1; step < 12; step++) {
            std::uint64_t failed = a.faults().failed;
            a.faults().fail_at = a.faults().count + step;
            bool sent = from.send_pinned("x", 1, sim::address("10.0.0.1", 6), step) == 1;
            a.faults().fail_at = 0;
            waited += sent && a.faults().failed > failed;
            long more = send(from, "y", "10.0.0.1", 6, RDS_ABI_MSG_DONTWAIT); // refused if "x" was not charged
            if (sent) {
                EXPECT_EQ(receive(to), "x") << step;
            }
            if (more == 1) {
                EXPECT_EQ(receive(to), "y") << step;
            }
        }
        EXPECT_GE(waited, 1u);
    });
}

// Of two that send at the same time one is in the other's way, and its messages are queued.
TEST_P(LoopPass, messages__of_each_socket_keep_their_order)
{
    constexpr int kMessages = 200;
    RdsSocket second(host_a);
    run(a, [&] {
        ASSERT_EQ(second.open(), 0);
        ASSERT_EQ(second.bind(sim::address("10.0.0.1", 7)), 0);
    });
    auto sends = [&](RdsSocket &socket) {
        return world.spawn(a, "sends", [&] {
            for (int i = 0; i < kMessages; i++)
                EXPECT_EQ(send(socket, std::to_string(i), "10.0.0.1", 6), static_cast<long>(std::to_string(i).size()));
        });
    };
    run(a, [&] {
        auto one = sends(from), other = sends(second);
        int next[2] = {0, 0};
        for (int i = 0; i < 2 * kMessages; i++) {
            kapi_addr source;
            std::string text = receive(to, 0, &source);
            EXPECT_EQ(text, std::to_string(next[source.port == 7]++));
        }
        while (!one->is_done() || !other->is_done())
            world.sleep(sim::kMicrosecond);
        second.close();
    });
}

// The numbers that rds-info shows go on, whichever way a message goes.
TEST_P(LoopPass, message__counts_as_sent_and_received)
{
    run(a, [&] {
        rds_abi_info_connection before[4], after[4];
        int length = sizeof(before);
        from.get_option(RDS_ABI_INFO_CONNECTIONS, before, &length);
        EXPECT_EQ(send(from, "x", "10.0.0.1", 6), 1);
        EXPECT_EQ(receive(to), "x");
        length = sizeof(after);
        from.get_option(RDS_ABI_INFO_CONNECTIONS, after, &length);
        ASSERT_GE(length, static_cast<int>(sizeof(after[0])));
        EXPECT_EQ(after[0].next_tx_seq, before[0].next_tx_seq + 1);
        EXPECT_EQ(after[0].next_rx_seq, before[0].next_rx_seq + 1);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, LoopPass, ::testing::Range(1, 9));

} // namespace
