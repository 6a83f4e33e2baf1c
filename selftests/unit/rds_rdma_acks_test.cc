// SPDX-License-Identifier: GPL-2.0
// Acknowledgements over RDMA: few, and nobody waits for one.
#include "rds_rdma_test.h"

namespace {

class RdsRdmaAcks : public RdmaTest {
protected:
    kapi_u64 acks_of(Program &program) { return counter(program, "ib_ack_sent"); }
    bool all_acknowledged(Program &program)
    {
        return rows<rds_abi_info_message>(program, RDS_ABI_INFO_RETRANS_MESSAGES).empty();
    }
    void connect(Program &pa, Program &pb)
    {
        load();
        open(pa);
        open(pb);
        EXPECT_TRUE(wait({spawn(pa, [&] { pa.send("hello"); }), spawn(pb, [&] { pb.receive(); })}));
        world.run_for(3 * sim::kSecond);
    }
};

TEST_P(RdsRdmaAcks, go_with_the_answers)
{
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    constexpr unsigned kRounds = 200;
    auto client = spawn(pa, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            pa.send("question");
            pa.receive();
        }
    });
    auto server = spawn(pb, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            pb.receive();
            pb.send("answer");
        }
    });
    EXPECT_TRUE(wait({client, server}));
    EXPECT_LE(acks_of(pa) + acks_of(pb), 12u);
    close(pa);
    close(pb);
}

/** The headers of larger messages are in memory that was mapped before they are written. */
TEST_P(RdsRdmaAcks, go_with_the_answers__from_a_device_that_copies)
{
    sim::make_bounce(*dev_a);
    sim::make_bounce(*dev_b);
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    constexpr unsigned kRounds = 20;
    auto client = spawn(pa, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            pa.send(contents(1000, i));
            EXPECT_TRUE(pa.receive() == contents(1000, 100 + i));
        }
    });
    auto server = spawn(pb, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            EXPECT_TRUE(pb.receive() == contents(1000, i));
            pb.send(contents(1000, 100 + i));
        }
    });
    EXPECT_TRUE(wait({client, server}));
    EXPECT_LE(rows<rds_abi_info_message>(pa, RDS_ABI_INFO_RETRANS_MESSAGES).size(), 1u) << "the last answer has acknowledged all";
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaAcks, are_few_in_one_direction)
{
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    constexpr unsigned kCount = 400;
    auto sender = spawn(pa, [&] {
        for (unsigned i = 0; i < kCount; i++) {
            pa.send("so");
            world.sleep(sim::kMillisecond);
        }
    });
    auto receiver = spawn(pb, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pb.receive();
    });
    EXPECT_TRUE(wait({sender, receiver}));
    EXPECT_LE(acks_of(pb), kCount / 32 + 12);
    EXPECT_GE(acks_of(pb), kCount / 64);
    close(pa);
    close(pb);
}

// Neither those whose requests carry them, nor a few that are held.
TEST_P(RdsRdmaAcks, reports_of_small_messages__are_few_too)
{
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    constexpr unsigned kCount = 160;
    for (unsigned size : {80u, 1000u}) {
        kapi_u64 before = counter(pa, "ib_tx_cq_event");
        auto sender = spawn(pa, [&] {
            for (unsigned i = 0; i < kCount; i++) {
                pa.send(contents(size, i));
                world.sleep(sim::kMillisecond);
            }
        });
        auto receiver = spawn(pb, [&] {
            for (unsigned i = 0; i < kCount; i++)
                EXPECT_TRUE(pb.receive() == contents(size, i));
        });
        EXPECT_TRUE(wait({sender, receiver}));
        EXPECT_LE(counter(pa, "ib_tx_cq_event") - before, kCount / 16 + 8) << size;
    }
    close(pa);
    close(pb);
}

// What is held behind them until something reports its completion is little, whatever the messages' sizes, and their programs'
// cgroups still pay for it.
TEST_P(RdsRdmaAcks, leave_little_that_is_held__and_charged)
{
    constexpr unsigned kRounds = 50, kUnreported = 16;
    constexpr std::size_t kPayload = 16 << 10, kObject = 512; // a message without its payload has less
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    std::size_t before = a.memory().charged_bytes(), pages_before = a.live_pages;
    for (unsigned size : {100u, 1000u, 4000u, 16'000u, 100'000u}) {
        std::size_t most = 0, most_pages = 0; // of large messages the payload is in pages of their own
        auto client = spawn(pa, [&] {
            for (unsigned i = 0; i < kRounds; i++) {
                pa.send(contents(size, i));
                EXPECT_EQ(pa.receive(), "has it"); // and is the acknowledgement
                world.sleep(10 * sim::kMillisecond);
                most = std::max(most, a.memory().charged_bytes() - before);
                most_pages = std::max(most_pages, a.live_pages - pages_before);
            }
        });
        auto server = spawn(pb, [&] {
            for (unsigned i = 0; i < kRounds; i++) {
                EXPECT_TRUE(pb.receive() == contents(size, i));
                pb.send("has it");
            }
        });
        EXPECT_TRUE(wait({client, server}));
        EXPECT_LE(most, kPayload + kUnreported * kObject) << size;
        EXPECT_LE(most_pages * size, kPayload) << size;
        if (size <= 1000) {
            EXPECT_GE(most, kUnreported / 2 * size) << "charged: " << size;
        }
    }
    close(pa);
    close(pb);
}

// Nothing follows, and nothing comes back.
TEST_P(RdsRdmaAcks, come_for_the_last_message__soon)
{
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    EXPECT_TRUE(all_acknowledged(pa));
    run(a, [&] { pa.send("the last"); });
    world.run_for(1200 * sim::kMillisecond);
    EXPECT_TRUE(all_acknowledged(pa));
    close(pa);
    close(pb);
}

// It is asked again: at the first question the messages waited for room at the peer's socket.
TEST_P(RdsRdmaAcks, come_for_the_last_message__when_a_full_socket_was_read)
{
    auto pa = on_a(), pb = on_b();
    connect(pa, pb);
    pb.socket.sk().rcvbuf = 4096;
    constexpr unsigned kCount = 20;
    auto sender = spawn(pa, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send(contents(4000, i));
    });
    world.run_for(4 * sim::kSecond);
    auto receiver = spawn(pb, [&] {
        for (unsigned i = 0; i < kCount; i++)
            EXPECT_TRUE(pb.receive() == contents(4000, i));
    });
    EXPECT_TRUE(wait({sender, receiver}));
    world.run_for(1200 * sim::kMillisecond);
    EXPECT_TRUE(all_acknowledged(pa));
    close(pa);
    close(pb);
}

// A sender that waits for room waits for an acknowledgement, however few messages its buffer holds.
TEST_P(RdsRdmaAcks, make_room_in_a_small_buffer__at_once)
{
    for (int buffer : {256, 4096, 20000, 200000}) {
        auto pa = on_a(), pb = on_b();
        if (buffer == 256)
            load();
        open(pa);
        open(pb);
        pa.socket.sk().sndbuf = buffer;
        constexpr unsigned kCount = 100;
        EXPECT_TRUE(wait({spawn(pa, [&] { pa.send("hello"); }), spawn(pb, [&] { pb.receive(); })}));
        auto began = world.now_ns();
        auto sender = spawn(pa, [&] {
            for (unsigned i = 0; i < kCount; i++)
                pa.send(contents(std::min(1000 + i * 37, static_cast<unsigned>(buffer) / 2), i));
        });
        auto receiver = spawn(pb, [&] {
            for (unsigned i = 0; i < kCount; i++)
                EXPECT_TRUE(pb.receive() == contents(std::min(1000 + i * 37, static_cast<unsigned>(buffer) / 2), i));
        });
        EXPECT_TRUE(wait({sender, receiver}));
        EXPECT_LT(world.now_ns() - began, 900 * sim::kMillisecond) << buffer;
        close(pa);
        close(pb);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaAcks, ::testing::Range(1, 5));

} // namespace
