// SPDX-License-Identifier: GPL-2.0
// A program's TCP socket in the simulator: what the program does with it, core taking it over and giving it back.
#include "kapi_sim_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/stream.h>

#include <string>
#include <utility>
#include <vector>

namespace {

constexpr kapi_u16 kPort = 7777;
const kapi_stream_options kOptions{};

/** What core has of a socket that it took over. */
struct Taken {
    kapi_stream *stream = nullptr;
    std::string received;
    std::size_t limit = ~std::size_t{0}; // bytes that rx() takes before it declines
    bool eof = false, closed = false;
    unsigned calls = 0;

    void adopt(int fd)
    {
        ASSERT_EQ(kapi_stream_adopt(fd, nullptr, &stream), 0);
        kapi_stream_attach(stream, &kOptions, &kOps, this);
    }
    int give_back(const kapi_piece *first = nullptr, bool abort = false)
    {
        return kapi_stream_give_back(std::exchange(stream, nullptr), first, abort);
    }

    static kapi_size rx(void *context, kapi_rx *rx, kapi_size length)
    {
        auto &self = *static_cast<Taken *>(context);
        self.calls++;
        kapi_size take = std::min<kapi_size>(length, self.limit - self.received.size());
        std::string bytes(take, '\0');
        kapi_rx_copy(rx, 0, bytes.data(), take);
        self.received += bytes;
        return take;
    }
    static void acked(void *context, kapi_u32) { static_cast<Taken *>(context)->calls++; }
    static void event(void *context, kapi_stream_event event, int)
    {
        auto &self = *static_cast<Taken *>(context);
        self.calls++;
        self.eof |= event == KAPI_STREAM_EOF;
        self.closed |= event == KAPI_STREAM_CLOSED;
    }
    static constexpr kapi_stream_ops kOps{rx, acked, event};
};

class Adopt : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    Adopt() : SimTest(static_cast<std::uint64_t>(GetParam()))
    {
        auto server = world.spawn(b, "server", [&] {
            kapi_listener *listener = sim::program_listen(b.initial_net(), sim::address("::", kPort));
            there = sim::program_accept(listener);
            sim::program_unlisten(listener);
        });
        run(a, [&] {
            world.sleep(sim::kMillisecond);
            kapi_addr own = sim::address("10.0.0.1"), peer = sim::address("10.0.0.2", kPort);
            here = sim::program_connect(a.initial_net(), own, peer);
            ASSERT_GT(here, 0);
        });
        EXPECT_TRUE(world.run_until([&] { return server->is_done(); }, sim::kSecond));
    }
    ~Adopt() override
    {
        run(a, [&] { close(here); });
        run(b, [&] { close(there); });
        world.run_for(200 * sim::kSecond);
    }

    static void close(int &fd)
    {
        if (fd >= 0)
            sim::program_close(std::exchange(fd, -1));
    }
    void write(sim::Node &node, int fd, const std::string &text)
    {
        run(node, [&] { EXPECT_EQ(sim::program_write(fd, text.data(), text.size()), static_cast<long>(text.size())); });
    }
    /** Reads so many bytes, or up to the end or an error. */
    static std::string read(int fd, std::size_t size, long *last = nullptr)
    {
        std::string text;
        long result = 1;
        while (text.size() < size && result > 0) {
            char bytes[3000];
            result = sim::program_read(fd, bytes, std::min(sizeof(bytes), size - text.size()));
            text.append(bytes, static_cast<std::size_t>(std::max(result, 0L)));
        }
        if (last)
            *last = result;
        return text;
    }

    int here = -1, there = -1;
    Taken taken;
};

TEST_P(Adopt, programs__read_and_write_their_own_sockets)
{
    std::string bytes = text(700'000);
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(sim::program_write(here, bytes.data(), bytes.size()), static_cast<long>(bytes.size()));
        sim::program_shutdown_write(here);
    });
    run(b, [&] {
        long last;
        EXPECT_EQ(read(there, bytes.size() + 1, &last), bytes);
        EXPECT_EQ(last, 0);
        EXPECT_TRUE(sim::program_poll(there) & KAPI_IN);
    });
    EXPECT_TRUE(writer->is_done());
}

TEST_P(Adopt, nonblocking_calls__say_EAGAIN)
{
    run(b, [&] {
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1, sim::Wait::no), -KAPI_EAGAIN);
        EXPECT_FALSE(sim::program_poll(there) & KAPI_IN);
        sim::program_set_buffers(there, 4000, 4000);
        std::string bytes = text(100'000);
        while (sim::program_write(there, bytes.data(), bytes.size(), sim::Wait::no) > 0)
            ;
        EXPECT_EQ(sim::program_write(there, bytes.data(), 1, sim::Wait::no), -KAPI_EAGAIN);
        EXPECT_FALSE(sim::program_poll(there) & KAPI_OUT);
    });
}

TEST_P(Adopt, adopt__refuses_what_is_no_connected_tcp_socket)
{
    run(b, [&] {
        int pipe = sim::program_pipe(), other = sim::program_other_socket();
        kapi_stream *none = nullptr;
        kapi_u64 key, same;
        EXPECT_EQ(kapi_stream_adopt(-1, nullptr, &none), -KAPI_ENOENT);
        EXPECT_EQ(kapi_stream_adopt(999, nullptr, &none), -KAPI_ENOENT);
        EXPECT_EQ(kapi_stream_adopt(pipe, nullptr, &none), -KAPI_ENOENT);
        EXPECT_EQ(kapi_stream_key_of_fd(pipe, &key), -KAPI_ENOENT);
        EXPECT_EQ(kapi_stream_adopt(other, nullptr, &none), -KAPI_EOPNOTSUPP);
        sim::program_socket_of(there).upper = true;
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &none), -KAPI_EOPNOTSUPP);
        sim::program_socket_of(there).upper = false;
        taken.adopt(there);
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &none), -KAPI_EALREADY);
        EXPECT_EQ(kapi_stream_key_of_fd(there, &key), 0);
        EXPECT_EQ(kapi_stream_key(taken.stream), key);
        EXPECT_FALSE(kapi_stream_is_unused(taken.stream));
        EXPECT_EQ(kapi_stream_key_of_fd(other, &same), 0);
        EXPECT_NE(key, same);
        EXPECT_EQ(taken.give_back(), 0);
        sim::program_close(pipe);
        sim::program_close(other);
    });
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    run(b, [&] {
        kapi_stream *none = nullptr;
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &none), -KAPI_EOPNOTSUPP);
    });
}

TEST_P(Adopt, adopt__is_possible_when_either_side_has_shut_down)
{
    run(a, [&] { sim::program_shutdown_write(here); });
    world.run_for(sim::kSecond);
    run(b, [&] { taken.adopt(there); });
    EXPECT_TRUE(taken.eof);
    run(a, [&] {
        Taken other;
        other.adopt(here);
        EXPECT_EQ(other.give_back(), 0);
    });
    run(b, [&] { EXPECT_EQ(taken.give_back(), 0); });
}

TEST_P(Adopt, adopted__reads_what_came_before_and_sends)
{
    std::string before = text(5000), after = text(90'000);
    write(a, here, before);
    world.run_for(sim::kSecond);
    run(b, [&] { taken.adopt(there); });
    EXPECT_EQ(taken.received, before);
    write(a, here, after);
    EXPECT_TRUE(world.run_until([&] { return taken.received == before + after; }, 10 * sim::kSecond));
    run(b, [&] {
        kapi_segment segment{"back", nullptr, 0, 4};
        kapi_u32 end;
        EXPECT_GT(kapi_stream_send(taken.stream, &segment, 1, 0, &end), 0);
        EXPECT_EQ(taken.give_back(), 0);
    });
    run(a, [&] { EXPECT_EQ(read(here, 1), "b"); });
}

TEST_P(Adopt, give_back__lets_the_program_read_the_pieces_then_what_was_never_consumed)
{
    taken.limit = 1000;
    run(b, [&] { taken.adopt(there); });
    std::string bytes = text(9000);
    write(a, here, bytes);
    world.run_for(sim::kSecond);
    EXPECT_EQ(taken.received, bytes.substr(0, 1000));
    run(b, [&] {
        std::vector<char> copy(bytes.begin() + 400, bytes.begin() + 1000); // exact, so that ASan sees an overrun
        kapi_piece second{nullptr, copy.data() + 100, nullptr, 500};
        kapi_piece first{&second, copy.data(), nullptr, 100};
        EXPECT_EQ(taken.give_back(&first), 0);
        copy.assign(copy.size(), 'x'); // what was given is a copy
    });
    unsigned calls = taken.calls;
    std::string more = text(500);
    write(a, here, more);
    run(b, [&] { EXPECT_EQ(read(there, bytes.size() - 400 + more.size()), bytes.substr(400) + more); });
    EXPECT_EQ(taken.calls, calls);
}

TEST_P(Adopt, keeping__is_of_one_byte_at_least)
{
    static const kapi_stream_ops keep{[](void *, kapi_rx *rx, kapi_size length) {
                                          EXPECT_DEATH(kapi_rx_keep(rx, 0, 0), "nothing of an offer is kept");
                                          return length;
                                      },
                                      Taken::acked, Taken::event};
    run(b, [&] {
        ASSERT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), 0);
        kapi_stream_attach(taken.stream, &kOptions, &keep, &taken);
    });
    write(a, here, "to be kept");
    world.run_for(sim::kSecond);
    run(b, [&] { kapi_stream_give_back(taken.stream, nullptr, 0); });
}

TEST_P(Adopt, give_back__takes_kept_buffers)
{
    static kapi_rxbuf *kept;
    kept = nullptr;
    static const kapi_stream_ops keep{[](void *, kapi_rx *rx, kapi_size length) {
                                          kept = kapi_rx_keep(rx, 0, length);
                                          return kept ? length : 0;
                                      },
                                      Taken::acked, Taken::event};
    run(b, [&] {
        ASSERT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), 0);
        kapi_stream_attach(taken.stream, &kOptions, &keep, &taken);
    });
    write(a, here, "kept for a while");
    ASSERT_TRUE(world.run_until([&] { return kept; }, sim::kSecond));
    run(b, [&] {
        kapi_size size = kapi_rxbuf_length(kept);
        kapi_piece piece{nullptr, nullptr, kept, static_cast<kapi_u32>(size)};
        EXPECT_EQ(taken.give_back(&piece), 0);
        kapi_rxbuf_free(kept);
        EXPECT_EQ(read(there, size), std::string("kept for a while").substr(0, size));
    });
}

TEST_P(Adopt, give_back__and_abort_lets_the_program_read_what_came)
{
    taken.limit = 4;
    run(b, [&] { taken.adopt(there); });
    write(a, here, "that came");
    ASSERT_TRUE(world.run_until([&] { return taken.received == "that"; }, sim::kSecond));
    run(b, [&] {
        kapi_piece piece{nullptr, "that", nullptr, 4};
        EXPECT_EQ(taken.give_back(&piece, true), 0);
        EXPECT_EQ(read(there, 9), "that came");
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
}

TEST_P(Adopt, give_back__without_memory_resets_and_leaves_nothing_to_read)
{
    taken.limit = 1;
    run(b, [&] { taken.adopt(there); });
    write(a, here, "x and what came after it");
    ASSERT_TRUE(world.run_until([&] { return taken.received == "x"; }, sim::kSecond));
    run(b, [&] {
        kapi_piece piece{nullptr, "x", nullptr, 1};
        b.faults().fail_at = b.faults().count + 1;
        EXPECT_EQ(taken.give_back(&piece), -KAPI_ENOMEM);
        EXPECT_EQ(sim::program_error(there), -KAPI_ECONNABORTED);
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
    world.run_for(sim::kSecond);
    run(a, [&] { EXPECT_EQ(sim::program_error(here), -KAPI_ECONNRESET); });
}

TEST_P(Adopt, give_back__takes_pieces_larger_than_a_buffer)
{
    constexpr std::size_t buffer = 17 * 4096;
    std::string bytes;
    run(b, [&] {
        taken.adopt(there);
        for (std::size_t size : {buffer - 1, buffer, buffer + 1, 10 * buffer}) {
            bytes = text(size);
            kapi_piece piece{nullptr, bytes.data(), nullptr, static_cast<kapi_u32>(size)};
            EXPECT_EQ(taken.give_back(&piece), 0);
            EXPECT_EQ(read(there, size), bytes);
            taken.adopt(there);
        }
        kapi_piece piece{nullptr, bytes.data(), nullptr, static_cast<kapi_u32>(bytes.size())};
        b.faults().fail_at = b.faults().count + 10;
        EXPECT_EQ(taken.give_back(&piece), -KAPI_ENOMEM);
        char byte;
        EXPECT_EQ(sim::program_read(there, &byte, 1), -KAPI_ECONNABORTED);
    });
}

TEST_P(Adopt, adopt__fails_without_memory)
{
    run(b, [&] {
        b.faults().fail_at = b.faults().count + 1;
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), -KAPI_ENOMEM);
        taken.adopt(there);
        EXPECT_EQ(taken.give_back(nullptr, true), 0);
    });
    world.run_for(sim::kSecond);
    run(a, [&] { EXPECT_EQ(sim::program_error(here), -KAPI_ECONNRESET); });
}

TEST_P(Adopt, closed_descriptor__leaves_the_socket_with_core)
{
    run(b, [&] {
        taken.adopt(there);
        close(there);
    });
    write(a, here, "still here");
    EXPECT_TRUE(world.run_until([&] { return taken.received == "still here"; }, sim::kSecond));
    EXPECT_FALSE(taken.closed);
    run(b, [&] { EXPECT_EQ(taken.give_back(), 0); });
    run(a, [&] {
        char byte;
        EXPECT_EQ(sim::program_read(here, &byte, 1), 0);
    });
}

TEST_P(Adopt, reset__is_told_to_both)
{
    run(b, [&] { taken.adopt(there); });
    world.network().reset(a, b, sim::Sees::both);
    EXPECT_TRUE(world.run_until([&] { return taken.closed; }, sim::kSecond));
    run(b, [&] {
        EXPECT_TRUE(sim::program_poll(there) & KAPI_ERR);
        EXPECT_EQ(sim::program_error(there), -KAPI_ECONNRESET);
        EXPECT_EQ(taken.give_back(), 0);
    });
}

TEST_P(Adopt, reset_by_core__leaves_the_socket_taken_over)
{
    run(b, [&] {
        taken.adopt(there);
        kapi_stream_reset(taken.stream);
        EXPECT_TRUE(taken.closed);
        kapi_stream *none;
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &none), -KAPI_EOPNOTSUPP);
        kapi_stream_reset(taken.stream);
        EXPECT_EQ(taken.give_back(), 0);
        EXPECT_EQ(sim::program_error(there), -KAPI_ECONNABORTED);
    });
    world.run_for(sim::kSecond);
    run(a, [&] { EXPECT_EQ(sim::program_error(here), -KAPI_ECONNRESET); });
}

TEST_P(Adopt, posted_error__is_told_once)
{
    run(b, [&] {
        taken.adopt(there);
        kapi_stream_post_error(taken.stream, KAPI_EMSGSIZE);
        EXPECT_TRUE(sim::program_poll(there) & KAPI_ERR);
        EXPECT_EQ(sim::program_error(there), -KAPI_EMSGSIZE);
        EXPECT_EQ(sim::program_error(there), 0);
        kapi_stream_post_error(taken.stream, KAPI_EPROTO);
        kapi_segment segment{"x", nullptr, 0, 1};
        kapi_u32 end;
        EXPECT_EQ(kapi_stream_send(taken.stream, &segment, 1, 0, &end), -KAPI_EPROTO);
        EXPECT_EQ(sim::program_error(there), -KAPI_EPROTO); // that send has not taken it
        EXPECT_EQ(kapi_stream_send(taken.stream, &segment, 1, 0, &end), 1);
        EXPECT_EQ(taken.give_back(), 0);
    });
    run(a, [&] { EXPECT_EQ(read(here, 1), "x"); });
}

TEST_P(Adopt, settings__are_the_programs)
{
    taken.limit = 0;
    run(b, [&] {
        sim::program_set_buffers(there, 0, 20'000);
        sim::program_socket_of(there).rcvtimeo_ns = 3 * sim::kSecond;
        taken.adopt(there);
        EXPECT_EQ(kapi_stream_rcvbuf(taken.stream), 20'000u);
        EXPECT_EQ(kapi_stream_rcvtimeo_ns(taken.stream), 3 * sim::kSecond);
        sim::program_socket_of(there).rcvtimeo_ns = KAPI_FOREVER;
        EXPECT_EQ(kapi_stream_rcvtimeo_ns(taken.stream), KAPI_FOREVER);
    });
    write(a, here, text(5000));
    world.run_for(sim::kSecond);
    run(b, [&] {
        struct kapi_stream_queues queues;
        kapi_stream_queues(taken.stream, &queues);
        EXPECT_GT(queues.recv_q, 0u);
        EXPECT_GE(queues.rmem, 5000u);
        EXPECT_EQ(taken.give_back(), 0);
    });
}

TEST_P(Adopt, close__instead_of_give_back_is_refused)
{
    run(b, [&] { taken.adopt(there); });
    EXPECT_DEATH(run(b, [&] { kapi_stream_close(taken.stream, 0); }), "closed instead of given back");
    run(b, [&] { EXPECT_EQ(taken.give_back(), 0); });
}

TEST_P(Adopt, crash__takes_all_along)
{
    run(b, [&] {
        sim::program_length_filter();
        sim::program_pipe();
        taken.adopt(there);
    });
    b.crash();
    there = -1;
}

INSTANTIATE_TEST_SUITE_P(Seeds, Adopt, ::testing::Range(1, 6));

} // namespace
