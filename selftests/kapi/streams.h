// SPDX-License-Identifier: GPL-2.0
// Both ends of a stream over the loopback interface; the listener's side is accepted by work, as in real use.
#pragma once

#include "check.h"

#include <kapi/errno.h>
#include <kapi/memory.h>
#include <kapi/socket.h>
#include <kapi/stream.h>

#include "kapi_test.h"

namespace test {

constexpr kapi_u16 port = 16999;
constexpr kapi_addr any{{}, 0, port, 0};
constexpr kapi_addr v4(kapi_u16 p)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 0, p, 0};
}
constexpr kapi_addr v6(kapi_u16 p)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0, p, 0};
}

inline unsigned char pattern(kapi_u64 i)
{
    return static_cast<unsigned char>(i * 13 + i / 509);
}

// A small part of a large buffer, which is not copied, pays for a quarter of it (kapi/kept.h).
inline bool pays_enough(kapi_rx* rx, kapi_size length)
{
    const kapi_size whole = kapi_rx_true_size(rx);
    if (length < 20000 || whole > 2 * length)
        return true;
    kapi_rxbuf* part = kapi_rx_keep(rx, 0, length / 8);
    if (!part)
        return true;
    const kapi_size paid = kapi_rxbuf_true_size(part);
    kapi_rxbuf_free(part);
    return 4 * paid + 1024 >= whole;
}

// One end of a stream. Checks that it receives the pattern, and counts it.
struct End {
    kapi_stream* stream;
    kapi_rxbuf* kept;            // a chain, when keep is set
    volatile kapi_u64 received;
    volatile kapi_u64 limit;     // declines data after this many bytes
    volatile kapi_u32 una;
    volatile int acks;
    volatile int error;          // of the CLOSED event
    volatile bool established, eof, closed, wrong;
    bool keep;

    static kapi_size on_rx(void* context, kapi_rx* rx, kapi_size length)
    {
        auto& end = *static_cast<End*>(context);
        const kapi_u64 room = end.limit - end.received;
        const kapi_size take = length < room ? length : room;
        if (end.keep && take) {
            kapi_rxbuf* buffer = kapi_rx_keep(rx, 0, take);
            if (!buffer)
                return 0;
            end.wrong = end.wrong || kapi_rxbuf_length(buffer) != take || kapi_rxbuf_true_size(buffer) < take;
            end.wrong = end.wrong || !pays_enough(rx, length);
            *kapi_rxbuf_next(buffer) = end.kept;
            end.kept = buffer;
        }
        for (kapi_size i = 0; i < take; i += 512) {
            unsigned char byte;
            kapi_rx_copy(rx, i, &byte, 1);
            end.wrong = end.wrong || byte != pattern(end.received + i);
        }
        end.received = end.received + take;
        return take;
    }
    static void on_acked(void* context, kapi_u32 una)
    {
        auto& end = *static_cast<End*>(context);
        end.una = una;
        end.acks = end.acks + 1;
    }
    static void on_event(void* context, kapi_stream_event event, int error)
    {
        auto& end = *static_cast<End*>(context);
        if (event == KAPI_STREAM_ESTABLISHED)
            end.established = true;
        if (event == KAPI_STREAM_EOF)
            end.eof = true;
        if (event == KAPI_STREAM_CLOSED) {
            end.error = error;
            end.closed = true;
        }
    }
    static constexpr kapi_stream_ops ops{on_rx, on_acked, on_event};

    void reset() { *this = End{nullptr, nullptr, 0, ~0ull, 0, 0, 0, false, false, false, false, false}; }
    void close(bool abort)
    {
        if (stream)
            kapi_stream_close(stream, abort);
        stream = nullptr;
        while (kept) {
            kapi_rxbuf* next = *kapi_rxbuf_next(kept);
            kapi_rxbuf_free(kept);
            kept = next;
        }
    }
};

// Appends the pattern from offset on; returns the accepted size.
inline kapi_s64 send(End& end, kapi_u64 offset, kapi_size size, kapi_u32* end_seq)
{
    static unsigned char bytes[32768];
    kapi_segment segments[8]{};
    const kapi_size total = size < sizeof(bytes) ? size : sizeof(bytes), part = total / 8;
    for (kapi_size i = 0; i < total; i++)
        bytes[i] = pattern(offset + i);
    for (unsigned i = 0; i < 8; i++) {
        segments[i].addr = bytes + i * part;
        segments[i].length = static_cast<kapi_u32>(i == 7 ? total - 7 * part : part);
    }
    return kapi_stream_send(end.stream, segments, 8, 0, end_seq);
}

// A connected pair.
class Pair {
    kapi_work accept_; // first, because the work finds its pair by this address

public:
    explicit Pair(Bench& bench) : queue_(bench.queue), net_(bench.net)
    {
        client.reset();
        server.reset();
        kapi_work_init(&accept_, accept_now);
    }
    ~Pair()
    {
        if (listener_)
            kapi_listener_stop(listener_);
        kapi_work_cancel_sync(&accept_);
        if (listener_)
            kapi_listener_close(listener_);
        client.close(true);
        server.close(true);
    }
    bool open(const kapi_addr& from, const kapi_addr& to, bool attach = true)
    {
        CHECK(listen());
        attach_ = attach;
        CHECK(kapi_stream_connect(net_, &from, &to, &options, &End::ops, &client, &client.stream) == 0);
        CHECK(eventually([&] { return client.established && server.stream; }));
        return true;
    }
    // Only listens; accepted streams are not attached.
    bool listen()
    {
        attach_ = false;
        if (kapi_listen(net_, &any, 8, ready, this, &listener_) == 0)
            return true;
        listener_ = nullptr;
        return false;
    }
    void attach() { kapi_stream_attach(server.stream, &options, &End::ops, &server); }

    static constexpr kapi_stream_options options{0, 0, 5, 1, 3, 1};
    End client, server;

private:
    static void ready(void* context)
    {
        auto* pair = static_cast<Pair*>(context);
        kapi_work_queue(pair->queue_, &pair->accept_, 0);
    }
    static void accept_now(kapi_work* work)
    {
        auto* pair = reinterpret_cast<Pair*>(work);
        kapi_stream* stream;
        while (kapi_accept(pair->listener_, &stream) == 0) {
            if (pair->server.stream) {
                kapi_stream_close(stream, 1);
                continue;
            }
            if (pair->attach_)
                kapi_stream_attach(stream, &options, &End::ops, &pair->server);
            pair->server.stream = stream;
        }
    }

    kapi_workqueue* queue_;
    kapi_net* net_;
    kapi_listener* listener_ = nullptr;
    bool attach_ = true;
};

} // namespace test
