// SPDX-License-Identifier: GPL-2.0
// Operations over iWARP, where a read fills regions.
#include "rds_rdma_memory_test.h"

#include "kapi/sim/rdma.h"

namespace {

class RdsRdmaIwarp : public RdmaMemoryTest {
protected:
    static constexpr unsigned kRegions = 32; // of a device; RDS may have half of them for programs
    static constexpr unsigned kPages = 64;   // of a region

    void SetUp() override
    {
        auto iwarp = [](kapi_rdma_attrs &attrs) {
            attrs.flags = KAPI_RDMA_IWARP;
            attrs.max_read_sge = 1;
            attrs.max_mr = kRegions;
            attrs.max_mr_pages = kPages;
        };
        unplug(dev_a);
        unplug(dev_b);
        dev_a = &sim::plug_rdma(a.initial_net(), "iw_a", 2, iwarp);
        dev_b = &sim::plug_rdma(b.initial_net(), "iw_b", 2, iwarp);
        load();
        open_both();
        dev_a->copies_late = dev_b->copies_late = true;
        cookie = region_on_b(remote.data(), remote.size());
    }
    Operation read_into(const std::vector<rds_abi_iovec> &local, kapi_u64 offset = 0)
    {
        Operation operation{cookie, offset, local};
        operation.flags = RDS_ABI_RDMA_NOTIFY_ME;
        return operation;
    }

    Bytes remote = pattern(100'000, 5);
    kapi_u64 cookie = 0;
};

// At odd places, within pages and across them, and of no other bytes.
TEST_P(RdsRdmaIwarp, reads)
{
    struct Part {
        std::size_t at, size;
    };
    const std::vector<std::vector<Part>> cases = {
        {{1, 1}}, {{4095, 2}}, {{17, 50'000}}, {{1, 7}, {5000, 4096}, {20'001, 30'000}, {60'000, 1}}};
    for (const auto &parts : cases) {
        Bytes local(70'000, 0xee), expected = local;
        std::vector<rds_abi_iovec> vectors;
        std::size_t from = 33;
        for (auto [at, size] : parts) {
            vectors.push_back({place_of(local.data()) + at, size});
            std::copy_n(remote.begin() + static_cast<long>(from), size, expected.begin() + static_cast<long>(at));
            from += size;
        }
        run(a, [&] { EXPECT_EQ(operate(pa, read_into(vectors, 33)), 4); });
        expect_success(pa);
        EXPECT_TRUE(local == expected) << parts.size();
        EXPECT_EQ(a.pinned_pages, 0u);
        expect_message(pb, "done");
    }
    close_both();
}

TEST_P(RdsRdmaIwarp, reports_reads_in_their_order)
{
    constexpr unsigned kReads = 5;
    std::vector<Bytes> locals(kReads, Bytes(3000));
    run(a, [&] {
        for (unsigned i = 0; i < kReads; i++) {
            Operation operation = read_into({{place_of(locals[i].data()), locals[i].size()}});
            operation.token = i;
            EXPECT_EQ(operate(pa, operation), 4);
        }
    });
    std::vector<kapi_u64> tokens;
    while (tokens.size() < kReads)
        run(a, [&] {
            Received received = receive(pa);
            ASSERT_FALSE(received.notices.empty());
            for (const auto &notice : received.notices)
                tokens.push_back(notice.user_token);
        });
    EXPECT_EQ(tokens, (std::vector<kapi_u64>{0, 1, 2, 3, 4}));
    for (unsigned i = 0; i < kReads; i++)
        expect_message(pb, "done");
    close_both();
}

// More regions than the device has, one after the other, and together as many as it has not.
TEST_P(RdsRdmaIwarp, reads_again_and_again)
{
    std::vector<Bytes> locals(40, Bytes(3000));
    for (unsigned round = 0; round < 4; round++) {
        run(a, [&] {
            for (unsigned i = 0; i < locals.size(); i++) {
                Operation operation = read_into({{place_of(locals[i].data()), locals[i].size()}}, i);
                operation.flags |= RDS_ABI_RDMA_SILENT;
                EXPECT_EQ(operate(pa, operation, ""), 0);
            }
        });
        for (unsigned done = 0; done < locals.size();)
            run(a, [&] {
                Received received = receive(pa);
                for (const auto &notice : received.notices)
                    EXPECT_EQ(notice.status, RDS_ABI_RDMA_SUCCESS);
                ASSERT_FALSE(received.notices.empty());
                done += static_cast<unsigned>(received.notices.size());
            });
        for (unsigned i = 0; i < locals.size(); i++)
            EXPECT_TRUE(std::equal(locals[i].begin(), locals[i].end(), remote.begin() + i)) << i;
    }
    close_both();
}

TEST_P(RdsRdmaIwarp, writes)
{
    Bytes local = pattern(9000, 8);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 50, {{place_of(local.data()), local.size()}}}), 4); });
    expect_success(pa);
    EXPECT_TRUE(std::equal(local.begin(), local.end(), remote.begin() + 50));
    close_both();
}

// The connection ends with regions that are valid at this host, too.
TEST_P(RdsRdmaIwarp, is_refused__with_a_dead_key)
{
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    Bytes local(5000, 0xee);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), 100}, {place_of(local.data()) + 4000, 100}})), 4); });
    expect_refusal(pa);
    EXPECT_EQ(a.pinned_pages, 0u);
    EXPECT_TRUE(local == Bytes(5000, 0xee));
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

// Siw completes what it has given to TCP, and a read when its answer is there. So an acknowledgement that is posted between two
// chains of an operation completes before its reads, of which one then fails.
TEST_P(RdsRdmaIwarp, is_refused__behind_an_acknowledgement)
{
    constexpr unsigned kPieces = 10; // with 30 requests, of which the first chain has 16: some of the reads
    dev_a->sends_early = dev_a->posts_late = true;
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    bool ended = false;
    pb.socket.sk().sndbuf = 16 << 10; // so that a acknowledges all the time
    world.network().link(a, b).delay_ns = world.network().link(b, a).delay_ns = sim::kMillisecond;
    auto sends = spawn(pb, [&] {
        while (!ended)
            pb.send("news");
    });
    Bytes local(kPieces * 100);
    std::vector<rds_abi_iovec> vectors;
    for (std::size_t i = 0; i < kPieces; i++)
        vectors.push_back({place_of(local.data()) + 100 * i, 100});
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into(vectors)), 4); });
    std::vector<rds_abi_rdma_notify> notices;
    auto reads = spawn(pa, [&] {
        pa.socket.sk().rcvtimeo_ns = 5 * sim::kSecond;
        for (Received received; received = receive(pa), received.result >= 0;) {
            notices.insert(notices.end(), received.notices.begin(), received.notices.end());
            ended = ended || !notices.empty();
        }
    });
    EXPECT_TRUE(wait({sends, reads}));
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].status, RDS_ABI_RDMA_REMOTE_ERROR);
    close_both();
}

// Siw ends a read at once that TCP does not take. The reads in front of it wait for their answers then, and are flushed later. Of
// the simulated device the message in front of those is not acknowledged either.
TEST_P(RdsRdmaIwarp, fails__before_the_reads_in_front_of_it)
{
    constexpr unsigned kPieces = 10;
    Bytes local(kPieces * 100, 0xee);
    std::vector<rds_abi_iovec> vectors;
    for (std::size_t i = 0; i < kPieces; i++)
        vectors.push_back({place_of(local.data()) + 100 * i, 100});
    std::string before = contents(9000, 3);
    world.network().link(a, b).delay_ns = 10 * sim::kMillisecond;
    sim::fail_read(*dev_a, kPieces - 1);
    run(a, [&] {
        pa.send(before);
        EXPECT_EQ(operate(pa, read_into(vectors)), 4);
    });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_EQ(a.pinned_pages, 0u);
    run(a, [&] { pa.send("next"); });
    expect_message(pb, before);
    expect_message(pb, "next");
    close_both();
}

TEST_P(RdsRdmaIwarp, is_given_up__when_the_connection_ends)
{
    Bytes local(50'000);
    cut(true);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), local.size()}})), 4); });
    world.run_for(5 * sim::kSecond);
    cut(false);
    int status = next_notice(pa).status;
    EXPECT_TRUE(status == RDS_ABI_RDMA_DROPPED || status == RDS_ABI_RDMA_OTHER_ERROR) << status;
    EXPECT_EQ(a.pinned_pages, 0u);
    close_both();
}

// Each takes three requests, of which the queue has 260.
TEST_P(RdsRdmaIwarp, refuses_more_pieces_than_the_queue_has_room_for)
{
    Bytes local(1000);
    std::vector<rds_abi_iovec> vectors;
    for (std::size_t i = 0; i < 87; i++)
        vectors.push_back({place_of(local.data()) + i, 1});
    run(a, [&] { EXPECT_EQ(operate(pa, read_into(vectors)), 4); });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_EQ(a.pinned_pages, 0u);
    close_both();
}

// It never will, so that nobody behind it waits.
TEST_P(RdsRdmaIwarp, refuses_a_piece_that_no_region_has_the_pages_for__at_once)
{
    Bytes local((kPages + 1) * 4096);
    std::uint64_t began = world.now_ns();
    run(a, [&] {
        EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), local.size()}})), 4);
        pa.send("next");
    });
    expect_message(pb, "next");
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_LT(world.now_ns() - began, sim::kSecond);
    EXPECT_EQ(a.pinned_pages, 0u);
    close_both();
}

TEST_P(RdsRdmaIwarp, loses_nothing__when_a_call_fails)
{
    for (unsigned step = 1; step < 40; step++) {
        Bytes local(9000);
        long sent = 0;
        run(a, [&] {
            a.faults().fail_at = a.faults().count + step;
            sent = operate(pa, read_into({{place_of(local.data()), 4000}, {place_of(local.data()) + 4500, 4500}}));
        });
        world.run_for(sim::kSecond);
        a.faults().fail_at = 0;
        EXPECT_TRUE(sent == 4 || sent == -KAPI_ENOMEM) << sent;
        if (sent == 4 && next_notice(pa).status == RDS_ABI_RDMA_SUCCESS) {
            EXPECT_TRUE(std::equal(local.begin() + 4500, local.end(), remote.begin() + 4000)) << step;
        }
        EXPECT_EQ(a.pinned_pages, 0u) << step;
    }
    close_both();
}

// It ends nothing that is posted: what it may use stays, and the regions go with the queue pair.
TEST_P(RdsRdmaIwarp, keeps_the_pages__of_a_device_that_does_not_end_a_read)
{
    Bytes local(5000);
    sim::make_stuck(*dev_a);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), local.size()}})), 4); });
    unsigned pinned = a.pinned_pages;
    EXPECT_NE(pinned, 0u);
    unplug(dev_a);
    run(a, [&] {
        SocketName name(sim::address(pa.to, kPort));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
    });
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_DROPPED);
    close(pa);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    EXPECT_EQ(a.pinned_pages, pinned);
    a.crash(); // what was posted is never freed
    close(pb);
}

// What one of them covers, and may still be written to by the peer, is not given back to the program.
TEST_P(RdsRdmaIwarp, keeps_the_pages__of_regions_that_the_device_does_not_give_up)
{
    sim::keep_regions(*dev_a);
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    Bytes local(9000);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), 100}, {place_of(local.data()) + 4000, 100}})), 4); });
    expect_refusal(pa);
    EXPECT_NE(a.pinned_pages, 0u);
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close(pa);
    close(pb);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    EXPECT_NE(a.pinned_pages, 0u);
    a.crash(); // what the device keeps is never freed
}

// An operation that went well leaves no region valid.
TEST_P(RdsRdmaIwarp, gives_the_pages_back__of_a_read_that_went_well_on_such_a_device)
{
    sim::keep_regions(*dev_a);
    dev_a->copies_late = false; // no device in software keeps any
    Bytes local(9000);
    run(a, [&] { EXPECT_EQ(operate(pa, read_into({{place_of(local.data()), local.size()}})), 4); });
    expect_success(pa);
    EXPECT_EQ(a.pinned_pages, 0u);
    EXPECT_TRUE(std::equal(local.begin(), local.end(), remote.begin()));
    close_both();
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    a.crash();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaIwarp, ::testing::Range(1, 7));

} // namespace
