// SPDX-License-Identifier: GPL-2.0
// Memory over RDMA: what is registered is reached, byte for byte, and nothing else, and no longer.
#include "rds_rdma_memory_test.h"

#include <algorithm>

namespace {

class RdsRdmaMemory : public RdmaMemoryTest {};

constexpr std::size_t kSizes[] = {1, 2, 4095, 4096, 4097, 65536, 1 << 20};

TEST_P(RdsRdmaMemory, is_written__exactly_the_bytes_of_the_operation)
{
    open_both();
    unsigned number = 0;
    kapi_u64 bytes = 0;
    for (std::size_t size : kSizes)
        for (std::size_t skew : {0u, 1u, 4095u}) {
            SCOPED_TRACE(std::to_string(size) + " bytes at " + std::to_string(skew));
            Bytes remote(size + 3 * 4096, 0xee), local = pattern(size + 8, ++number);
            kapi_u64 cookie = region_on_b(remote.data() + skew, size);
            run(a, [&] {
                EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data() + 3), size}}}), 4);
            });
            expect_message(pb, "done");
            Bytes expected(remote.size(), 0xee);
            std::copy_n(local.begin() + 3, size, expected.begin() + static_cast<long>(skew));
            EXPECT_TRUE(remote == expected);
            expect_success(pa);
            run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
            bytes += size;
        }
    EXPECT_EQ(counter(pa, "send_rdma"), number);
    EXPECT_EQ(counter(pa, "send_rdma_bytes"), bytes);
    EXPECT_EQ(counter(pa, "recv_rdma_bytes"), 0u);
    close_both();
}

TEST_P(RdsRdmaMemory, is_read__exactly_the_bytes_of_the_operation)
{
    open_both();
    unsigned number = 0;
    kapi_u64 bytes = 0;
    for (std::size_t size : kSizes)
        for (std::size_t skew : {0u, 1u, 4095u}) {
            SCOPED_TRACE(std::to_string(size) + " bytes at " + std::to_string(skew));
            Bytes remote = pattern(size + 3 * 4096, ++number), local(size + 8, 0xee);
            kapi_u64 cookie = region_on_b(remote.data() + skew, size);
            run(a, [&] {
                EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data() + 3), size}}, RDS_ABI_RDMA_NOTIFY_ME}), 4);
            });
            expect_message(pb, "done");
            Bytes expected(local.size(), 0xee);
            std::copy_n(remote.begin() + static_cast<long>(skew), size, expected.begin() + 3);
            std::fill(remote.begin(), remote.end(), 0xcc); // it may, as it was informed
            expect_success(pa);
            EXPECT_TRUE(local == expected);
            run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
            bytes += size;
        }
    EXPECT_EQ(counter(pa, "send_rdma"), number);
    EXPECT_EQ(counter(pa, "recv_rdma_bytes"), bytes);
    EXPECT_EQ(counter(pa, "send_rdma_bytes"), 0u);
    close_both();
}

// As many pieces as a program may name, and a message of the largest size with them.
TEST_P(RdsRdmaMemory, is_moved__in_many_pieces)
{
    open_both();
    Bytes remote(1 << 20, 0), local = pattern(1 << 20, 5);
    kapi_u64 cookie = region_on_b(remote.data(), remote.size());
    for (bool writes : {true, false}) {
        std::vector<rds_abi_iovec> vectors;
        for (std::size_t i = 0; i < 1024; i++)
            vectors.push_back({place_of(local.data() + 1024 * ((i * 7) % 1024)), 1024});
        Bytes before = local;
        kapi_u64 flags = RDS_ABI_RDMA_NOTIFY_ME | (writes ? RDS_ABI_RDMA_READWRITE : 0);
        run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, vectors, flags}, contents(1 << 20, 9)), 1 << 20); });
        expect_message(pb, contents(1 << 20, 9));
        expect_success(pa);
        bool same = true;
        for (std::size_t i = 0; i < 1024; i++)
            same &= std::equal(&remote[1024 * i], &remote[1024 * i] + 1024, &before[1024 * ((i * 7) % 1024)]);
        EXPECT_TRUE(same);
        EXPECT_TRUE(local == before);
    }
    close_both();
}

TEST_P(RdsRdmaMemory, is_reached_at_an_offset__and_not_behind_its_end)
{
    open_both();
    Bytes remote(8192, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data() + 5, 1000);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 900, {{place_of(local.data()), 100}}}), 4); });
    expect_message(pb, "done");
    expect_success(pa);
    EXPECT_TRUE(std::equal(local.begin(), local.end(), remote.begin() + 905));
    for (auto [offset, size] : {std::pair<kapi_u64, kapi_u64>{901, 100}, {~0ULL, 1}, {1000, 1}, {4096, 10}}) {
        Bytes before = remote;
        bool overflows = false;
        run(a, [&] {
            long result = operate(pa, {cookie, offset, {{place_of(local.data()), size}}}, "never");
            overflows = result == -KAPI_EINVAL;
            EXPECT_TRUE(overflows || result == 5) << result;
        });
        if (!overflows)
            expect_refusal(pa);
        EXPECT_TRUE(remote == before);
    }
    // The message of an operation that failed is not sent; the next one is.
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

TEST_P(RdsRdmaMemory, is_not_reached__after_it_was_freed)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100), other = region_on_b(remote.data(), 50);
    run(b, [&] {
        EXPECT_EQ(free_mr(pb, cookie), 0);
        EXPECT_EQ(b.pinned_pages, static_cast<unsigned>((place_of(remote.data()) % 4096 + 50 + 4095) / 4096));
        EXPECT_EQ(free_mr(pb, cookie), -KAPI_EINVAL) << "twice";
        EXPECT_EQ(free_mr(pb, 0), 0) << "all that were freed before";
    });
    run(a, [&] {
        EXPECT_EQ(free_mr(pa, other), -KAPI_EINVAL) << "another socket's";
        EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4);
    });
    expect_refusal(pa);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    close_both();
}

TEST_P(RdsRdmaMemory, is_not_reached__after_its_socket_was_closed)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    close(pb);
    EXPECT_EQ(b.pinned_pages, 0u);
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_refusal(pa);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    close(pa);
}

TEST_P(RdsRdmaMemory, is_used_once__if_its_owner_says_so)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 once = region_on_b(remote.data(), 100, RDS_ABI_RDMA_USE_ONCE), often = region_on_b(remote.data(), 100);
    for (kapi_u64 cookie : {often, once}) {
        run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
        expect_message(pb, "done");
        expect_success(pa);
        run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), cookie == once ? -KAPI_EINVAL : 0); });
    }
    EXPECT_TRUE(remote == local);
    run(a, [&] { EXPECT_EQ(operate(pa, {once, 0, {{place_of(local.data()), 100}}}), 4); });
    int status = next_notice(pa).status; // the peer's disconnect may come first
    EXPECT_TRUE(status == RDS_ABI_RDMA_REMOTE_ERROR || status == RDS_ABI_RDMA_DROPPED) << status;
    EXPECT_EQ(std::count(a.log.begin(), a.log.end(), "rds: 10.0.0.2 refuses access to its memory"),
              status == RDS_ABI_RDMA_REMOTE_ERROR) << "the log says why";
    close_both();
}

TEST_P(RdsRdmaMemory, is_registered_with_a_message__whose_receiver_gets_the_cookie)
{
    open_both();
    Bytes remote(5000, 0xee), local = pattern(5000, 1);
    kapi_u64 cookie = 0, known = 0;
    run(b, [&] {
        rds_abi_get_mr_args args{{place_of(remote.data()), 5000}, place_of(&cookie), 0};
        EXPECT_EQ(send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_MAP, args), "mapped"), 6);
        EXPECT_EQ(send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie), "again"), 5);
        EXPECT_EQ(send_with(pb, Cmsg(RDS_ABI_CMSG_RDMA_DEST, cookie + 1), "no"), -KAPI_EINVAL);
    });
    run(a, [&] {
        for (const char *text : {"mapped", "again"}) {
            Received received = receive(pa);
            EXPECT_EQ(received.bytes, text);
            ASSERT_TRUE(received.cookie);
            EXPECT_EQ(*received.cookie, cookie);
            known = *received.cookie;
        }
        EXPECT_EQ(operate(pa, {known, 0, {{place_of(local.data()), 5000}}}), 4);
    });
    expect_message(pb, "done");
    EXPECT_TRUE(remote == local);
    expect_success(pa);
    close_both();
}

TEST_P(RdsRdmaMemory, is_refused__what_makes_no_sense)
{
    char byte = 0;
    kapi_u64 cookie = 0;
    run(a, [&] {
        ASSERT_EQ(pa.socket.open(), 0);
        EXPECT_EQ(get_mr(pa, &byte, 1, cookie), -KAPI_ENOTCONN) << "not bound";
        pa.socket.close();
    });
    open(pa);
    Bytes memory((1 << 20) + 8192);
    auto *page = reinterpret_cast<unsigned char *>((place_of(memory.data()) + 4095) & ~4095ULL);
    run(a, [&] {
        EXPECT_EQ(get_mr(pa, page, 100, cookie), -KAPI_ENODEV) << "no peer is known";
        EXPECT_EQ(get_mr(pa, page, 0, cookie), -KAPI_EINVAL);
        EXPECT_EQ(get_mr(pa, reinterpret_cast<void *>(~0ULL), 2, cookie), -KAPI_EINVAL);
        EXPECT_EQ(get_mr(pa, page, ~0ULL, cookie), -KAPI_EINVAL);
        EXPECT_EQ(get_mr(pa, page, 1ULL << 32, cookie), -KAPI_EINVAL);
        EXPECT_EQ(get_mr(pa, page + 1, (1 << 20) + 4096, cookie), -KAPI_EMSGSIZE);
        rds_abi_get_mr_args args{};
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args) - 1), -KAPI_EINVAL);
    });
    run(a, [&] {
        rds_abi_get_mr_for_dest_args to_itself{{}, {place_of(page), 100}, place_of(&cookie), 0};
        SocketName name(sim::address("10.0.0.1", kPort));
        std::memcpy(to_itself.dest_addr, name.bytes, name.size);
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_GET_MR_FOR_DEST, &to_itself, sizeof(to_itself)), -KAPI_EOPNOTSUPP);
    });
    close(pa);
    open_both();
    run(a, [&] {
        EXPECT_EQ(get_mr(pa, nullptr, 100, cookie), -KAPI_EFAULT);
        rds_abi_get_mr_args args{{place_of(page), 100}, 0, 0};
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args)), 0) << "nobody is to know the cookie";
        a.memlock_pages = a.pinned_pages + 1;
        EXPECT_EQ(get_mr(pa, page, 4097, cookie), -KAPI_ENOMEM);
        EXPECT_EQ(get_mr(pa, page, 4096, cookie), 0);
        a.memlock_pages = ~0u;
        auto map = [&](rds_abi_iovec vec) {
            rds_abi_get_mr_args named{vec, place_of(&cookie), 0};
            return send_with(pa, Cmsg(RDS_ABI_CMSG_RDMA_MAP, named), "never");
        };
        EXPECT_EQ(map({place_of(page), 0}), -KAPI_EINVAL) << "with a message, too";
        EXPECT_EQ(map({~0ULL, 2}), -KAPI_EINVAL);
        EXPECT_EQ(map({place_of(page), 1ULL << 32}), -KAPI_EINVAL);
        EXPECT_EQ(map({place_of(page) + 1, (1 << 20) + 4096}), -KAPI_EMSGSIZE);
        rds_abi_iovec one{place_of(page), 100};
        auto with = [&](auto change) {
            rds_abi_rdma_args args{cookie, {0, 100}, place_of(&one), 1, RDS_ABI_RDMA_READWRITE, 0};
            change(args);
            return send_with(pa, Cmsg(RDS_ABI_CMSG_RDMA_ARGS, args), "never");
        };
        EXPECT_EQ(with([](auto &args) { args.nr_local = 0; }), -KAPI_EINVAL);
        EXPECT_EQ(with([](auto &args) { args.nr_local = 1025; }), -KAPI_EMSGSIZE);
        EXPECT_EQ(with([](auto &args) { args.nr_local = 0x7fffffff; }), -KAPI_EMSGSIZE);
        EXPECT_EQ(with([](auto &args) { args.nr_local = ~0ULL; }), -KAPI_EMSGSIZE);
        EXPECT_EQ(with([](auto &args) { args.remote_vec.bytes = (1 << 20) + 1; }), -KAPI_EMSGSIZE);
        EXPECT_EQ(with([](auto &args) { args.remote_vec.bytes = 99; }), -KAPI_EINVAL) << "more than there is room for";
        EXPECT_EQ(with([](auto &args) { args.remote_vec.addr = ~0ULL - 50; }), -KAPI_EINVAL);
        EXPECT_EQ(with([](auto &args) { args.local_vec_addr = 0; }), -KAPI_EFAULT);
        EXPECT_EQ(with([&](auto &) { one.bytes = 0; }), -KAPI_EINVAL);
        EXPECT_EQ(with([&](auto &) { one.bytes = ~0ULL; }), -KAPI_EINVAL);
        EXPECT_EQ(with([&](auto &) { one = {0, 100}; }), -KAPI_EFAULT);
        EXPECT_EQ(with([&](auto &) { one = {~0ULL - 50, 100}; }), -KAPI_EINVAL);
    });
    close_both();
}

TEST_P(RdsRdmaMemory, goes_with_its_device__and_its_owner_notices_nothing_else)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    std::uint64_t began = world.now_ns();
    unplug(dev_b);
    EXPECT_LT(world.now_ns() - began, 2 * sim::kSecond) << "the removal waits for no program";
    EXPECT_EQ(b.pinned_pages, 0u);
    world.run_for(500 * sim::kMillisecond);
    dev_b = &sim::plug_rdma(b.initial_net(), "again");
    run(a, [&] { pa.send("again"); });
    expect_message(pb, "again");
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_refusal(pa);
    EXPECT_TRUE(remote == Bytes(100, 0xee));
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    close_both();
}

// What a lost connection leaves open is not done again: the region may serve another purpose by then.
TEST_P(RdsRdmaMemory, is_written_once_at_most__when_the_connection_breaks)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    unsigned failures = 0;
    for (unsigned i = 0; i < 6; i++) {
        run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 100}}}), 4); });
        world.run_for(i * 20 * sim::kMicrosecond);
        cut(true);
        world.run_for(5 * sim::kSecond);
        cut(false);
        bool success = next_notice(pa).status == RDS_ABI_RDMA_SUCCESS;
        failures += !success;
        EXPECT_TRUE(!success || remote == local);
        std::fill(remote.begin(), remote.end(), 0xcc);
        world.run_for(5 * sim::kSecond);
        EXPECT_TRUE(remote == Bytes(100, 0xcc)) << "written after the program was notified";
    }
    EXPECT_NE(failures, 0u);
    EXPECT_EQ(a.pinned_pages, 0u);
    run(b, [&] {
        while (receive(pb, RDS_ABI_MSG_DONTWAIT).result >= 0)
            ;
    });
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

TEST_P(RdsRdmaMemory, is_written_without_a_message__if_the_program_says_so)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    kapi_u64 flags = RDS_ABI_RDMA_READWRITE | RDS_ABI_RDMA_NOTIFY_ME | RDS_ABI_RDMA_SILENT;
    run(a, [&] {
        EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 50}}, flags}, ""), 0);
        EXPECT_EQ(operate(pa, {cookie, 50, {{place_of(local.data()) + 50, 50}}, flags, 78}, "with bytes"), 10);
    });
    expect_message(pb, "with bytes");
    EXPECT_TRUE(remote == local);
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] {
        Received received = receive(pa);
        ASSERT_EQ(received.notices.size(), 2u);
        EXPECT_EQ(received.notices[0].user_token, 77u);
        EXPECT_EQ(received.notices[1].user_token, 78u);
        EXPECT_EQ(received.notices[0].status | received.notices[1].status, RDS_ABI_RDMA_SUCCESS);
        EXPECT_EQ(receive(pa, RDS_ABI_MSG_DONTWAIT).result, -KAPI_EAGAIN);
    });
    close_both();
}

// A read whose answer is lost is executed again, after what the device may begin meanwhile.
TEST_P(RdsRdmaMemory, is_read__before_the_next_operation_changes_it)
{
    open_both();
    std::vector<kapi_u64> memory(2048);
    const kapi_u64 cookie = region_on_b(memory.data(), memory.size() * 8);
    constexpr unsigned kRounds = 60;
    unsigned wrong = 0;
    for (kapi_u64 round = 1; round <= kRounds; round++) {
        std::vector<kapi_u64> was(memory.size()), next(memory.size(), round);
        kapi_u64 old = 0;
        const bool adds = round % 2;
        memory.assign(memory.size(), 0);
        run(a, [&] {
            Operation read{cookie, 0, {{place_of(was.data()), was.size() * 8}}, RDS_ABI_RDMA_SILENT};
            EXPECT_EQ(operate(pa, read, ""), 0);
            if (adds) {
                rds_abi_atomic_args add{cookie, place_of(&old), 8 * round, {round}, RDS_ABI_RDMA_NOTIFY_ME, 77};
                EXPECT_EQ(send_with(pa, Cmsg(RDS_ABI_CMSG_ATOMIC_FADD, add), "done"), 4);
            } else {
                EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(next.data()), next.size() * 8}}}), 4);
            }
        });
        world.run_for(round * 2 * sim::kMicrosecond);
        cut(true);
        world.run_for(10 * sim::kMillisecond);
        cut(false);
        expect_success(pa);
        expect_message(pb, "done");
        wrong += std::any_of(was.begin(), was.end(), [](kapi_u64 word) { return word != 0; });
    }
    EXPECT_EQ(wrong, 0u);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaMemory, ::testing::Range(1, 9));

} // namespace
