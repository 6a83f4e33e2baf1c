// SPDX-License-Identifier: GPL-2.0
// Cutting a stream into messages: every split, every result of a program, limits, time-outs.
#include "kcm_test.h"

#include <climits>

namespace {

class KcmParser : public KcmTest {
protected:
    /** The result for a stream whose filter always returns the same. */
    void expect_error(int said, int error)
    {
        SCOPED_TRACE("the filter returns " + std::to_string(said));
        int filter = -1;
        run(a, [&] { filter = sim::program_filter([said](const unsigned char *, std::size_t) { return said; }); });
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket, filter);
        peer_writes(ends, "0123456789");
        settle();
        EXPECT_EQ(receive(socket), "error " + std::to_string(error)); // it was the only connection
        EXPECT_EQ(error_of(ends), error);
        run(a, [&] {
            ASSERT_EQ(socket.unattach(ends.here), 0);
            sim::program_close(filter);
            EXPECT_EQ(read(ends.here, 10), "0123456789");
        });
    }
};

TEST_F(KcmParser, stream__is_cut_wherever_it_was_split)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::vector<std::string> messages{framed(text(5)), framed(""), framed(text(100, 3)), framed(text(61, 9))};
    std::string stream;
    for (const std::string &message : messages)
        stream += message;
    for (std::size_t split = 0; split <= stream.size(); split++) {
        SCOPED_TRACE("split at " + std::to_string(split));
        for (const std::string &part : {stream.substr(0, split), stream.substr(split)}) {
            if (!part.empty())
                peer_writes(ends, part);
            world.run_for(2 * sim::kMillisecond);
        }
        for (const std::string &message : messages)
            ASSERT_EQ(receive(socket), message);
        ASSERT_EQ(receive(socket), kNothing);
    }
}

TEST_F(KcmParser, stream__is_cut_byte_by_byte)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string stream = framed(text(70)) + framed("") + framed(text(3));
    for (char byte : stream) {
        peer_writes(ends, std::string(1, byte));
        world.run_for(sim::kMillisecond);
    }
    EXPECT_EQ(receive(socket), framed(text(70)));
    EXPECT_EQ(receive(socket), framed(""));
    EXPECT_EQ(receive(socket), framed(text(3)));
}

TEST_F(KcmParser, messages__of_different_lengths_come_in_one_write)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string stream;
    for (unsigned i = 0; i < 300; i++)
        stream += framed(text(i * 13 % 900, i));
    peer_writes(ends, stream);
    for (unsigned i = 0; i < 300; i++)
        ASSERT_EQ(receive(socket, 1000, 0), framed(text(i * 13 % 900, i))) << i;
}

TEST_F(KcmParser, filter__may_give_any_length_up_to_what_there_is)
{
    for (int length : {1, 2, 3, 10}) {
        int filter = -1;
        run(a, [&] { filter = sim::program_filter([=](const unsigned char *, std::size_t) { return length; }); });
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket, filter);
        std::string stream = "0123456789";
        peer_writes(ends, stream);
        settle();
        for (std::size_t at = 0; at + static_cast<std::size_t>(length) <= stream.size(); at += static_cast<std::size_t>(length))
            EXPECT_EQ(receive(socket), stream.substr(at, static_cast<std::size_t>(length)));
        EXPECT_EQ(receive(socket), kNothing);
        run(a, [&] { sim::program_close(filter); });
    }
}

TEST_F(KcmParser, filter__ends_the_connection_with_the_error_it_gives)
{
    expect_error(-1, KAPI_EPERM);
    expect_error(-KAPI_EINVAL, KAPI_EINVAL);
    expect_error(-86, 86);
    expect_error(-133, 133);
    expect_error(-KAPI_ENOMEM, KAPI_ENOMEM); // the program's result, not a failed allocation
    expect_error(-134, KAPI_EPROTO);
    expect_error(-512, KAPI_EPROTO); // ERESTARTSYS is the kernel's own
    expect_error(-KAPI_EAGAIN, KAPI_EPROTO); // of a call these say that it is to be repeated
    expect_error(-KAPI_EINTR, KAPI_EPROTO);
    expect_error(INT_MIN, KAPI_EPROTO);
    expect_error(1'000'000, KAPI_EMSGSIZE);
    expect_error(INT_MAX, KAPI_EMSGSIZE);
}

TEST_F(KcmParser, filter__that_never_decides_is_given_up_when_its_view_is_full)
{
    int filter = -1;
    std::size_t most = 0;
    run(a, [&] {
        filter = sim::program_filter([&](const unsigned char *, std::size_t size) {
            most = std::max(most, size);
            return 0;
        });
    });
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, filter);
    peer_writes(ends, text(4095));
    settle();
    EXPECT_EQ(error_of(ends), 0);
    EXPECT_EQ(most, 4095u);
    peer_writes(ends, text(1));
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EMSGSIZE);
    run(a, [&] {
        ASSERT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(read(ends.here, 4096), text(4095) + text(1));
        sim::program_close(filter);
    });
}

TEST_F(KcmParser, filter__may_not_take_back_bytes_it_has_seen)
{
    int filter = -1;
    run(a, [&] { filter = sim::program_filter([](const unsigned char *, std::size_t size) { return size > 8 ? 3 : 0; }); });
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, filter);
    peer_writes(ends, "01234567");
    settle();
    peer_writes(ends, "89");
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EPROTO);
    run(a, [&] {
        ASSERT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(read(ends.here, 10), "0123456789");
        sim::program_close(filter);
    });
}

TEST_F(KcmParser, filter__may_take_just_the_bytes_it_has_seen)
{
    int filter = -1;
    run(a, [&] { filter = sim::program_filter([](const unsigned char *, std::size_t size) { return size > 4 ? 4 : 0; }); });
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, filter);
    for (const char *bytes : {"0123", "45", "678"}) {
        peer_writes(ends, bytes);
        settle();
    }
    EXPECT_EQ(receive(socket), "0123");
    EXPECT_EQ(receive(socket), "4567");
    EXPECT_EQ(receive(socket), kNothing);
    run(a, [&] { sim::program_close(filter); });
}

TEST_F(KcmParser, filter__that_needs_more_than_a_first_look_gets_it)
{
    // The length follows 1000 bytes.
    int filter = -1;
    run(a, [&] {
        filter = sim::program_filter([](const unsigned char *bytes, std::size_t size) -> kapi_s32 {
            return size < 1001 ? 0 : 1001 + bytes[1000];
        });
    });
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, filter);
    std::string message = text(1000) + '\x07' + text(7);
    peer_writes(ends, message + message);
    settle();
    EXPECT_EQ(receive(socket), message);
    EXPECT_EQ(receive(socket), message);
    run(a, [&] { sim::program_close(filter); });
}

TEST_F(KcmParser, limit__is_the_receive_buffer_of_the_tcp_socket)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    run(a, [&] {
        sim::program_set_buffers(ends.here, 0, 16384);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.attach(ends.here, by_length), 0);
    });
    peer_writes(ends, framed(text(16380)));
    settle();
    EXPECT_EQ(receive(socket), framed(text(16380)));
    peer_writes(ends, framed(text(16381)).substr(0, 100));
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EMSGSIZE);
}

TEST_F(KcmParser, limit__of_the_socket_counts_for_what_it_attaches)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    run(a, [&] {
        sim::program_set_buffers(ends.here, 0, 5000); // a window smaller than the message
        ASSERT_EQ(socket.open(), 0);
        EXPECT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 300'000), 0);
        ASSERT_EQ(socket.attach(ends.here, by_length), 0);
        EXPECT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 10), 0); // for others
    });
    peer_writes(ends, framed(text(299'996)));
    settle();
    EXPECT_EQ(receive(socket), framed(text(299'996)));
    peer_writes(ends, framed(text(299'997)).substr(0, 1000));
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EMSGSIZE);
}

TEST_F(KcmParser, assembly__takes_no_longer_than_the_receive_timeout)
{
    for (std::size_t size : {2u, 4u, 50u}) {
        SCOPED_TRACE(std::to_string(size) + " bytes");
        KcmSocket &socket = new_socket();
        Ends ends = connect();
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
            sim::program_socket_of(ends.here).rcvtimeo_ns = sim::kSecond; // after attach
        });
        peer_writes(ends, framed(text(10)) + framed(text(100)).substr(0, size));
        for (unsigned i = 0; i < 30; i++) { // more bytes do not put it off
            world.run_for(30 * sim::kMillisecond);
            if (size == 50)
                peer_writes(ends, "x");
        }
        EXPECT_EQ(error_of(ends), 0);
        world.run_for(200 * sim::kMillisecond);
        EXPECT_EQ(error_of(ends), KAPI_ETIMEDOUT);
        EXPECT_EQ(receive(socket), framed(text(10)));
    }
}

TEST_F(KcmParser, assembly__of_one_message_after_the_other_has_its_time_each)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    run(a, [&] {
        sim::program_socket_of(ends.here).rcvtimeo_ns = sim::kSecond;
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.attach(ends.here, by_length), 0);
    });
    std::string message = framed(text(100));
    for (unsigned i = 0; i < 10; i++) { // always something of a message, never one for long
        peer_writes(ends, (i ? message.substr(30) : "") + message.substr(0, 30));
        world.run_for(400 * sim::kMillisecond);
    }
    peer_writes(ends, message.substr(30));
    world.run_for(5 * sim::kSecond); // an idle connection is none that is late
    EXPECT_EQ(error_of(ends), 0);
    for (unsigned i = 0; i < 10; i++)
        EXPECT_EQ(receive(socket), message);
}

TEST_F(KcmParser, assembly__is_not_late_while_nobody_has_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    run(a, [&] {
        sim::program_socket_of(ends.here).rcvtimeo_ns = sim::kSecond;
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.attach(ends.here, by_length), 0);
    });
    std::string message = framed(text(5000));
    peer_writes(ends, message.substr(0, 3000));
    settle();
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    peer_writes(ends, message.substr(3000));
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 0);
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    settle();
    EXPECT_EQ(receive(socket), message);
}

TEST_F(KcmParser, assembly__is_not_late_while_there_is_no_memory)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = sim::kSecond; });
    std::string message = framed(text(9000));
    peer_writes(ends, message.substr(0, 5000));
    settle();
    a.faults().one_in = 1;
    peer_writes(ends, message.substr(5000));
    world.run_for(5 * sim::kSecond);
    a.faults().one_in = 0;
    EXPECT_EQ(error_of(ends), 0);
    settle();
    EXPECT_EQ(receive(socket), message);
}

// A longer time-out that is pending for an earlier message must not prevent it.
TEST_F(KcmParser, assembly__with_a_shorter_timeout_than_before_is_noticed_in_time)
{
    for (bool in_progress : {false, true}) {
        SCOPED_TRACE(in_progress);
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket);
        auto set = [&](std::uint64_t ns) { run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = ns; }); };
        set(3600 * sim::kSecond);
        std::string message = framed(text(100));
        peer_writes(ends, message.substr(0, 30));
        settle();
        set(sim::kSecond);
        peer_writes(ends, in_progress ? message.substr(30, 10) : message.substr(30) + message.substr(0, 30));
        world.run_for(900 * sim::kMillisecond);
        EXPECT_EQ(error_of(ends), 0);
        world.run_for(200 * sim::kMillisecond);
        EXPECT_EQ(error_of(ends), KAPI_ETIMEDOUT);
    }
}

TEST_F(KcmParser, assembly__with_a_longer_timeout_than_before_goes_on)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto set = [&](std::uint64_t ns) { run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = ns; }); };
    set(sim::kSecond);
    peer_writes(ends, framed(text(100)).substr(0, 30));
    settle();
    set(4 * sim::kSecond);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 0);
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(error_of(ends), KAPI_ETIMEDOUT);
}

TEST_F(KcmParser, assembly__has_no_limit_with_a_timeout_of_nothing)
{
    // A negative SO_RCVTIMEO is stored as 0.
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { sim::program_socket_of(ends.here).rcvtimeo_ns = 0; });
    peer_writes(ends, framed("message").substr(0, 6));
    world.run_for(100 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 0);
    peer_writes(ends, framed("message").substr(6));
    settle();
    EXPECT_EQ(receive(socket), framed("message"));
}

TEST_F(KcmParser, program_that_fails_a_load__is_shown_all_that_is_there)
{
    // As one does that calls bpf_skb_load_bytes() for a length behind the first view, and returns its error.
    int filter = -1;
    std::vector<std::size_t> shown;
    run(a, [&] {
        filter = sim::program_filter([&](const unsigned char *bytes, std::size_t size) -> kapi_s32 {
            shown.push_back(size);
            return size > 100 ? 101 + bytes[100] : -KAPI_EFAULT;
        });
    });
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    std::string message = text(100) + '\x07' + text(7);
    peer_writes(ends, message);
    settle(); // all of it is there, whatever segments it came in
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.attach(ends.here, filter), 0);
    });
    settle();
    EXPECT_EQ(receive(socket), message);
    EXPECT_EQ(shown, (std::vector<std::size_t>{KAPI_FILTER_FIRST_VIEW, message.size()}));
    EXPECT_EQ(error_of(ends), 0);
    peer_writes(ends, text(90)); // all there is: now it counts
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EFAULT);
    run(a, [&] { sim::program_close(filter); });
}

} // namespace
