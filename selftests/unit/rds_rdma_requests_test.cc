// SPDX-License-Identifier: GPL-2.0
// What the requests of a send queue carry, report and ask for, and the places of a ring: to the message and the byte.
#include <kapi/sim/rdma.h>

#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaRequests : public RdmaTest {
protected:
    void SetUp() override
    {
        load();
        for (Program *program : {&pa, &pb}) {
            open(*program);
            program->socket.sk().sndbuf = program->socket.sk().rcvbuf = 8 << 20;
        }
        run(a, [&] { pa.send("hello"); });
        run(b, [&] { EXPECT_EQ(pb.receive(), "hello"); });
        settle();
    }
    void TearDown() override
    {
        close(pa);
        close(pb);
    }
    /** All is acknowledged. The sender asks for that once a second, and has just done it. */
    void settle() { settle(a, pa, b, pb); }
    void settle(sim::Node &from, Program &sender, sim::Node &to, Program &receiver)
    {
        run(from, [&] { sender.send("is asked for"); });
        run(to, [&] { EXPECT_EQ(receiver.receive(), "is asked for"); });
        for (unsigned i = 0; i < 300 && !rows<rds_abi_info_message>(sender, RDS_ABI_INFO_RETRANS_MESSAGES).empty(); i++)
            world.run_for(10 * sim::kMillisecond);
        world.run_for(10 * sim::kMillisecond);
    }
    /** How much a counter of the program has grown after so many messages of this size, soon. */
    kapi_u64 grows(Program &program, const char *name, unsigned count, std::size_t size = 5)
    {
        kapi_u64 before = counter(program, name);
        for (unsigned i = 0; i < count; i++) {
            run(a, [&] { pa.send(contents(size, i)); });
            run(b, [&] { EXPECT_TRUE(pb.receive() == contents(size, i)); });
        }
        world.run_for(20 * sim::kMillisecond);
        return counter(program, name) - before;
    }

    Program pa = on_a(), pb = on_b();
};

TEST_P(RdsRdmaRequests, ask_for_an_acknowledgement__at_each_thirty_second_message)
{
    for (unsigned round = 0; round < 2; round++) {
        EXPECT_EQ(grows(pb, "ib_ack_sent", 31), 0u) << round;
        EXPECT_EQ(grows(pb, "ib_ack_sent", 1), 1u) << round;
    }
}

// What was asked for is not asked for again before it can have come.
TEST_P(RdsRdmaRequests, ask_once__while_the_acknowledgement_is_on_its_way)
{
    kapi_u64 sent = counter(pb, "ib_ack_sent"), delayed = counter(pb, "ib_ack_send_delayed");
    sim::hold_packets(*dev_b, 100 * sim::kMillisecond);
    run(a, [&] {
        for (unsigned i = 0; i < 60; i++) {
            pa.send("hello");
            world.sleep(sim::kMillisecond);
        }
    });
    world.run_for(200 * sim::kMillisecond);
    EXPECT_EQ(counter(pb, "ib_ack_sent") - sent, 1u);
    EXPECT_EQ(counter(pb, "ib_ack_send_delayed") - delayed, 0u);
}

// An answer that says what was received is instead of the acknowledgement, and the next answer says nothing new.
TEST_P(RdsRdmaRequests, say_once_what_was_received)
{
    constexpr unsigned kCount = 300;
    auto asks = spawn(pa, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send("x");
        for (unsigned i = 0; i < kCount; i++)
            EXPECT_EQ(pa.receive(), "x");
    });
    auto answers = spawn(pb, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pb.send(pb.receive());
    });
    EXPECT_TRUE(wait({asks, answers}));
    world.run_for(sim::kSecond);
    EXPECT_LE(counter(pb, "ib_ack_send_piggybacked") + counter(pb, "ib_ack_sent"), kCount / 32 + 6);
}

// "Up to 16 KiB are held until a later request reports its completion."
TEST_P(RdsRdmaRequests, report__beyond_16_KiB_that_are_held)
{
    EXPECT_LE(grows(pa, "ib_tx_cq_event", 1, 20'000), 1u); // nothing is held from now on
    for (unsigned round = 0; round < 2; round++) {
        EXPECT_EQ(grows(pa, "ib_tx_cq_event", 1, 16'384), 0u) << round;
        EXPECT_EQ(grows(pa, "ib_tx_cq_event", 1, 100), 1u) << round;
    }
    EXPECT_EQ(grows(pa, "ib_tx_cq_event", 1, 16'385), 1u);
}

// "One of up to 80 bytes is copied into its request: the queue does not hold it."
TEST_P(RdsRdmaRequests, carry_a_message_of_up_to_80_bytes)
{
    for (unsigned size : {1u, 79u, 80u, 81u, 1000u}) {
        settle();
        settle(b, pb, a, pa); // else it may ask meanwhile, and an acknowledgement of its own ends what a holds
        EXPECT_LE(grows(pa, "ib_tx_cq_event", 1, 20'000), 1u); // nothing is held from now on
        std::size_t charged[2];
        auto client = spawn(pa, [&] {
            for (std::size_t bytes : {std::size_t{0}, std::size_t{size}}) {
                pa.send(contents(bytes, 1));
                EXPECT_EQ(pa.receive(), "has it"); // and is the acknowledgement
                world.sleep(10 * sim::kMillisecond);
                charged[bytes == size] = a.memory().charged_bytes();
            }
        });
        auto server = spawn(pb, [&] {
            for (std::size_t bytes : {std::size_t{0}, std::size_t{size}}) {
                EXPECT_TRUE(pb.receive() == contents(bytes, 1));
                pb.send("has it");
            }
        });
        EXPECT_TRUE(wait({client, server}));
        EXPECT_EQ(charged[1] > charged[0], size > 80) << size;
    }
}

// A few places of the ring wait for others: each call of the device costs.
TEST_P(RdsRdmaRequests, fill_places_of_the_ring_again_together)
{
    EXPECT_LE(grows(pb, "ib_rx_refill_from_cq", 80), 80u / 8 + 1);
}

// "Where there is no room, the worker goes on when there is some": what senders queue meanwhile is not offered for each of them.
TEST_P(RdsRdmaRequests, are_not_offered_for_each_sender__while_the_queue_is_full)
{
    constexpr unsigned kCount = 400; // beside 256 places
    kapi_u64 full = counter(pa, "ib_tx_ring_full");
    sim::hold_packets(*dev_b, 100 * sim::kMillisecond);
    run(a, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send(numbered(100, i));
    });
    kapi_u64 vain = counter(pa, "ib_tx_ring_full") - full;
    EXPECT_GE(vain, 1u);
    EXPECT_LE(vain, 10u);
    run(b, [&] {
        for (unsigned i = 0; i < kCount; i++)
            EXPECT_TRUE(pb.receive() == numbered(100, i)) << i;
    });
}

// What waited for room is cancelled: the worker finds nothing when there is some. The next message waits for nobody.
TEST_P(RdsRdmaRequests, are_sent_at_once__when_what_waited_for_room_was_cancelled)
{
    SocketName name(sim::address(pa.to, kPort));
    sim::hold_packets(*dev_b, 100 * sim::kMillisecond);
    run(a, [&] {
        for (unsigned i = 0; i < 300; i++)
            pa.send(numbered(100, i));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
    });
    world.run_for(200 * sim::kMillisecond);
    run(b, [&] {
        while (pb.socket.poll() & KAPI_IN)
            pb.receive();
    });
    std::uint64_t before = world.now_ns();
    run(a, [&] { pa.send("next"); });
    run(b, [&] { EXPECT_EQ(pb.receive(), "next"); });
    EXPECT_LT(world.now_ns() - before, 50 * sim::kMillisecond);
}

// What a device flushes when its connection ends was not received.
TEST_P(RdsRdmaRequests, that_are_flushed__are_no_empty_ring)
{
    unplug(dev_b);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(counter(pa, "ib_rx_ring_empty"), 0u);
    EXPECT_EQ(counter(pb, "ib_rx_ring_empty"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaRequests, ::testing::Range(1, 5));

/** Devices that carry no bytes in a request, and do not reach memory themselves. */
class RdsRdmaMappedRequests : public RdmaTest {
protected:
    RdsRdmaMappedRequests()
    {
        for (kapi_rdma_dev **dev : {&dev_a, &dev_b}) {
            sim::Node &node = *node_of(*dev);
            unplug(*dev);
            *dev = &sim::plug_rdma(node.initial_net(), "mapped", 2, [](kapi_rdma_attrs &attrs) { attrs.max_inline = 0; });
            sim::make_bounce(**dev);
        }
    }
};

TEST_P(RdsRdmaMappedRequests, have_messages_and_acknowledgements_of_all_kinds)
{
    constexpr unsigned kRounds = 400; // more than a queue has places
    constexpr std::size_t kSizes[] = {0, 1, 80, 81, 5000};
    load();
    Program pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    auto sends = spawn(pa, [&] {
        for (unsigned i = 0; i < kRounds; i++)
            pa.send(contents(kSizes[i % 5], i));
    });
    auto receives = spawn(pb, [&] {
        for (unsigned i = 0; i < kRounds; i++)
            EXPECT_TRUE(pb.receive() == contents(kSizes[i % 5], i)) << i;
    });
    EXPECT_TRUE(wait({sends, receives}));
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(rows<rds_abi_info_message>(pa, RDS_ABI_INFO_RETRANS_MESSAGES).empty());
    EXPECT_GE(counter(pb, "ib_ack_sent"), kRounds / 64);
    EXPECT_EQ(counter(pa, "ib_ack_received"), counter(pb, "ib_ack_sent"));
    close(pa);
    close(pb);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaMappedRequests, ::testing::Range(1, 4));

/** The other end is verbs alone. */
class RdsRdmaForeignRequests : public RdsRdmaPeer {
protected:
    /** Both at once: the second one is there when the first one is read. */
    void post_both(const std::string &first, const std::string &second)
    {
        run(b, [&] {
            kapi_size offset = 0;
            for (const std::string &bytes : {first, second}) {
                std::memcpy(peer.out.bytes + offset, bytes.data(), bytes.size());
                kapi_map_sync(&peer.out.map, offset, bytes.size(), KAPI_MAP_FOR_DEVICE);
                ASSERT_EQ(peer.post(peer.make_wr(KAPI_WR_SEND, 1), offset, bytes.size()), 0);
                offset += Peer::kSlot;
            }
        });
        world.run_for(100 * sim::kMillisecond);
    }
};

// It understands no question for an acknowledgement, and what it is sent needs one acknowledgement.
TEST_P(RdsRdmaForeignRequests, ask_with_the_last_message_of_a_call)
{
    constexpr unsigned kCount = 10, kMap = 2;
    run(a, [&] {
        for (unsigned i = 0; i < kCount; i++)
            program.send("hello");
    });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= kMap + kCount; }));
    for (unsigned i = 0; i < kCount; i++) {
        Header header = header_of(peer.messages[kMap + i]);
        EXPECT_EQ(+header.sequence, i + 1);
        EXPECT_EQ(header.flags, i + 1 == kCount ? rds::flag_ack_required : 0) << i;
    }
}

// Nobody asks for it again. On Soft-RoCE kapi has sent what reports its end (kapi/linux/verbs_hold.c).
TEST_P(RdsRdmaForeignRequests, that_are_a_map__report_its_end)
{
    kapi_u64 before = counter(program, "ib_tx_cq_event");
    connect();
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 2; }));
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(counter(program, "ib_tx_cq_event") - before, 1u);
}

// A message is there that would be good without what came before it.
TEST_P(RdsRdmaForeignRequests, are_not_believed__behind_garbage)
{
    Header wrong_sum = data_header(5);
    seal(wrong_sum);
    wrong_sum.checksum = static_cast<kapi_u16>(wrong_sum.checksum ^ 0x100);
    const std::string garbage[] = {std::string(reinterpret_cast<const char *>(&wrong_sum), sizeof(wrong_sum)) + "hello",
                                   sealed(data_header(5), "hell")};
    for (const std::string &bytes : garbage) {
        connect();
        post_both(bytes, sealed(data_header(4, 50), "good"));
        EXPECT_TRUE(wait_for([&] { return peer.end.has_value(); }));
        char got[8];
        run(a, [&] { EXPECT_EQ(program.socket.receive(got, sizeof(got), nullptr, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN); });
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
}

// A ping, which has no bytes and one port, is none of the acknowledgements, which have no port. So is its answer.
TEST_P(RdsRdmaForeignRequests, that_are_pings__are_answered_and_their_answers_received)
{
    connect();
    Header ping = data_header(0);
    ping.dport = 0;
    post(sealed(ping));
    ASSERT_TRUE(wait_for([&] {
        return std::any_of(peer.messages.begin(), peer.messages.end(), [](const std::string &bytes) {
            Header header = header_of(bytes);
            return bytes.size() == sizeof(Header) && +header.sport == 0 && +header.dport == kPort;
        });
    }));
    run(a, [&] { EXPECT_EQ(program.socket.send("", 0, sim::address("10.0.0.2", 0)), 0); });
    Header answer = data_header(0, 2);
    answer.sport = 0;
    post(sealed(answer));
    run(a, [&] {
        char byte;
        kapi_addr from{};
        EXPECT_EQ(program.socket.receive(&byte, 1, &from), 0);
        EXPECT_EQ(from.port, 0);
    });
}

TEST_P(RdsRdmaForeignRequests, for_a_connection__have_two_seconds_and_more_to_be_accepted)
{
    run(a, [&] { program.send("hello"); });
    ASSERT_TRUE(wait_for([&] { return peer.cm != nullptr; }));
    world.run_for(2 * sim::kSecond);
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    EXPECT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    EXPECT_FALSE(peer.end);
}

// What a connection was is forgotten with it.
TEST_P(RdsRdmaForeignRequests, for_a_connection__find_no_stale_one_after_its_end)
{
    for (unsigned i = 0; i < 2; i++) {
        connect();
        run(b, [&] { peer.drop(); });
        peer = Peer();
        world.run_for(sim::kSecond);
    }
    EXPECT_EQ(counter(program, "ib_listen_closed_stale"), 0u);
    EXPECT_EQ(counter(program, "ib_connect_raced"), 0u);
}

// It is not waited until the attempt has taken all its time.
TEST_P(RdsRdmaForeignRequests, for_a_connection__end_at_once_with_a_version_that_nobody_knows)
{
    run(a, [&] { program.send("hello"); });
    accept(says("10.0.0.2", "10.0.0.1", 5, 0));
    world.run_for(500 * sim::kMillisecond);
    EXPECT_TRUE(peer.end);
}

// A place that could not be filled for want of memory, or that the device refused, is filled later.
TEST_P(RdsRdmaForeignRequests, to_receive__are_lost_by_no_failure)
{
    unsigned number = 0;
    for (kapi_u32 depth : {1u, 16u}) {
        rds_rdma_net_sysctl(host_a.net().rdma)->max_recv_wr = depth;
        connect();
        for (unsigned i = 1; i <= 200; i++) {
            a.faults().fail_at = a.faults().count + 4 + i % 5; // the first ones are for the message
            Header header = data_header(5, ++number);
            header.flags = 0; // an acknowledgement that fails would end the connection
            post(sealed(header, "hello"));
            a.faults().fail_at = 0;
            EXPECT_EQ(received(), "hello") << i << " of " << depth;
            if (HasFailure())
                return;
        }
        run(b, [&] { peer.drop(); });
        peer = Peer();
        world.run_for(sim::kSecond);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaForeignRequests, ::testing::Range(1, 5));

} // namespace
