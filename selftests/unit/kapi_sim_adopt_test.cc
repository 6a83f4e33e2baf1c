// SPDX-License-Identifier: GPL-2.0
// A program's TCP socket in the simulator: what the program does with it, core taking it over and giving it back.
#include "kapi_sim_adopt_test.h"

namespace {

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

TEST_P(Adopt, adopt__fails_without_memory)
{
    run(b, [&] {
        b.faults().fail_at = b.faults().count + 1;
        EXPECT_EQ(kapi_stream_adopt(there, nullptr, &taken.stream), -KAPI_ENOMEM);
        taken.adopt(there);
        EXPECT_EQ(taken.give_back(nullptr, KAPI_GIVE_BACK_RESET), 0);
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
