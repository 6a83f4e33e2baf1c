// SPDX-License-Identifier: GPL-2.0
// A program with a TCP socket, which core takes over.
#pragma once

#include "kapi_sim_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/stream.h>

#include <string>
#include <utility>
#include <vector>

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
    int give_back(const kapi_piece *first = nullptr, kapi_give_back how = KAPI_GIVE_BACK_OPEN)
    {
        return kapi_stream_give_back(std::exchange(stream, nullptr), first, how);
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
