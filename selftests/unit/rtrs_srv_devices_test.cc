// SPDX-License-Identifier: GPL-2.0
// What the RTRS server needs of a device, and how it divides its chunks among the regions that one can have.
#include "rtrs_srv_test.h"

namespace {

class SrvDevices : public SrvTest {
protected:
    void replug(const std::function<void(kapi_rdma_attrs &)> &change)
    {
        run(b, [&] { sim::unplug_rdma(*dev_b); });
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b", 2, change);
    }
    void serve_all(unsigned depth, std::size_t size = 3000)
    {
        for (unsigned chunk = 0; chunk < depth; chunk++)
            write(first, 1, chunk, contents(size, chunk), "w" + std::to_string(chunk));
        for (unsigned chunk = 0; chunk < depth; chunk++)
            EXPECT_EQ(answer(first, chunk), 0) << chunk;
        for (unsigned chunk = 0; chunk < depth; chunk++) {
            EXPECT_TRUE(user.disk[std::to_string(chunk)] == contents(size, chunk)) << chunk;
            read(first, 1, depth - 1 - chunk, size, "r" + std::to_string(chunk));
        }
        for (unsigned chunk = 0; chunk < depth; chunk++) {
            EXPECT_EQ(answer(first, depth - 1 - chunk), 0);
            EXPECT_TRUE(first.fetched(depth - 1 - chunk, size) == contents(size, chunk)) << chunk;
        }
    }
    unsigned logged(const std::string &line) const
    {
        return static_cast<unsigned>(std::count(b.log.begin(), b.log.end(), line));
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvDevices, ::testing::Range(1, 3));

TEST_P(SrvDevices, what_one_needs)
{
    const struct {
        int error;
        std::function<void(kapi_rdma_attrs &)> change;
    } rows[] = {
        {KAPI_ENODEV, [](kapi_rdma_attrs &attrs) { attrs.flags |= KAPI_RDMA_IWARP; }},
        {KAPI_EOPNOTSUPP, [](kapi_rdma_attrs &attrs) { attrs.max_wr = 63; }},
        {KAPI_EOPNOTSUPP, [](kapi_rdma_attrs &attrs) { attrs.max_cqe = 129; }},
        {KAPI_EOPNOTSUPP, [](kapi_rdma_attrs &attrs) { attrs.max_cqe = 1; }},
        {KAPI_EOPNOTSUPP, [](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 1; }},
        {0, [](kapi_rdma_attrs &attrs) { attrs.max_wr = 64; }},
        {0, [](kapi_rdma_attrs &attrs) { attrs.max_sge = 1; }},
        {0, [](kapi_rdma_attrs &attrs) { attrs.max_cqe = 130; }},
        {0, [](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 2; }},
    };
    load(true);
    for (unsigned row = 0; row < std::size(rows); row++) {
        SCOPED_TRACE(row);
        replug(rows[row].change);
        world.run_for(sim::kSecond);
        EXPECT_EQ(rejected(ask(first, request(0, 2))), rows[row].error);
        if (!rows[row].error) {
            ASSERT_TRUE(ask(first, request(1, 2)).established);
            exchange(first);
            serve_all(kDepth, 1000);
        }
        drop(first);
        world.run_for(sim::kSecond);
    }
}

/** With keys that last a region has as many chunks as fit, and the last one those that are left. */
TEST_P(SrvDevices, regions_of_several_chunks)
{
    replug([](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 5; }); // two chunks of two pages
    sim::make_bounce(*dev_b);
    for (unsigned depth : {1u, 7u, 8u}) {
        SCOPED_TRACE(depth);
        load(false, depth);
        establish(first);
        EXPECT_EQ(first.info.size(), rtrs::info_response_bytes((depth + 1) / 2));
        for (unsigned round = 0; round < 2; round++)
            serve_all(depth);
        drop(first);
        unload();
    }
}

/** They become valid in portions. */
TEST_P(SrvDevices, more_regions_than_its_queue_takes)
{
    for (kapi_u32 places : {64u, 1u << 15})
        for (unsigned depth : {64u, 129u}) {
            SCOPED_TRACE(depth);
            replug([&](kapi_rdma_attrs &attrs) { attrs.max_wr = places; });
            load(true, depth);
            establish(first);
            EXPECT_EQ(first.info.size(), rtrs::info_response_bytes(depth));
            for (unsigned chunk : {0u, 31u, 32u, 63u, depth - 1}) {
                write(first, 1, chunk, contents(500, chunk), "wx");
                EXPECT_EQ(answer(first, chunk), 0) << chunk;
                EXPECT_TRUE(user.disk["x"] == contents(500, chunk));
            }
            drop(first);
            unload();
        }
}

TEST_P(SrvDevices, one_that_there_is_no_memory_for_is_not_used)
{
    load(true);
    b.faults().fail_at = b.faults().count + 1;
    replug({});
    world.run_for(sim::kSecond);
    EXPECT_EQ(logged("rtrs_server: no memory for device rxe_b, which is not used"), 1u);
    EXPECT_EQ(rejected(ask(first, request(0, 1))), KAPI_ENODEV);
}

/** Clients that come over IP are served in any case. */
TEST_P(SrvDevices, a_failure_to_listen_on_GIDs_is_logged)
{
    load(true);
    close();
    b.faults().fail_at = b.faults().count + 3; // behind the server's memory and the listener over IP
    run(b, [&] { ASSERT_EQ(rtrs_srv_core_open(&b.initial_net(), &SrvUser::ops, &user, kPort, &server), 0); });
    EXPECT_EQ(logged("rtrs_server: no listening on GIDs: error 12"), 1u);
    establish(first);
}

TEST_P(SrvDevices, what_is_logged)
{
    load(true);
    establish(first);
    run(a, [&] { first.send_immediate(*first.links[1], 0x70000000); });
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(logged("rtrs_server: a client violates the protocol, its path ends"), 1u);
    drop(first);
    world.run_for(sim::kSecond);
    establish(first);
    first.answers_heartbeats = false;
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(logged("rtrs_server: over rxe_b a client is silent, its path ends"), 1u);
    drop(first);
    unload();
    run(b, [&] {
        rtrs_srv_core_params params{4096, 512, 1};
        EXPECT_EQ(init(params), -KAPI_EINVAL);
    });
    EXPECT_EQ(logged("rtrs_server: sess_queue_depth 512 (1 to 65535) of max_chunk_size 4096 "
                     "(a power of two from 8192 on) cannot be"),
              1u);
}

/** A name that does not fit is cut, with the zero at its end. */
TEST_P(SrvDevices, room_for_the_name_of_a_session)
{
    load(true);
    establish(first);
    run(b, [&] {
        for (kapi_size room : {0u, 1u, 7u, 8u, 300u}) {
            char name[301];
            std::memset(name, '-', sizeof(name));
            EXPECT_EQ(rtrs_srv_core_path_name(user.session, name, room), 0);
            EXPECT_EQ(std::string(name, room ? std::strlen(name) : 0), std::string("session").substr(0, room ? room - 1 : 0));
            EXPECT_EQ(name[room], '-') << room;
        }
    });
}

} // namespace
