// SPDX-License-Identifier: GPL-2.0
// Several threads that read from one socket.
#include "kcm_test.h"

#include <algorithm>
#include <array>
#include <span>

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmReaders : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmReaders() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    /** One reader after the other takes 12 bytes, and their copies fail in the order of these places. */
    void readers_fail(KcmSocket &socket, std::span<const unsigned> places)
    {
        std::vector<sim::TaskRef> readers;
        for (unsigned failure : places) {
            readers.push_back(world.spawn(a, "reader", [&socket, failure] {
                char bytes[12];
                socket.trouble = {.fault_at = 5, .stall_at = 2, .stall_ns = (failure + 1) * 100 * sim::kMillisecond};
                EXPECT_EQ(socket.receive(bytes, sizeof(bytes), kNow), -KAPI_EFAULT);
            }));
            world.run_for(sim::kMillisecond);
        }
        for (const sim::TaskRef &reader : readers)
            EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
        socket.trouble = {};
    }
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

// Everything that is not with the reader whose memory stalls is read by others at once: its read made the room for a connection.
TEST_P(KcmReaders, memory_that_stalls__stops_no_connection)
{
    struct Stream { std::size_t size; unsigned messages; }; // some are left for each that stalls
    for (auto [size, messages] : {Stream{50'000, 100}, Stream{300'000, 40}}) { // several have room in a socket, or one
        KcmSocket &socket = new_socket(), &clone = new_socket();
        Ends ends = connect();
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 1 << 20), 0);
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
            ASSERT_EQ(clone.open_as_clone(socket), 0);
        });
        auto stream = std::make_shared<std::string>();
        for (unsigned i = 0; i < messages; i++)
            *stream += framed(text(size));
        auto writer = world.spawn(b, "writer", [=] { sim::program_write(ends.there, stream->data(), stream->size()); });
        world.run_for(sim::kSecond);
        auto memory = std::make_shared<std::string>(size + 4, '\0');
        std::vector<sim::TaskRef> stalled;
        auto start_to_stall = [&] {
            stalled.push_back(world.spawn(a, "stalled", [&socket, memory] {
                socket.trouble = {.stall_at = 10, .stall_ns = 100 * sim::kSecond};
                socket.receive(memory->data(), memory->size());
            }));
            world.run_for(sim::kMillisecond);
        };
        unsigned got = 0;
        for (unsigned i = 0; i < 50; i++) {
            if (i < 4)
                start_to_stall();
            for (KcmSocket *each : {&socket, &clone})
                while (receive(*each) != kNothing)
                    got++;
            world.run_for(100 * sim::kMillisecond);
        }
        EXPECT_EQ(got, messages - stalled.size());
        for (const sim::TaskRef &task : stalled)
            EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 200 * sim::kSecond));
    }
}

// There is one rest of a message at a time, however many read parts: it stays at the socket that has read the beginning.
TEST_P(KcmReaders, parts__of_two_readers_are_of_one_message)
{
    KcmSocket &socket = new_socket(), &clone = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string first = framed(text(60)), second = framed(text(60, 5));
    peer_writes(ends, first + second);
    settle();
    std::string parts[2];
    std::vector<sim::TaskRef> readers;
    for (std::string &part : parts) {
        part.resize(20);
        readers.push_back(world.spawn(a, "reader", [&] {
            socket.trouble = {.stall_at = 10, .stall_ns = 100 * sim::kMillisecond};
            EXPECT_EQ(socket.receive(part.data(), part.size(), kNow), 20);
        }));
        world.run_for(sim::kMillisecond);
    }
    for (const sim::TaskRef &reader : readers)
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
    run(a, [&] {
        ASSERT_EQ(clone.open_as_clone(socket), 0);
        ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
    });
    EXPECT_EQ(parts[0] + parts[1] + receive(socket), first);
    EXPECT_EQ(receive(clone), second);
    EXPECT_EQ(receive(clone), kNothing);
}

TEST_P(KcmReaders, fault__in_a_part_of_which_nothing_was_read_gives_up_the_message)
{
    KcmSocket &socket = new_socket(), &clone = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    for (bool is_begun : {false, true}) {
        const std::string message = framed(text(60));
        peer_writes(ends, message);
        settle();
        if (is_begun) {
            EXPECT_EQ(receive(socket, 5), message.substr(0, 5));
        }
        auto reader = world.spawn(a, "reader", [&] {
            char bytes[20];
            socket.trouble = {.fault_at = 15, .stall_at = 10, .stall_ns = 100 * sim::kMillisecond};
            EXPECT_EQ(socket.receive(bytes, sizeof(bytes), kNow), -KAPI_EFAULT);
        });
        world.run_for(sim::kMillisecond);
        run(a, [&] {
            if (!clone.is_open()) {
                ASSERT_EQ(clone.open_as_clone(socket), 0);
            }
            ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
        });
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
        EXPECT_EQ(receive(socket), is_begun ? message.substr(5) : kNothing);
        EXPECT_EQ(receive(clone), is_begun ? kNothing : message);
        run(a, [&] {
            ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0);
            ASSERT_EQ(clone.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
        });
    }
}

// Other readers read on while the copy of a part fails: what comes back is a part, not the end of a message.
TEST_P(KcmReaders, fault__in_a_part_behind_which_others_read_on_returns_a_part)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string message = framed(text(60));
    for (std::size_t others : {std::size_t{30}, message.size()}) { // they leave a rest, or not
        peer_writes(ends, message);
        settle();
        std::vector<sim::TaskRef> readers;
        for (unsigned i = 0; i < 2; i++) {
            readers.push_back(world.spawn(a, "reader", [&] {
                char bytes[12];
                socket.trouble = {.fault_at = 5, .stall_at = 2, .stall_ns = 100 * sim::kMillisecond};
                EXPECT_EQ(socket.receive(bytes, sizeof(bytes), kNow), -KAPI_EFAULT);
            }));
            world.run_for(sim::kMillisecond);
        }
        socket.trouble = {};
        std::string behind = receive(socket, others);
        for (const sim::TaskRef &reader : readers)
            EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
        EXPECT_EQ(behind, message.substr(24, others));
        unsigned flags = 0;
        std::string first;
        while (first.size() < 24) {
            std::string part = receive(socket, 100, kNow, &flags);
            ASSERT_NE(part, kNothing);
            EXPECT_FALSE(flags & KCM_ABI_MSG_EOR);
            first += part;
        }
        EXPECT_EQ(first, message.substr(0, 24));
        std::string rest = message.substr(24 + behind.size());
        EXPECT_EQ(receive(socket, 100, kNow, &flags), rest.empty() ? kNothing : rest);
        if (!rest.empty()) {
            EXPECT_TRUE(flags & KCM_ABI_MSG_EOR);
        }
    }
}

TEST_P(KcmReaders, parts__whose_copies_fail_in_any_order_are_read_in_order)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string message = framed(text(32)), other = framed(text(10)); // 36 bytes
    std::array<unsigned, 3> place{0, 1, 2};                                 // of each in the order of failures
    do {
        peer_writes(ends, message + other);
        settle();
        readers_fail(socket, place);
        for (const std::string &each : {message, other}) { // maybe in parts
            std::string got;
            unsigned flags = 0;
            while (!(flags & KCM_ABI_MSG_EOR) && got.size() < each.size())
                got += receive(socket, 100, kNow, &flags);
            EXPECT_EQ(got, each);
            EXPECT_TRUE(flags & KCM_ABI_MSG_EOR);
        }
        EXPECT_EQ(receive(socket), kNothing);
    } while (std::next_permutation(place.begin(), place.end()));
}

// In any order of the failures, in which there are up to three rests, nothing is lost.
TEST_P(KcmReaders, parts__of_many_whose_copies_fail_are_all_read_in_order)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string message = framed(text(72)); // 76 bytes: a rest is left of 16
    std::array<unsigned, 5> place{0, 1, 2, 3, 4};
    do {
        peer_writes(ends, message);
        settle();
        readers_fail(socket, place);
        unsigned flags = 0;
        ASSERT_EQ(receive(socket, 100, kNow, &flags), message);
        EXPECT_EQ(flags, KCM_ABI_MSG_EOR);
        EXPECT_EQ(row_of_only_socket().recv_q, 0u);
    } while (std::next_permutation(place.begin(), place.end()));
}

// What was not read of a message of which others have read parts is for this socket only, whatever the order of the failures.
TEST_P(KcmReaders, parts__whose_copies_fail_stay_at_a_socket_that_is_disabled_meanwhile)
{
    KcmSocket &socket = new_socket(), &clone = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string message = framed(text(44)); // 48 bytes
    run(a, [&] { ASSERT_EQ(clone.open_as_clone(socket), 0); });
    for (unsigned first : {0u, 1u, 2u}) { // whose copy fails before the socket is disabled, the others' after that
        run(a, [&] { ASSERT_EQ(clone.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
        peer_writes(ends, message);
        settle();
        std::vector<sim::TaskRef> readers;
        for (unsigned i = 0; i < 4; i++) { // the last one has what it asks for
            readers.push_back(world.spawn(a, "reader", [&socket, i, first, &message] {
                char bytes[12];
                socket.trouble = {.fault_at = 5, .stall_at = 2, .stall_ns = (i == first ? 100 : 300) * sim::kMillisecond};
                if (i == 3)
                    socket.trouble = {};
                long size = socket.receive(bytes, 8, kNow);
                if (i == 3) {
                    EXPECT_EQ(std::string(bytes, 8), message.substr(24, 8));
                } else {
                    EXPECT_EQ(size, -KAPI_EFAULT);
                }
            }));
            world.run_for(sim::kMillisecond);
        }
        world.run_for(200 * sim::kMillisecond);
        run(a, [&] {
            ASSERT_EQ(clone.set_option(KCM_ABI_RECV_DISABLE, 0), 0);
            ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
        });
        for (const sim::TaskRef &reader : readers)
            EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
        socket.trouble = {};
        EXPECT_EQ(receive(clone), kNothing);
        unsigned flags = 0;
        EXPECT_EQ(receive(socket, 100, kNow, &flags), message.substr(0, 24));
        EXPECT_EQ(flags, 0u);
        EXPECT_EQ(receive(socket, 100, kNow, &flags), message.substr(32));
        EXPECT_EQ(flags, KCM_ABI_MSG_EOR);
        run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    }
}

// A packet of many messages wakes one of those with EPOLLEXCLUSIVE: it wakes the next one, also when its own copy fails.
TEST_P(KcmReaders, exclusive_pollers__wake_one_after_the_other)
{
    constexpr unsigned kPollers = 4;
    for (bool first_fails : {false, true}) {
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket);
        unsigned woken = 0, got = 0;
        std::vector<sim::TaskRef> pollers;
        for (unsigned i = 0; i < kPollers; i++)
            pollers.push_back(world.spawn(a, "poller", [&] {
                auto poller = socket.poller(KAPI_IN, sim::Poller::Kind::epoll_exclusive);
                if (!poller.wait(5 * sim::kSecond))
                    return;
                if (!woken++ && first_fails)
                    socket.trouble = {.fault_at = 0};
                char bytes[12];
                got += socket.receive(bytes, sizeof(bytes), kNow) > 0;
                world.sleep(10 * sim::kSecond); // with what it got
            }));
        world.run_for(100 * sim::kMillisecond);
        peer_writes(ends, framed("one") + framed("two") + framed("three") + framed("four"));
        world.run_for(sim::kSecond);
        EXPECT_EQ(woken, kPollers);
        EXPECT_EQ(got, kPollers - first_fails);
        for (const sim::TaskRef &poller : pollers)
            EXPECT_TRUE(world.run_until([&] { return poller->is_done(); }, 20 * sim::kSecond));
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmReaders, ::testing::Range(1, 9));

} // namespace
