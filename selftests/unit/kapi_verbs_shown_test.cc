// SPDX-License-Identifier: GPL-2.0
// What is sent to a peer shows no address of the host's memory: the simulator reports one.
#include "kapi_verbs_test.h"

#include "kapi/sim/rdma.h"

namespace {

class VerbsShown : public VerbsTest {
protected:
    kapi_u64 address_of_memory() { return client.out.sge(client.pd, 100, 8).address; }
    /** A message with the number in it, at any place and in either order. */
    void send(kapi_u64 number, bool big, std::size_t place)
    {
        std::string text(2000, 'x');
        for (std::size_t i = 0; i < 8; i++)
            text[place + i] = static_cast<char>(number >> 8 * (big ? 7 - i : i));
        run(a, [&] { EXPECT_EQ(client.send(text), 0); });
        EXPECT_TRUE(wait([&] { return !client.sent.empty(); }));
        client.sent.clear();
    }
};

TEST_P(VerbsShown, address_in_a_message__is_reported)
{
    connect();
    for (bool big : {false, true}) {
        for (std::size_t place : {0u, 13u, 1024u - 8u, 2000u - 8u})
            EXPECT_DEATH(send(address_of_memory(), big, place), "sends its peer an address of the host's memory");
        send(sim::kFirstDmaAddress - 1, big, 13);
        send(address_of_memory() + (1ULL << 32), big, 13); // none yet
    }
    close_all();
}

TEST_P(VerbsShown, address_in_what_is_written__is_reported)
{
    connect();
    Buffer memory;
    kapi_mr *mr = expose(b, server, memory, 4096, KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE);
    kapi_u64 address = address_of_memory();
    std::memcpy(client.out.bytes, &address, sizeof(address));
    EXPECT_DEATH(operate(KAPI_WR_WRITE, kapi_mr_key(mr), kapi_mr_address(mr), 8), "an address of the host's memory");
    run(a, [&] { client.drop_queues(); });
    run(b, [&] { server.drop_queues(); });
    drop_region(b, mr, memory);
    close_all();
}

TEST_P(VerbsShown, address_in_the_data_of_a_connection__is_reported)
{
    plug();
    listen();
    resolve();
    sim::edit_requests([&](std::vector<unsigned char> &data) {
        kapi_u64 address = address_of_memory();
        std::memcpy(data.data() + 1, &address, sizeof(address));
    });
    EXPECT_DEATH(ask(std::string(20, '.')), "sends its peer an address of the host's memory");
    run(a, [&] { client.drop(); });
    close_all();
}

// A device that fetches pages gets the program's own addresses: for pieces of a request, which the peer does not get.
TEST_P(VerbsShown, target_of_a_read_over_iwarp__is_no_address)
{
    auto iwarp = [](kapi_rdma_attrs &attrs) { attrs.flags = KAPI_RDMA_IWARP | KAPI_RDMA_ON_DEMAND; };
    dev_a = &sim::plug_rdma(a.initial_net(), "iw_a", 2, iwarp);
    dev_b = &sim::plug_rdma(b.initial_net(), "iw_b", 2, iwarp);
    listen();
    resolve();
    ask();
    accept();
    ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    Buffer memory;
    kapi_mr *mr = expose(b, server, memory, 4096, KAPI_ACCESS_REMOTE_READ);
    alignas(4096) static unsigned char file[4096];
    auto address = reinterpret_cast<std::uintptr_t>(file);
    constexpr kapi_u32 access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
    auto read_to = [&](kapi_u64 iova) {
        kapi_mr *local = nullptr;
        run(a, [&] {
            ASSERT_EQ(kapi_mr_on_demand(client.pd, address, 100, iova, access, &local), 0);
            kapi_sge sge{iova, 100, kapi_mr_local_key(local)};
            kapi_wr wr = client.make_wr(KAPI_WR_READ, 1), *bad;
            wr.sges = &sge;
            wr.n_sges = 1;
            wr.remote = kapi_mr_address(mr);
            wr.key = kapi_mr_key(mr);
            ASSERT_EQ(kapi_qp_send(client.qp, &wr, &bad), 0);
        });
        ASSERT_TRUE(wait([&] { return client.sent.size() == 1; }));
        EXPECT_EQ(client.sent[0].status, KAPI_WC_OK);
        run(a, [&] { kapi_mr_free(local); });
    };
    EXPECT_DEATH(read_to(address), "as the target of a read, an address of the host's memory");
    read_to(0);
    run(a, [&] { client.drop_queues(); });
    run(b, [&] { server.drop_queues(); });
    drop_region(b, mr, memory);
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsShown, ::testing::Range(1, 3));

} // namespace
