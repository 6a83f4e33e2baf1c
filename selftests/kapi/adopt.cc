// SPDX-License-Identifier: GPL-2.0
// Adopting a program's TCP socket, and giving it back.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include "kapi_test.h"

namespace test {
namespace {

constexpr kapi_size page = 4096;
// The pages that a network buffer holds at least, and the linear part of a copy in front of them.
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
        for (kapi_size i = 0; data && i < size; i++)
            data[i] = pattern(offset + i);
    }
    Bytes(const Bytes&) = delete;
    ~Bytes() { kapi_free(data); }
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
            kapi_stream_give_back(stream, nullptr, 1);
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
        kapi_stream_attach(stream, &options, &ops, this);
        return true;
    }
    int give_back(const void* bytes, kapi_size size)
    {
        kapi_piece piece{nullptr, bytes, nullptr, static_cast<kapi_u32>(size)};
        return kapi_stream_give_back(std::exchange(stream, nullptr), &piece, 0);
    }

    int here = -1, there = -1, other = -1;
    kapi_stream* stream = nullptr;
    kapi_rxbuf* kept = nullptr; // the newest first
    volatile kapi_u64 received = 0, limit = ~0ull;
    kapi_size largest = 0; // kept as one buffer
    volatile bool eof = false, closed = false, failed = false;
    bool keep = false;

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

// size bytes are given back before 100 that were never consumed.
bool gives_back(Bench& bench, kapi_size size)
{
    constexpr kapi_size unread = 100;
    Boxed<Taken> box;
    Bytes bytes(size), last(unread, size), result(size + unread + 1);
    CHECK(box && bytes.data && last.data && result.data);
    Taken& taken = *box;
    taken.limit = 0;
    CHECK(taken.open(bench));
    CHECK(kapi_test_write(taken.there, last.data, unread) == static_cast<long>(unread));
    kapi_test_shut(taken.there);
    CHECK(eventually([&] { return taken.eof; }));
    CHECK(taken.give_back(bytes.data, size) == 0);
    bytes.clear();
    CHECK(kapi_test_read(taken.here, result.data, result.size) == static_cast<long>(size + unread));
    CHECK(result.is_pattern(0, size + unread));
    return true;
}

// All kept data, in order, is the pattern; so is a program's view of it.
bool kept_is_pattern(const Taken& taken, kapi_u64 end)
{
    for (kapi_rxbuf* buffer = taken.kept; buffer; buffer = *kapi_rxbuf_next(buffer)) {
        const kapi_size length = kapi_rxbuf_length(buffer);
        end -= length;
        Bytes copy(length), message(length);
        CHECK(copy.data && message.data && kapi_rxbuf_true_size(buffer) >= length);
        copy.clear();
        message.clear();
        kapi_rxbuf_copy(buffer, 0, copy.data, length);
        CHECK(copy.is_pattern(end, length));
        CHECK(kapi_test_with_msg(message.data, length, 1, [](kapi_msg* msg, void* context) {
            auto* from = static_cast<kapi_rxbuf*>(context);
            return kapi_rxbuf_to_msg(from, 0, kapi_rxbuf_length(from), msg);
        }, buffer) == 0);
        CHECK(message.is_pattern(end, length));
    }
    return end == 0;
}

} // namespace

bool adopt_gives_back_all_sizes(Bench& bench)
{
    constexpr kapi_size sizes[] = {1, page - 1, page, page + 1, 65535, 65536, 65537,
                                   pages_of_buffer - 1, pages_of_buffer, pages_of_buffer + 1,
                                   largest_copy - 1, largest_copy, largest_copy + 1, 10 * pages_of_buffer};
    for (kapi_size size : sizes)
        CHECK(gives_back(bench, size));
    return true;
}

// The program gets the size of the data, and then the end, as without the adoption.
bool adopt_gives_back_after_the_end(Bench& bench)
{
    constexpr kapi_size size = 10;
    Boxed<Taken> box;
    Bytes bytes(size), result(size + 1);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(kapi_test_write(taken.there, bytes.data, size) == static_cast<long>(size));
    kapi_test_shut(taken.there);
    CHECK(eventually([&] { return taken.eof && taken.received == size; }));
    CHECK(taken.give_back(bytes.data, size) == 0);
    CHECK(kapi_test_unread(taken.here) == static_cast<long>(size));
    CHECK(kapi_test_read(taken.here, result.data, 4) == 4);
    CHECK(kapi_test_unread(taken.here) == static_cast<long>(size - 4));
    CHECK(kapi_test_read(taken.here, result.data + 4, size) == static_cast<long>(size - 4));
    CHECK(result.is_pattern(0, size));
    CHECK(kapi_test_unread(taken.here) == 0 && kapi_test_read(taken.here, result.data, 1) == 0);
    CHECK(kapi_test_write(taken.here, bytes.data, size) == static_cast<long>(size));
    CHECK(kapi_test_read(taken.there, result.data, size) == static_cast<long>(size));
    return true;
}

// Data that others could still write to is copied, into buffers larger than one copy.
bool adopt_keeps_large_parts(Bench& bench)
{
    constexpr kapi_size size = 10 * pages_of_buffer;
    Boxed<Taken> box;
    Bytes bytes(size);
    CHECK(box && bytes.data);
    Taken& taken = *box;
    taken.limit = 0;
    CHECK(taken.open(bench, true));
    kapi_stream_set_buffers(taken.stream, 0, 8 << 20);
    const int whole = kapi_test_write_shared(taken.there, bytes.data, size);
    CHECK(whole >= 0);
    kapi_test_shut(taken.there);
    CHECK(eventually([&] { return kapi_test_unread(taken.here) == static_cast<long>(size); }));
    taken.limit = ~0ull;
    CHECK(kapi_stream_resume(taken.stream) == 0);
    CHECK(!taken.failed && taken.received == size && taken.largest > (whole ? largest_copy : page));
    CHECK(kept_is_pattern(taken, size));
    return true;
}

namespace {

// Gives back in a work, after which the kernel closes the file at once.
struct Ender {
    kapi_work work;
    Taken* taken;
    const Bytes* bytes;
    volatile int result;

    static void run(kapi_work* work)
    {
        auto& self = *reinterpret_cast<Ender*>(work);
        self.result = self.taken->give_back(self.bytes->data, self.bytes->size);
    }
};

} // namespace

// No program can read the bytes that are given back, and the connection is closed, not reset.
bool adopt_without_a_descriptor(Bench& bench)
{
    constexpr kapi_size size = 10;
    Boxed<Taken> box;
    Bytes bytes(size), result(size);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(kapi_test_write(taken.there, bytes.data, size) == static_cast<long>(size));
    CHECK(eventually([&] { return taken.received == size; }));
    kapi_segment segment{bytes.data, nullptr, 0, size};
    kapi_u32 end_seq;
    CHECK(kapi_stream_send(taken.stream, &segment, 1, 0, &end_seq) == static_cast<long>(size));
    CHECK(!kapi_stream_is_unused(taken.stream));
    kapi_test_close(std::exchange(taken.here, -1));
    CHECK(eventually([&] { return kapi_stream_is_unused(taken.stream) != 0; }));
    Boxed<Ender> ender(kapi_work{}, &taken, &bytes, 1);
    CHECK(ender);
    kapi_work_init(&ender->work, Ender::run);
    CHECK(kapi_work_queue(bench.queue, &ender->work, 0) == 1);
    const bool ended = eventually([&] { return ender->result != 1; });
    kapi_work_cancel_sync(&ender->work);
    CHECK(ended && ender->result == 0);
    CHECK(kapi_test_read(taken.there, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(0, size));
    CHECK(kapi_test_read(taken.there, result.data, 1) == 0);
    return true;
}

// A stream ends when the program connects its socket to another peer, and gets no data of that peer.
bool adopt_notices_another_peer(Bench& bench)
{
    constexpr kapi_size size = 10;
    Boxed<Taken> box;
    Bytes old(size), fresh(size, 1000), result(size);
    CHECK(box && old.data && fresh.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(kapi_test_write(taken.there, old.data, size) == static_cast<long>(size));
    CHECK(eventually([&] { return taken.received == size; }));
    taken.other = kapi_test_reconnect(taken.here);
    CHECK(taken.other >= 0 && taken.closed);
    CHECK(kapi_test_write(taken.other, fresh.data, size) == static_cast<long>(size));
    CHECK(eventually([&] { return kapi_test_unread(taken.here) == static_cast<long>(size); }));
    CHECK(taken.received == size && kapi_stream_resume(taken.stream) == 0);
    kapi_segment segment{old.data, nullptr, 0, size};
    kapi_u32 end_seq;
    CHECK(kapi_stream_send(taken.stream, &segment, 1, 0, &end_seq) < 0);
    CHECK(taken.give_back(old.data, size) == 0);
    CHECK(kapi_test_unread(taken.here) == static_cast<long>(size));
    CHECK(kapi_test_read(taken.here, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(1000, size));
    return true;
}

// Nothing is put back for the next peer: its numbers are others.
bool adopt_notices_that_there_is_no_peer(Bench& bench)
{
    constexpr kapi_size size = 10;
    Boxed<Taken> box;
    Bytes old(size), fresh(size, 1000), result(size);
    CHECK(box && old.data && fresh.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(kapi_test_write(taken.there, old.data, size) == static_cast<long>(size));
    CHECK(eventually([&] { return taken.received == size; }));
    CHECK(kapi_test_disconnect(taken.here) == 0);
    CHECK(taken.closed);
    CHECK(taken.give_back(old.data, size) == 0);
    taken.other = kapi_test_reconnect(taken.here);
    CHECK(taken.other >= 0);
    CHECK(kapi_test_write(taken.other, fresh.data, size) == static_cast<long>(size));
    CHECK(kapi_test_read(taken.here, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(1000, size));
    return true;
}

// Headers and pages in turn, over a route that has TCP copy pages. A second time the place where it copies to is free again.
bool adopt_sends_without_scatter_gather(Bench& bench)
{
    constexpr kapi_size header = 48, each = header + page, count = 3, rounds = 3;
    Boxed<Taken> box;
    Bytes bytes(count * each), payload(count * page), result(count * each);
    CHECK(box && bytes.data && payload.data && result.data);
    for (kapi_size i = 0; i < count; i++)
        kapi_copy(payload.data + i * page, bytes.data + i * each + header, page);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    kapi_test_no_scatter_gather(taken.here);
    kapi_pages* pages = nullptr;
    CHECK(kapi_test_with_msg(payload.data, payload.size, 0, [](kapi_msg* msg, void* made) {
        return kapi_pages_from_msg(msg, count * page, static_cast<kapi_pages**>(made));
    }, &pages) == 0);
    kapi_segment segments[2 * count]{};
    unsigned filled = 0;
    for (kapi_size i = 0; i < count; i++) {
        segments[2 * i] = {bytes.data + i * each, nullptr, 0, header};
        filled += kapi_pages_segments(pages, i * page, &segments[2 * i + 1], 1);
        segments[2 * i + 1].length = page;
    }
    bool good = filled == count;
    kapi_u32 end_seq;
    for (kapi_size i = 0; good && i < rounds; i++) {
        result.clear();
        good = kapi_stream_send(taken.stream, segments, 2 * count, 0, &end_seq) == static_cast<long>(bytes.size) &&
               kapi_test_read(taken.there, result.data, result.size) == static_cast<long>(result.size) &&
               result.is_pattern(0, result.size);
        pause(100 * millisecond); // all is acknowledged
    }
    kapi_pages_free(pages);
    CHECK(good);
    return true;
}

} // namespace test
