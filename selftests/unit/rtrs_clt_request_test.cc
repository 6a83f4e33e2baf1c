// SPDX-License-Identifier: GPL-2.0
// Requests of the RTRS client: what is written arrives, what is read is what was stored, each ends once.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientRequest : public RtrsClientTest {};

TEST_P(RtrsClientRequest, a_session_opens_and_closes)
{
    ready();
    EXPECT_EQ(server.names, std::vector<std::string>{"session"});
    EXPECT_EQ(server.asked, 1 + sim::kCpus);
    run(a, [&] {
        rtrs_clt_limits limits;
        ASSERT_EQ(rtrs_clt_core_query(session, &limits), 1);
        EXPECT_EQ(limits.queue_depth, 8u);
        EXPECT_EQ(limits.max_io_bytes, 65536u - 4096u);
        EXPECT_EQ(limits.max_segments, 16u);
    });
    close();
    ASSERT_TRUE(world.run_until([&] { return server.connections.empty(); }, 100 * sim::kSecond));
    EXPECT_TRUE(links.empty()) << "neither the beginning nor the end is reported";
}

TEST_P(RtrsClientRequest, what_is_written_is_read)
{
    ready();
    unsigned number = 0;
    for (std::size_t size : {1u, 512u, 4096u, 4097u, 61440u}) {
        std::string message = "block " + std::to_string(size), data = contents(size, ++number);
        EXPECT_EQ(write(message, data), 0);
        EXPECT_EQ(server.disk[message], data);
        EXPECT_EQ(read(message, size), data);
    }
    EXPECT_EQ(server.failed, 0u);
}

// Of the memory of a read the server gets the place within a page, and nothing of where that page lies.
TEST_P(RtrsClientRequest, a_target_is_described_by_its_place)
{
    ready();
    for (std::size_t place : {0u, 512u, 4032u}) {
        first_place = place;
        EXPECT_EQ(write("block", contents(9000, 1)), 0);
        EXPECT_EQ(read("block", 9000), contents(9000, 1));
        ASSERT_TRUE(server.requests.back().parsed.has_target);
        EXPECT_EQ(server.requests.back().parsed.target.address, place);
    }
}

TEST_P(RtrsClientRequest, the_servers_error_is_that_of_the_request)
{
    ready();
    EXPECT_EQ(read("nothing", 512), "error -" + std::to_string(KAPI_ENOENT));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientRequest, ::testing::Range(1, 6));

} // namespace
