// SPDX-License-Identifier: GPL-2.0
// Two machines with a stream of the simulated TCP between them.
#pragma once

#include "kapi_sim_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include <cstring>
#include <string>
#include <vector>

constexpr kapi_u16 kPort = 16385;

/** What one end of a stream has seen. */
struct End {
    kapi_stream *stream = nullptr;
    std::string received;
    std::size_t limit = ~std::size_t{0}; // bytes that rx() takes before it declines
    bool established = false, eof = false, closed = false;
    int error = 0;
    kapi_u32 una = 0;
    unsigned acks = 0;

    static kapi_size rx(void *context, kapi_rx *rx, kapi_size length)
    {
        auto &self = *static_cast<End *>(context);
        kapi_size take = std::min<kapi_size>(length, self.limit - self.received.size());
        std::string bytes(take, '\0');
        kapi_rx_copy(rx, 0, bytes.data(), take);
        self.received += bytes;
        return take;
    }
    static void acked(void *context, kapi_u32 una)
    {
        auto &self = *static_cast<End *>(context);
        self.una = una;
        self.acks++;
    }
    static void event(void *context, kapi_stream_event event, int error)
    {
        auto &self = *static_cast<End *>(context);
        if (event == KAPI_STREAM_ESTABLISHED)
            self.established = true;
        if (event == KAPI_STREAM_EOF)
            self.eof = true;
        if (event == KAPI_STREAM_CLOSED) {
            EXPECT_FALSE(self.closed);
            self.closed = true;
            self.error = error;
        }
    }
    static constexpr kapi_stream_ops ops{rx, acked, event};
};

const kapi_stream_options kOptions{};

class Stream : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    Stream() : SimTest(static_cast<std::uint64_t>(GetParam())) {}

    void listen()
    {
        kapi_addr any = sim::address("::", kPort);
        ASSERT_EQ(
            kapi_listen(
                &b.initial_net(), &any, 8, [](void *ready) { *static_cast<bool *>(ready) = true; }, &ready, &listener),
            0);
    }
    /** Connects a to b and attaches both ends. */
    void connect(const kapi_stream_options &options = kOptions)
    {
        run(b, [&] { listen(); });
        run(a, [&] {
            kapi_addr local = sim::address("10.0.0.1"), remote = sim::address("10.0.0.2", kPort);
            ASSERT_EQ(
                kapi_stream_connect(&a.initial_net(), &local, &remote, &options, &End::ops, &client, &client.stream),
                0);
        });
        ASSERT_TRUE(world.run_until([&] { return ready && client.established; }, 30 * sim::kSecond));
        run(b, [&] {
            ASSERT_EQ(kapi_accept(listener, &server.stream), 0);
            kapi_stream_attach(server.stream, &options, &End::ops, &server);
        });
    }
    /** Writes all of text, waiting for room. */
    void send(sim::Node &node, End &end, const std::string &text, int *error = nullptr)
    {
        std::size_t done = 0;
        while (done < text.size()) {
            kapi_segment segment{text.data() + done, nullptr, 0, static_cast<kapi_u32>(text.size() - done)};
            kapi_u32 seq;
            kapi_s64 taken = kapi_stream_send(end.stream, &segment, 1, 0, &seq);
            if (taken < 0) {
                if (error)
                    *error = static_cast<int>(taken);
                return;
            }
            done += static_cast<std::size_t>(taken);
            if (!taken)
                node.world().sleep(sim::kMillisecond);
        }
    }
    void offer(const std::string &text, unsigned flags)
    {
        run(a, [&] {
            kapi_segment segment{text.data(), nullptr, 0, static_cast<kapi_u32>(text.size())};
            kapi_u32 seq;
            EXPECT_EQ(kapi_stream_send(client.stream, &segment, text.empty() ? 0 : 1, flags, &seq),
                      static_cast<kapi_s64>(text.size()));
        });
    }
    void close_all()
    {
        run(a, [&] { kapi_stream_close(std::exchange(client.stream, nullptr), 0); });
        run(b, [&] {
            kapi_stream_close(std::exchange(server.stream, nullptr), 0);
            kapi_listener_stop(listener);
            kapi_listener_close(std::exchange(listener, nullptr));
        });
        world.run_for(100 * sim::kSecond);
    }

    bool ready = false;
    kapi_listener *listener = nullptr;
    End client, server;
};
