// SPDX-License-Identifier: GPL-2.0
// What the RTRS client takes from its user, its devices and its server, up to which limits, and what it refuses.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientLimits : public RtrsClientTest {
protected:
    void replug(const std::function<void(kapi_rdma_attrs &)> &change)
    {
        run(a, [&] { sim::unplug_rdma(*devices[0]); });
        devices[0] = &sim::plug_rdma(a.initial_net(), "rxe_a0", 2, change);
    }
    rtrs_clt_chunk *permit()
    {
        rtrs_clt_chunk *taken = nullptr;
        run(a, [&] { taken = rtrs_clt_core_get_permit(session, 0, 1); });
        return taken;
    }
    /** One request, whose list is of parts of data, with that permit. */
    int ask(rtrs_clt_chunk *permit, bool read, std::uint64_t message_bytes, std::uint64_t data_bytes,
            std::vector<kapi_sglist> list)
    {
        Ended ended;
        int begun = 0;
        run(a, [&] {
            rtrs_clt_request_args args{read, &ended, Ended::call, message_bytes, data_bytes, list.data(),
                                       static_cast<unsigned>(list.size())};
            begun = rtrs_clt_core_request(session, permit, &args);
        });
        if (!begun) {
            EXPECT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
        }
        return begun ? begun : ended.error;
    }
    unsigned char bytes[65536] = {};
};

TEST_P(RtrsClientLimits, what_a_request_may_be)
{
    ready();
    auto *taken = permit();
    auto piece = [&](std::size_t at, std::size_t length) { return kapi_sglist{bytes + at, 0, length}; };
    std::vector<kapi_sglist> whole;
    for (std::size_t at = 0; at < 61440; at += 4096)
        whole.push_back(piece(at, 4096));
    constexpr unsigned room = 4096 - 24; // a read's header is the longest
    const unsigned mapped = a.live_rdma["mapping"];
    EXPECT_EQ(ask(taken, false, room + 1, 0, {}), -KAPI_EMSGSIZE);
    EXPECT_EQ(ask(taken, false, std::uint64_t{1} << 32, 0, {}), -KAPI_EMSGSIZE);
    EXPECT_EQ(ask(taken, false, 0, std::uint64_t{1} << 32, {piece(0, 100)}), -KAPI_EMSGSIZE);
    EXPECT_EQ(ask(taken, false, 0, 1, {}), -KAPI_EINVAL) << "no piece";
    EXPECT_EQ(ask(taken, false, 0, 101, {piece(0, 100)}), -KAPI_EINVAL) << "fewer bytes";
    EXPECT_EQ(ask(taken, true, 0, 200, {piece(0, 100), piece(8192, 100)}), -KAPI_EINVAL) << "no region has such a gap";
    EXPECT_EQ(a.live_rdma["mapping"], mapped) << "nothing is left of them";
    EXPECT_EQ(ask(taken, true, 0, 0, {}), -KAPI_ENOENT);
    EXPECT_FALSE(server.requests.back().parsed.has_target);
    EXPECT_EQ(ask(taken, false, room, 61440, whole), 0);
    EXPECT_EQ(server.requests.back().message.size(), room);
    EXPECT_EQ(server.requests.back().data.size(), 61440u);
    EXPECT_EQ(ask(taken, true, room, 61440, whole), 0);
    EXPECT_EQ(server.requests.size(), 3u);
    run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
}

TEST_P(RtrsClientLimits, a_server_whose_limit_ends_within_a_page)
{
    server.change_acceptance = [](rtrs::wire::ConnectResponse &response) {
        response.max_io_bytes = 60'000;
        response.max_header_bytes = 65'536 - 60'000;
    };
    ready();
    rtrs_clt_limits found{};
    run(a, [&] { EXPECT_EQ(rtrs_clt_core_query(session, &found), 1); });
    EXPECT_EQ(found.max_io_bytes, 60'000u);
    EXPECT_EQ(write("block", contents(60'000, 1)), 0);
    EXPECT_EQ(read("block", 60'000), contents(60'000, 1));
}

/** RNBD asks a disk to flush like that. */
TEST_P(RtrsClientLimits, a_request_without_data)
{
    ready();
    for (unsigned i = 0; i < 20; i++) {
        EXPECT_EQ(write("flush", ""), 0);
        EXPECT_FALSE(server.requests.back().parsed.is_read);
        EXPECT_EQ(read("flush", 0), "");
        EXPECT_TRUE(server.requests.back().parsed.is_read);
        EXPECT_FALSE(server.requests.back().parsed.has_target);
        EXPECT_EQ(server.requests.back().message, "flush");
        EXPECT_EQ(write("disk", contents(100, i)), 0);
        EXPECT_EQ(read("disk", 100), contents(100, i));
    }
    EXPECT_EQ(get(path() + "stats/rdma").substr(0, 3), "40 ");
}

/** A region has one page more than the data, which need not begin with a page. */
TEST_P(RtrsClientLimits, a_device_with_small_regions)
{
    replug([](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 9; });
    ready();
    rtrs_clt_limits found{};
    run(a, [&] { EXPECT_EQ(rtrs_clt_core_query(session, &found), 1); });
    EXPECT_EQ(found.max_io_bytes, 8u * 4096);
    EXPECT_EQ(found.max_segments, 9u);
    std::vector<kapi_sglist> list;
    for (std::size_t at = 2048; at < 2048 + 32768; at += list.back().length)
        list.push_back({bytes + at, at % 4096, std::min<std::size_t>(4096 - at % 4096, 2048 + 32768 - at)});
    EXPECT_EQ(list.size(), 9u);
    server.disk[""] = contents(32768, 5);
    auto *taken = permit();
    EXPECT_EQ(ask(taken, true, 0, 32768, list), 0);
    EXPECT_EQ(std::string(reinterpret_cast<char *>(bytes) + 2048, 32768), contents(32768, 5));
    run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
}

/** They are used to the last entry. */
TEST_P(RtrsClientLimits, a_device_with_short_completion_queues)
{
    server.geometry = *rtrs::Geometry::create(256, 8192);
    replug([](kapi_rdma_attrs &attrs) { attrs.max_cqe = 140; });
    ready();
    ASSERT_NE(session, nullptr);
    for (unsigned i = 0; i < 200; i++)
        ASSERT_EQ(write("block", contents(4096, i)), 0) << i;
    EXPECT_EQ(read("block", 4096), contents(4096, 199));
}

TEST_P(RtrsClientLimits, a_device_that_cannot_do_what_it_needs_is_not_used)
{
    const std::function<void(kapi_rdma_attrs &)> bad[] = {
        [](kapi_rdma_attrs &attrs) { attrs.flags |= KAPI_RDMA_IWARP; },
        [](kapi_rdma_attrs &attrs) { attrs.max_sge = 1; },
        [](kapi_rdma_attrs &attrs) { attrs.max_wr = 63; },
        [](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 1; },
    };
    load();
    serve();
    for (auto &change : bad) {
        a.log.clear();
        replug(change);
        run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ENODEV); });
        EXPECT_EQ(std::ranges::count(a.log, "rtrs_client: device rxe_a0 is not used, it cannot do what RTRS needs"), 1);
    }
    a.faults().fail_at = a.faults().count + 1;
    replug({});
    world.run_for(sim::kMillisecond);
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ENODEV); });
    EXPECT_EQ(std::ranges::count(a.log, "rtrs_client: no memory for device rxe_a0, which is not used"), 1);
    replug([](kapi_rdma_attrs &attrs) {
        attrs.max_sge = 2;
        attrs.max_wr = 64;
        attrs.max_mr_pages = 2;
    });
    open();
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
}

/** A write is one request or more. */
TEST_P(RtrsClientLimits, a_device_that_takes_few_pieces)
{
    load();
    serve();
    for (kapi_u32 most : {2u, 3u, 7u}) {
        replug([=](kapi_rdma_attrs &attrs) { attrs.max_sge = most; });
        open();
        auto *taken = permit();
        for (unsigned count : {1u, 2u, 3u, 6u, 7u, 15u}) {
            std::string data = contents(count * 1000, most + count);
            std::vector<kapi_sglist> list; // none is the next one's neighbour
            for (unsigned i = 0; i < count; i++) {
                list.push_back({bytes + 4096 * (count - i), 0, 1000});
                data.copy(reinterpret_cast<char *>(list.back().bytes), 1000, i * 1000);
            }
            EXPECT_EQ(ask(taken, false, 5, data.size(), list), 0);
            EXPECT_TRUE(server.requests.back().data == data) << count << " with " << most;
        }
        run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
        close();
    }
}

TEST_P(RtrsClientLimits, the_length_of_a_name)
{
    load();
    serve();
    run(a, [&] { EXPECT_EQ(try_open(1, std::string(255, 'x').c_str()), -KAPI_EINVAL); });
    run(a, [&] { EXPECT_EQ(try_open(1, std::string(254, 'x').c_str()), 0); });
    EXPECT_EQ(server.names, std::vector<std::string>{std::string(254, 'x')});
}

/** Of its user's wish and the module's parameter the shorter one, but not less than the file allows. */
TEST_P(RtrsClientLimits, the_delay_between_attempts)
{
    load();
    serve();
    for (auto [wish, delay] : {std::pair(0u, "100\n"), {99u, "100\n"}, {101u, "101\n"}, {1999u, "1999\n"}, {2001u, "2000\n"}}) {
        rtrs_clt_route one = route(0);
        rtrs_clt_open_args args{&a.initial_net(), "session", this, on_link, &one, 1, WireServer::kPort, wish, 7};
        run(a, [&] { ASSERT_EQ(rtrs_clt_core_open(&args, &session), 0); });
        EXPECT_EQ(get(root + "reconnect_delay_ms"), delay) << wish;
        EXPECT_EQ(get(root + "max_reconnect_attempts"), "7\n");
        close();
    }
}

/** Those that are coming up count. */
TEST_P(RtrsClientLimits, of_the_number_of_paths)
{
    ready();
    std::vector<sim::TaskRef> adding;
    for (unsigned i = 0; i < 127; i++)
        adding.push_back(world.spawn(a, "add", [&, i] { // nobody has these addresses
            EXPECT_LT(sim::sysfs_write(root + "add_path", "ip:10.0.0." + std::to_string(100 + i)), 0);
        }));
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(put(root + "add_path", path_name(1)), -KAPI_ENOSPC);
    EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(adding, [](auto &task) { return task->is_done(); }); },
                                10 * sim::kSecond));
    EXPECT_EQ(put(root + "add_path", path_name(1)), 0);
}

/** Only the first connection decides about the session. */
TEST_P(RtrsClientLimits, the_acceptance_of_a_further_connection_is_wrong)
{
    using Response = rtrs::wire::ConnectResponse;
    const std::function<void(Response &)> bad[] = {
        [](Response &response) { response.magic = 1; },
        [](Response &response) { response.queue_depth = 4; },
    };
    load();
    serve();
    for (auto &change : bad) {
        unsigned accepted = 0;
        server.change_acceptance = [&](Response &response) {
            if (accepted++)
                change(response);
        };
        run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ECONNRESET); });
        EXPECT_GT(accepted, 1u);
    }
}

TEST_P(RtrsClientLimits, the_information_is_a_message_alone)
{
    load();
    serve();
    const std::function<void(const std::string &)> bad[] = {
        [&](const std::string &info) { server.send(*server.service(), info, KAPI_WR_SEND_IMM); },
        [&](const std::string &) { server.immediate(*server.service(), 0x80000000); },
    };
    for (auto &send : bad) {
        a.log.clear();
        server.change_info = [&](std::string &info) { send(std::exchange(info, {})); };
        run(a, [&] { EXPECT_EQ(try_open(), -KAPI_EPROTO); });
        const char *why = "rtrs_client: session: the server breaks the protocol: something before the information was received";
        EXPECT_GE(std::ranges::count(a.log, why), 1);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientLimits, ::testing::Range(1, 3));

/** The send queues of a device that has few places. */
class RtrsClientPlaces : public RtrsClientBase, public ::testing::WithParamInterface<int> {
protected:
    static constexpr unsigned kPlaces = 66, kDepth = 256;

    RtrsClientPlaces() : RtrsClientBase(static_cast<std::uint64_t>(GetParam()), kPlaces)
    {
        server.geometry = *rtrs::Geometry::create(kDepth, 8192);
    }
    /** How many of as many requests as there are permits are taken, none of which is answered. */
    unsigned taken(bool admin, bool read)
    {
        std::vector<Ended> ended(kDepth - 1); // one stays for IO
        std::vector<rtrs_clt_chunk *> permits;
        unsigned taken = 0;
        server.on_request = [](WireServer::Request &) { return true; };
        run(a, [&] {
            for (Ended &one : ended) {
                one.data = contents(512, 1);
                permits.push_back(rtrs_clt_core_get_permit(session, admin, 1));
                int error = begin(permits.back(), one, read, "block");
                EXPECT_TRUE(error == 0 || error == -KAPI_EAGAIN) << error;
                taken += !error;
            }
        });
        EXPECT_EQ(put(path() + "reconnect", "1"), 0);
        run(a, [&] {
            for (auto *permit : permits)
                rtrs_clt_core_put_permit(session, permit);
        });
        world.run_for(400 * sim::kMillisecond); // between two heartbeats
        return taken;
    }
};

TEST_P(RtrsClientPlaces, are_used_to_the_last_one_but_for_those_of_heartbeats)
{
    ready();
    world.run_for(400 * sim::kMillisecond);
    for (unsigned round = 0; round < 2; round++) {
        EXPECT_EQ(taken(true, false), kPlaces - 8);
        EXPECT_EQ(taken(true, true), (kPlaces - 8) / 3);
        EXPECT_EQ(taken(false, true), sim::kCpus * (kPlaces / 3)) << "a connection for each processor";
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientPlaces, ::testing::Range(1, 3));

} // namespace
