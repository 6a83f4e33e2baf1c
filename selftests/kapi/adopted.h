// SPDX-License-Identifier: GPL-2.0
// A program's connected TCP sockets, and what it sends.
#pragma once

#include "check.h"

#include <kapi/stream.h>

#include "kapi_test.h"

namespace test {
namespace { // for each object its own, as pause()

constexpr kapi_size page = 4096;
// The pages that a network buffer holds at least, and more than one copy takes.
constexpr kapi_size pages_of_buffer = 17 * page, largest_copy = pages_of_buffer + page;

unsigned char pattern(kapi_u64 i)
{
    return static_cast<unsigned char>(i * 11 + i / 251);
}

// Bytes that are the pattern from an offset on.
class Bytes {
public:
    explicit Bytes(kapi_size size, kapi_u64 offset = 0)
        : data(static_cast<unsigned char*>(kapi_alloc(size, KAPI_SLEEP))), size(size)
    {
        if (data)
            fill(offset);
    }
    Bytes(const Bytes&) = delete;
    ~Bytes() { kapi_free(data); }
    void fill(kapi_u64 offset)
    {
        for (kapi_size i = 0; i < size; i++)
            data[i] = pattern(offset + i);
    }
    void clear() { kapi_fill(data, 0, size); }
    bool is_pattern(kapi_u64 offset, kapi_size count) const
    {
        for (kapi_size i = 0; i < count; i++)
            if (data[i] != pattern(offset + i))
                return false;
        return count <= size;
    }

    unsigned char* const data;
    const kapi_size size;
};

// Two connected sockets of a program; the first one is adopted.
class Taken {
public:
    Taken() = default;
    Taken(const Taken&) = delete;
    ~Taken()
    {
        if (stream)
            kapi_stream_give_back(stream, nullptr, KAPI_GIVE_BACK_RESET);
        while (kept) {
            kapi_rxbuf* next = *kapi_rxbuf_next(kept);
            kapi_rxbuf_free(kept);
            kept = next;
        }
        for (int fd : {here, there, other})
            if (fd >= 0)
                kapi_test_close(fd);
    }
    bool open(Bench& bench, bool keeps = false)
    {
        int fds[2];
        CHECK(kapi_test_socket_pair(fds) == 0);
        here = fds[0];
        there = fds[1];
        keep = keeps;
        CHECK(kapi_stream_adopt(here, bench.queue, &stream) == 0);
        if (sends_late)
            kapi_test_send_when_given_back(here, there);
        kapi_stream_attach(stream, &options, &ops, this);
        return true;
    }
    int give_back(const void* bytes, kapi_size size)
    {
        kapi_piece piece{nullptr, bytes, nullptr, static_cast<kapi_u32>(size)};
        return kapi_stream_give_back(std::exchange(stream, nullptr), &piece, KAPI_GIVE_BACK_OPEN);
    }

    int here = -1, there = -1, other = -1;
    kapi_stream* stream = nullptr;
    kapi_rxbuf* kept = nullptr; // the newest first
    volatile kapi_u64 received = 0, limit = ~0ull;
    kapi_size largest = 0; // kept as one buffer
    volatile bool eof = false, closed = false, failed = false;
    bool keep = false, sends_late = false;

private:
    static kapi_size on_rx(void* context, kapi_rx* rx, kapi_size length)
    {
        auto& self = *static_cast<Taken*>(context);
        const kapi_u64 room = self.limit - self.received;
        const kapi_size take = length < room ? length : room;
        if (take && self.keep) {
            kapi_rxbuf* buffer = kapi_rx_keep(rx, 0, take);
            if (!buffer) {
                self.failed = true;
                return 0;
            }
            *kapi_rxbuf_next(buffer) = self.kept;
            self.kept = buffer;
            self.largest = take > self.largest ? take : self.largest;
        }
        self.received = self.received + take;
        return take;
    }
    static void on_acked(void*, kapi_u32) {}
    static void on_event(void* context, kapi_stream_event event, int)
    {
        auto& self = *static_cast<Taken*>(context);
        if (event == KAPI_STREAM_EOF)
            self.eof = true;
        if (event == KAPI_STREAM_CLOSED)
            self.closed = true;
    }
    static constexpr kapi_stream_ops ops{on_rx, on_acked, on_event};
    static constexpr kapi_stream_options options{0, 0, 0, 0, 0, 0};
};

} // namespace
} // namespace test
