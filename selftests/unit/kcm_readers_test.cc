// SPDX-License-Identifier: GPL-2.0
// Several threads that read from one socket.
#include "kcm_test.h"

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmReaders : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmReaders() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    kcm_socket_row row_of_only_socket()
    {
        static constexpr kcm_rows rows = {
            .mux = [](void *, const kcm_mux_row *) { return 0; },
            .socket =
                [](void *context, const kcm_socket_row *row) {
                    *static_cast<kcm_socket_row *>(context) = *row;
                    return 0;
                },
            .connection = [](void *, const kcm_connection_row *) { return 0; },
        };
        kcm_socket_row row{};
        run(a, [&] { kcm_net_show(host.net(a.initial_net()), &rows, &row); });
        return row;
    }
};

TEST_P(KcmReaders, timeout__is_that_of_the_whole_call)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.sk().rcvtimeo_ns = sim::kSecond; });
    bool over = false;
    std::uint64_t longest_ns = 0;
    auto start_reader = [&] {
        return world.spawn(a, "reader", [&] {
            while (!over) {
                char bytes[20];
                std::uint64_t since_ns = world.now_ns();
                socket.receive(bytes, sizeof(bytes));
                longest_ns = std::max(longest_ns, world.now_ns() - since_ns);
            }
        });
    };
    std::vector<sim::TaskRef> readers{start_reader(), start_reader()};
    for (unsigned i = 0; i < 30; i++) { // each wakes both, and one of them gets it
        world.run_for(700 * sim::kMillisecond);
        peer_writes(ends, framed("x"));
    }
    over = true;
    for (const sim::TaskRef &reader : readers)
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 3 * sim::kSecond));
    EXPECT_LE(longest_ns, sim::kSecond + 50 * sim::kMillisecond);
}

TEST_P(KcmReaders, messages__are_all_counted)
{
    constexpr unsigned kMessages = 400;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string stream;
    for (unsigned i = 0; i < kMessages; i++)
        stream += framed("message");
    peer_writes(ends, stream);
    settle();
    std::vector<sim::TaskRef> readers;
    for (unsigned i = 0; i < 3; i++)
        readers.push_back(world.spawn(a, "reader", [&] {
            char bytes[20];
            while (socket.receive(bytes, sizeof(bytes), kNow) > 0)
                ;
        }));
    for (const sim::TaskRef &reader : readers)
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 3 * sim::kSecond));
    kcm_socket_row row = row_of_only_socket();
    EXPECT_EQ(row.traffic.rx_msgs, kMessages);
    EXPECT_EQ(row.traffic.rx_bytes, stream.size());
}

TEST_P(KcmReaders, fault__leaves_the_count_of_what_is_unread_right)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("one") + framed("two") + framed("three"));
    settle();
    for (unsigned read = 0; read < 3; read++) {
        EXPECT_EQ(row_of_only_socket().recv_q, 3 - read);
        socket.trouble = {.fault_at = 0};
        EXPECT_EQ(receive(socket), "error 14"); // EFAULT
        EXPECT_EQ(row_of_only_socket().recv_q, 3 - read);
        EXPECT_NE(receive(socket), kNothing);
    }
    EXPECT_EQ(row_of_only_socket().recv_q, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmReaders, ::testing::Range(1, 9));

} // namespace
