// SPDX-License-Identifier: GPL-2.0
// KCM on machine a, and programs with plain TCP on machine b, for tests of core through the calls that the glue makes.
#pragma once

#include "kapi_sim_test.h"

#include <kapi/errno.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pattern.h"
#include "selftests/sim/kcm_host.h"

/** A message of KCM's documentation: its length, then so many bytes. */
inline std::string framed(const std::string &payload)
{
    auto size = static_cast<kapi_u32>(payload.size());
    std::string head;
    for (int shift = 24; shift >= 0; shift -= 8)
        head += static_cast<char>(size >> shift);
    return head + payload;
}

class KcmTest : public SimTest {
protected:
    /** A connection's ends: descriptors on a and on b. */
    struct Ends {
        int here = -1, there = -1;
    };

    explicit KcmTest(std::uint64_t seed = 1) : SimTest(seed), host(a)
    {
        run(a, [&] {
            ASSERT_EQ(host.load(), 0);
            by_length = sim::program_length_filter();
        });
    }
    ~KcmTest() override
    {
        run(a, [&] {
            sockets_.clear();
            for (const Ends &ends : made_)
                close(ends.here);
            sim::program_close(by_length);
            EXPECT_TRUE(host.unload_soon(100 * sim::kSecond)); // as long as a closed socket may send
        }, 200 * sim::kSecond);
        run(b, [&] {
            for (const Ends &ends : made_)
                close(ends.there);
        });
        world.run_for(300 * sim::kSecond); // TCP ends
    }

    /** A program's socket on a, not open yet. It is closed in the end. */
    KcmSocket &new_socket() { return *sockets_.emplace_back(std::make_unique<KcmSocket>(host)); }
    Ends connect(kapi_u32 peers_rcvbuf = 0)
    {
        Ends ends;
        auto port = static_cast<kapi_u16>(7000 + made_.size());
        auto server = world.spawn(b, "server", [&] {
            kapi_listener *listener = sim::program_listen(b.initial_net(), sim::address("::", port));
            ends.there = sim::program_accept(listener, peers_rcvbuf);
            sim::program_unlisten(listener);
        });
        run(a, [&] {
            world.sleep(sim::kMillisecond);
            ends.here = sim::program_connect(a.initial_net(), sim::address("10.0.0.1"), sim::address("10.0.0.2", port));
            EXPECT_GT(ends.here, 0);
        });
        EXPECT_TRUE(world.run_until([&] { return server->is_done(); }, sim::kSecond));
        made_.push_back(ends);
        closed_.erase({&a, ends.here}); // the numbers of descriptors are used again
        closed_.erase({&b, ends.there});
        return ends;
    }
    /** Over which next to nothing fits while the peer does not read. */
    Ends connect_narrow()
    {
        constexpr std::size_t kFirstWindow = 65535; // the size of the buffer was not set yet
        Ends ends = connect(4000);
        run(a, [&] { sim::program_set_buffers(ends.here, 4000, 0); });
        auto writer = world.spawn(a, "writer", [=] {
            std::string bytes(kFirstWindow, 'x');
            sim::program_write(ends.here, bytes.data(), bytes.size());
        });
        peer_reads(ends, kFirstWindow);
        EXPECT_TRUE(writer->is_done());
        return ends;
    }
    /** Attaches a connection to a socket, which is opened first if it is not open. */
    void attach(KcmSocket &socket, const Ends &ends)
    {
        run(a, [&] {
            int err = socket.is_open() ? 0 : socket.open();
            ASSERT_EQ(err, 0);
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
        });
    }
    /** A new socket with a connection as connect_narrow() makes them. */
    Ends open_narrow(KcmSocket &socket)
    {
        Ends ends = connect_narrow();
        attach(socket, ends);
        return ends;
    }
    /** A new socket with one connection. */
    Ends open_with_one(KcmSocket &socket, int filter = -1, int type = KCM_ABI_SOCK_DGRAM)
    {
        Ends ends = connect();
        run(a, [&] {
            ASSERT_EQ(socket.open(type), 0);
            ASSERT_EQ(socket.attach(ends.here, filter < 0 ? by_length : filter), 0);
        });
        return ends;
    }
    void close(int fd)
    {
        if (fd >= 0 && closed_.insert({sim::Node::current(), fd}).second)
            sim::program_close(fd);
    }

    // The peer's program.
    void peer_writes(const Ends &ends, const std::string &bytes)
    {
        run(b, [&] {
            EXPECT_EQ(sim::program_write(ends.there, bytes.data(), bytes.size()), static_cast<long>(bytes.size()));
        });
    }
    /** So many bytes, or what came before the end or an error. */
    std::string peer_reads(const Ends &ends, std::size_t size)
    {
        auto bytes = std::make_shared<std::string>(); // outlives the test when nothing comes
        run(b, [=] { *bytes = read(ends.there, size); }, 300 * sim::kSecond);
        return *bytes;
    }
    bool peer_has_unread(const Ends &ends)
    {
        unsigned events = 0;
        run(b, [&] { events = sim::program_poll(ends.there); });
        return events & KAPI_IN;
    }
    static std::string read(int fd, std::size_t size)
    {
        std::string all(size, '\0');
        std::size_t have = 0;
        while (have < size) {
            long got = sim::program_read(fd, all.data() + have, size - have);
            if (got <= 0)
                break;
            have += static_cast<std::size_t>(got);
        }
        all.resize(have);
        return all;
    }

    // The program on a.
    std::string receive(KcmSocket &socket, std::size_t room = 1 << 20, unsigned flags = KCM_ABI_MSG_DONTWAIT,
                        unsigned *flags_out = nullptr, std::uint64_t *connection = nullptr)
    {
        std::string bytes;
        long size = 0;
        bytes.resize_and_overwrite(room, [&](char *to, std::size_t) { // most of it is never used
            run(a, [&] { size = socket.receive(to, room, flags, flags_out, connection); });
            return size < 0 ? 0 : static_cast<std::size_t>(size);
        });
        return size < 0 ? "error " + std::to_string(-size) : bytes;
    }
    long send(KcmSocket &socket, const std::string &bytes, unsigned flags = 0, std::uint64_t connection = 0)
    {
        long result = 0;
        run(a, [&] { result = socket.send(bytes.data(), bytes.size(), flags, connection); }, 300 * sim::kSecond);
        return result;
    }
    /** SO_ERROR of a TCP socket on a. */
    int error_of(const Ends &ends)
    {
        int error = 0;
        run(a, [&] { error = -sim::program_error(ends.here); });
        return error;
    }
    void settle() { world.run_for(50 * sim::kMillisecond); }

    KcmHost host;
    int by_length = -1; // the filter of framed()

private:
    std::vector<std::unique_ptr<KcmSocket>> sockets_;
    std::vector<Ends> made_;
    std::set<std::pair<sim::Node *, int>> closed_;
};

const std::string kNothing = "error 11"; // EAGAIN
