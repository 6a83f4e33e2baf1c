// SPDX-License-Identifier: GPL-2.0
// Adopting a program's TCP socket, and using it.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include "adopted.h"
#include "kapi_test.h"

namespace test {
namespace {

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
    kapi_test_shut(taken.here);
    CHECK(taken.closed);
    CHECK(taken.give_back(old.data, size) == 0);
    taken.other = kapi_test_reconnect(taken.here);
    CHECK(taken.other >= 0);
    CHECK(kapi_test_write(taken.other, fresh.data, size) == static_cast<long>(size));
    CHECK(kapi_test_read(taken.here, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(1000, size));
    return true;
}

namespace {

constexpr kapi_size at_once = 64 * page;

bool send(Taken& taken, const Bytes& bytes)
{
    kapi_segment segment{bytes.data, nullptr, 0, at_once};
    kapi_u32 end_seq;
    return kapi_stream_send(taken.stream, &segment, 1, 0, &end_seq) == static_cast<long>(at_once);
}

// Sends until there is no room, also when the peer has got all that it takes.
void fill(Taken& taken, const Bytes& bytes)
{
    for (int i = 0; i < 2; i++) {
        while (send(taken, bytes))
            ;
        pause(100 * millisecond);
    }
}

} // namespace

// The same if nothing is sent because there is no room.
bool adopt_notices_that_there_is_no_peer_for_what_waits(Bench& bench)
{
    Boxed<Taken> box;
    Bytes bytes(at_once);
    CHECK(box && bytes.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    fill(taken, bytes);
    CHECK(kapi_test_disconnect(taken.here) == 0);
    CHECK(eventually([&] { return taken.closed; }));
    return true;
}

// Many may wait for hours: the looks become rare, and are as before when something was sent.
bool adopt_looks_ever_more_rarely(Bench& bench)
{
    constexpr int first_ms = 600; // at most
    Boxed<Taken> box;
    Bytes bytes(at_once);
    CHECK(box && bytes.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    fill(taken, bytes);
    CHECK(kapi_test_looks_in_ms(taken.stream) <= first_ms);
    CHECK(eventually([&] { return kapi_test_looks_in_ms(taken.stream) > 2 * first_ms; }));
    for (int i = 0; i < 50 && kapi_test_looks_in_ms(taken.stream) > first_ms; i++) { // until there is room
        CHECK(kapi_test_read(taken.there, bytes.data, at_once) == static_cast<long>(at_once));
        while (send(taken, bytes))
            ;
    }
    CHECK(kapi_test_looks_in_ms(taken.stream) <= first_ms);
    return true;
}

// Nothing waits for room any more when the peer has reset the connection, and nothing looks at it.
bool adopt_looks_no_more_after_the_end(Bench& bench)
{
    Boxed<Taken> box;
    Bytes bytes(at_once);
    CHECK(box && bytes.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    fill(taken, bytes);
    CHECK(kapi_test_looks_in_ms(taken.stream) >= 0);
    CHECK(kapi_test_disconnect(taken.there) == 0);
    CHECK(eventually([&] { return taken.closed; }));
    CHECK(eventually([&] { return kapi_test_looks_in_ms(taken.stream) < 0; }));
    pause(10 * millisecond); // it was not in the middle of a look
    CHECK(kapi_test_looks_in_ms(taken.stream) < 0);
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
