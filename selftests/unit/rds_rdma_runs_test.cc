// SPDX-License-Identifier: GPL-2.0
// Many messages in one call, over RDMA and beside its control messages.
#include "rds_rdma_memory_test.h"

namespace {

class RdsRdmaRuns : public RdmaMemoryTest {
protected:
    using Lengths = std::vector<std::uint32_t>;

    void SetUp() override
    {
        RdmaMemoryTest::SetUp();
        open_both();
        int on = 1;
        run(a, [&] { ASSERT_EQ(pa.socket.set_option(RDS_ABI_RECV_LENGTHS, &on, sizeof(on)), 0); });
    }
    void TearDown() override { close_both(); }
    void expect_run(const std::string &bytes, const Lengths &lengths, std::size_t controls = 1)
    {
        std::string got(100'000, '\0');
        RdsSocket::Run run_of;
        run(a, [&] { run_of = pa.socket.receive_run(got.data(), got.size(), RDS_ABI_MSG_DONTWAIT); });
        got.resize(run_of.result > 0 ? static_cast<std::size_t>(run_of.result) : 0);
        EXPECT_EQ(got, bytes);
        EXPECT_EQ(run_of.lengths, lengths);
        EXPECT_EQ(pa.socket.control().size(), controls);
    }
};

TEST_P(RdsRdmaRuns, messages_of_one_call__are_received_by_one)
{
    Lengths lengths{1, 5000, 3, 20'000};
    std::string bytes = contents(25'004, 1);
    run(b, [&] { EXPECT_EQ(pb.socket.send_each(bytes.data(), bytes.size(), sim::address(pb.to, kPort), lengths), 25'004); });
    world.run_for(sim::kSecond);
    expect_run(bytes, lengths);
}

TEST_P(RdsRdmaRuns, messages_of_sendmmsg__are_posted_with_the_last_one_or_by_a_timer)
{
    auto send = [&](const std::string &text, unsigned flags) {
        run(b, [&] { EXPECT_EQ(pb.socket.send(text.data(), text.size(), sim::address(pb.to, kPort), flags), 3); });
    };
    auto expect_nothing_after = [&](std::uint64_t ns) {
        world.run_for(ns);
        char byte;
        run(a, [&] { EXPECT_EQ(pa.socket.receive(&byte, 1, nullptr, RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN); });
    };
    send("two", 0); // there is a connection
    world.run_for(5 * sim::kSecond); // no timer of its path runs
    expect_run("two", {3});
    send("one", RDS_ABI_MSG_BATCH);
    send("two", RDS_ABI_MSG_BATCH);
    expect_nothing_after(3 * sim::kMillisecond);
    send("six", 0);
    world.run_for(6 * sim::kMillisecond); // then no timer has run
    expect_run("onetwosix", {3, 3, 3});
    world.run_for(sim::kSecond);
    send("ten", RDS_ABI_MSG_BATCH);
    expect_nothing_after(9 * sim::kMillisecond);
    world.run_for(8 * sim::kMillisecond);
    expect_run("ten", {3});
}

// The name of a region is of one message.
TEST_P(RdsRdmaRuns, message_with_a_cookie__is_alone)
{
    Bytes memory(100, 0);
    kapi_u64 cookie = region_on_b(memory.data(), 100);
    run(b, [&] {
        pb.send("one");
        pb.send("two");
        EXPECT_EQ(send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie), "three"), 5);
        pb.send("four");
        pb.send("five");
    });
    world.run_for(sim::kSecond);
    expect_run("onetwo", {3, 3});
    expect_run("three", {5}, 2);
    expect_run("fourfive", {4, 4});
}

TEST_P(RdsRdmaRuns, notice__comes_alone)
{
    Bytes memory(100, 0), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(memory.data(), 100);
    run(b, [&] { pb.send("one"); });
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    world.run_for(sim::kSecond);
    expect_run("", {});
    expect_run("one", {3});
}

TEST_P(RdsRdmaRuns, lengths_beside_another_request__are_refused)
{
    Bytes memory(100, 0);
    kapi_u64 cookie = region_on_b(memory.data(), 100);
    struct {
        Cmsg<kapi_u64> dest;
        rds_abi_cmsghdr header{sizeof(header) + 8, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_LENGTHS};
        std::uint32_t lengths[2]{3, 3};
    } both{Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie)};
    run(b, [&] {
        EXPECT_EQ(send_with(pb, both, "onetwo"), -KAPI_EINVAL);
        pb.socket.sk().zerocopy = true;
        EXPECT_EQ(pb.socket.send_each("onetwo", 6, sim::address(pb.to, kPort), {3, 3}, RDS_ABI_MSG_ZEROCOPY), -KAPI_EINVAL);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaRuns, ::testing::Range(1, 4));

} // namespace
