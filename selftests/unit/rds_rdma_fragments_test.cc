// SPDX-License-Identifier: GPL-2.0
// Fragments of several buffers: taken in parts when there is no memory for all, and sent from any pages.
#include "net/rds/net.h"
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaFragments : public RdsRdmaPeer {
protected:
    static constexpr std::size_t kWhole = 4 * 4096, kFilling = kWhole - sizeof(Header), kSize = 40'000;

    void connect_as_hawser()
    {
        std::string said = says("10.0.0.2", "10.0.0.1", 3, 1);
        said.replace(13, 3, "hw\3");
        said[28] = 4;
        ask(said);
        ASSERT_TRUE(wait_for([&] { return peer.established; }));
        world.run_for(20 * sim::kMillisecond);
    }
    void leave()
    {
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
    /** One of a message's fragments. It asks for no acknowledgement, for which the peer has few receives. */
    std::string fragment(const std::string &bytes, unsigned number, std::size_t at)
    {
        Header header = data_header(bytes.size(), number);
        header.flags = 0;
        return sealed(header, bytes.substr(at, bytes.size() > kWhole ? kFilling : kWhole));
    }
    void post_from(std::size_t at, const std::string &bytes, unsigned number)
    {
        for (; at < bytes.size(); at += kFilling)
            post(fragment(bytes, number, at));
    }
    /** The first fragment, of which so many buffers are taken before there is no memory for a while. */
    void starve_behind(unsigned buffers, const std::string &bytes, unsigned number)
    {
        a.faults().failed = 0;
        a.faults().fail_at = a.faults().count + 1 + buffers; // the message is allocated, and what the other buffers hang on
        run(b, [&] { ASSERT_EQ(peer.send(fragment(bytes, number, 0), 1, KAPI_WR_SIGNALED | KAPI_WR_SOLICITED), 0); });
        ASSERT_TRUE(wait_for([&] { return a.faults().failed != 0; }));
        a.faults().one_in = 1;
        world.run_for(200 * sim::kMillisecond);
        EXPECT_GT(a.faults().failed, 5u) << "it is tried again";
    }
    void have_memory_again()
    {
        a.faults().one_in = a.faults().fail_at = 0;
    }
};

TEST_P(RdsRdmaFragments, are_taken_on__from_the_buffer_for_which_there_was_no_memory)
{
    unsigned number = 0;
    for (unsigned buffers : {1u, 2u, 3u}) {
        SCOPED_TRACE(buffers);
        connect_as_hawser();
        std::string bytes = contents(kSize, ++number);
        starve_behind(buffers, bytes, number);
        have_memory_again();
        post_from(kFilling, bytes, number);
        EXPECT_TRUE(received() == bytes);
        EXPECT_FALSE(peer.end);
        leave();
    }
}

// Its first buffers are the message's by then, which ends with the connection. The next connection begins it anew.
TEST_P(RdsRdmaFragments, that_are_taken_in_part__go_with_their_connection)
{
    unsigned number = 0;
    for (unsigned buffers : {1u, 2u, 3u}) {
        SCOPED_TRACE(buffers);
        connect_as_hawser();
        std::string bytes = contents(kSize, ++number);
        starve_behind(buffers, bytes, number);
        leave();
        have_memory_again();
        connect_as_hawser();
        post_from(0, bytes, number);
        EXPECT_TRUE(received() == bytes);
        EXPECT_FALSE(peer.end);
        leave();
    }
}

// Each call that can fail does so once while a message arrives.
TEST_P(RdsRdmaFragments, arrive__whatever_fails_once)
{
    connect_as_hawser();
    constexpr unsigned kCalls = 40; // of a message after which the ring is filled again
    for (unsigned number = 1; number <= 4 * kCalls; number++) {
        std::string bytes = contents(kSize, number);
        a.faults().fail_at = a.faults().count + 1 + number % kCalls;
        post_from(0, bytes, number);
        a.faults().fail_at = 0;
        ASSERT_TRUE(received() == bytes) << number;
        ASSERT_FALSE(peer.end) << number;
    }
    EXPECT_GT(a.faults().failed, kCalls);
}

// It has arrived, and waits for nothing that its peer has yet to send.
TEST_P(RdsRdmaFragments, with_a_whole_message__are_taken_although_others_have_begun_too_many)
{
    connect_as_hawser();
    rds::PeersMemory &memory = reinterpret_cast<rds::Net *>(host_a.net().rds)->peers_memory;
    constexpr kapi_u32 kPiece = 1000;
    unsigned begun = 0;
    run(a, [&] {
        while (memory.take_partial(kPiece))
            begun++;
    });
    std::string bytes = contents(kWhole, 1);
    auto reads = spawn(program, [&] { EXPECT_TRUE(program.receive() == bytes); });
    post(fragment(bytes, 1, 0));
    EXPECT_TRUE(wait({reads}, 100 * sim::kMillisecond));
    run(a, [&] {
        for (; begun; begun--)
            memory.give_partial(kPiece);
    });
    EXPECT_TRUE(wait({reads}));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaFragments, ::testing::Range(1, 7));

/** Both ends are hawsers. */
class RdsRdmaPieces : public RdmaTest {};

// Whatever pages the messages got, a request has room for the pieces of a fragment.
TEST_P(RdsRdmaPieces, of_messages__fit_into_requests)
{
    constexpr unsigned kCount = 300;
    load();
    for (kapi_u32 most : {6u, 8u}) {
        auto few = [&](kapi_rdma_attrs &attrs) { attrs.max_sge = most; };
        unplug(dev_a);
        unplug(dev_b);
        dev_a = &sim::plug_rdma(a.initial_net(), "few_a", 2, few);
        dev_b = &sim::plug_rdma(b.initial_net(), "few_b", 2, few);
        world.run_for(sim::kMillisecond);
        auto pa = on_a(), pb = on_b();
        open(pa);
        open(pb);
        pa.socket.sk().sndbuf = pb.socket.sk().rcvbuf = 8 << 20;
        auto size = [](unsigned i) { return 20'000 + i * 997 % 60'000; };
        auto sends = spawn(pa, [&] {
            for (unsigned i = 0; i < kCount; i++)
                pa.send(numbered(size(i), i));
        });
        auto receives = spawn(pb, [&] {
            for (unsigned i = 0; i < kCount; i++)
                ASSERT_TRUE(pb.receive() == numbered(size(i), i)) << i;
        });
        EXPECT_TRUE(wait({sends, receives}));
        close(pa);
        close(pb);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaPieces, ::testing::Range(1, 5));

} // namespace
