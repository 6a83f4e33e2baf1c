// SPDX-License-Identifier: GPL-2.0
// Giving an adopted TCP socket back to its program.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/stream.h>

#include "adopted.h"
#include "kapi_test.h"

namespace test {
namespace {

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

namespace {

// Gives back in a work, after which the kernel closes the file at once.
struct Ender {
    kapi_work work;
    Taken* taken;
    const Bytes* bytes;
    volatile int result;

    bool begin(Bench& bench)
    {
        kapi_work_init(&work, run);
        return kapi_work_queue(bench.queue, &work, 0) == 1;
    }
    int end()
    {
        eventually([&] { return result != 1; });
        kapi_work_cancel_sync(&work);
        return result;
    }
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
    CHECK(ender && ender->begin(bench));
    CHECK(ender->end() == 0);
    CHECK(kapi_test_read(taken.there, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(0, size));
    CHECK(kapi_test_read(taken.there, result.data, 1) == 0);
    return true;
}

// While a thread of the program has the lock there is no copy yet, which nobody would be charged for: the last bytes are copied.
bool adopt_copies_under_the_lock(Bench& bench)
{
    constexpr kapi_size size = 10;
    Boxed<Taken> box;
    Bytes bytes(size), result(size);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    Boxed<Ender> ender(kapi_work{}, &taken, &bytes, 1);
    CHECK(ender);
    kapi_test_lock(taken.here, 1);
    const bool begun = ender->begin(bench);
    pause(100 * millisecond);
    bytes.fill(1000);
    kapi_test_lock(taken.here, 0);
    CHECK(begun && ender->end() == 0);
    CHECK(kapi_test_read(taken.here, result.data, size) == static_cast<long>(size));
    CHECK(result.is_pattern(1000, size));
    return true;
}

// The program's memory that copies count as: no page more than they need.
bool adopt_gives_back_in_few_pages(Bench& bench)
{
    constexpr kapi_size size = page - 1;
    Boxed<Taken> box;
    Bytes bytes(size);
    CHECK(box && bytes.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(taken.give_back(bytes.data, size) == 0);
    const int memory = kapi_test_add_rmem(taken.here, 0);
    CHECK(memory > static_cast<int>(size) && memory < static_cast<int>(size + page));
    return true;
}

namespace {

// Gives back the bytes, repeated, as count pieces of size bytes each.
bool gives_back_pieces(Bench& bench, Taken& taken, const Bytes& bytes, kapi_size count, kapi_u32 size)
{
    const kapi_size different = bytes.size / size;
    auto* pieces = static_cast<kapi_piece*>(kapi_alloc(count * sizeof(kapi_piece), KAPI_SLEEP));
    CHECK(pieces);
    for (kapi_size i = 0; i < count; i++)
        pieces[i] = {i + 1 < count ? &pieces[i + 1] : nullptr, bytes.data + i % different * size, nullptr, size};
    const bool given = taken.open(bench) &&
                       kapi_stream_give_back(std::exchange(taken.stream, nullptr), pieces, KAPI_GIVE_BACK_OPEN) == 0;
    kapi_free(pieces);
    return given;
}

} // namespace

// Small pieces become full buffers: TCP would copy others together, with interrupts held up.
bool adopt_gives_back_full_buffers(Bench& bench)
{
    constexpr kapi_size count = 10'000, size = 1024, different = 100;
    Boxed<Taken> box;
    Bytes bytes(different * size), result(different * size);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    CHECK(gives_back_pieces(bench, taken, bytes, count, size));
    CHECK(kapi_test_buffers(taken.here) <= static_cast<int>(count * size / pages_of_buffer + 2));
    for (kapi_size i = 0; i < count; i += different) {
        CHECK(kapi_test_read(taken.here, result.data, result.size) == static_cast<long>(result.size));
        CHECK(result.is_pattern(0, result.size));
        result.clear();
    }
    CHECK(kapi_test_unread(taken.here) == 0);
    return true;
}

// More than the socket may have, of which the program has read a part: for a packet TCP copies one buffer, not all of them.
bool adopt_gives_back_what_tcp_leaves_alone(Bench& bench)
{
    constexpr kapi_size size = 1 << 20, count = 16, packets = 10;
    constexpr int least_copied = 3000; // that TCP puts into one of its buffers
    Boxed<Taken> box;
    Bytes bytes(size), result(size), last(packets);
    CHECK(box && bytes.data && result.data && last.data);
    Taken& taken = *box;
    CHECK(gives_back_pieces(bench, taken, bytes, count, size));
    const int buffers = kapi_test_buffers(taken.here);
    CHECK(kapi_test_read(taken.here, result.data, 1) == 1);
    kapi_test_no_delay(taken.there);
    for (kapi_size i = 0; i < packets; i++) {
        CHECK(kapi_test_write(taken.there, last.data + i, 1) == 1);
        pause(5 * millisecond);
    }
    CHECK(kapi_test_buffers(taken.here) <= buffers + static_cast<int>(pages_of_buffer / least_copied + packets));
    CHECK(kapi_test_read(taken.here, result.data + 1, size - 1) == static_cast<long>(size - 1) && result.is_pattern(0, size));
    for (kapi_size i = 1; i < count; i++) {
        result.clear();
        CHECK(kapi_test_read(taken.here, result.data, size) == static_cast<long>(size) && result.is_pattern(0, size));
    }
    CHECK(kapi_test_read(taken.here, result.data, packets) == static_cast<long>(packets) && result.is_pattern(0, packets));
    return true;
}

// A part of the stream was forgotten: nothing of what follows is read, nor of what comes while the lock is held.
bool adopt_gives_back_nothing_behind_a_hole(Bench& bench)
{
    constexpr kapi_size size = 100, taken_of_it = 40;
    Boxed<Taken> box;
    Bytes bytes(size), result(size);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    taken.sends_late = true;
    CHECK(taken.open(bench));
    taken.limit = taken_of_it;
    CHECK(kapi_test_write(taken.there, bytes.data, size) == static_cast<long>(size));
    CHECK(eventually([&] { return taken.received == taken_of_it; }));
    const int error = kapi_stream_give_back(std::exchange(taken.stream, nullptr), nullptr, KAPI_GIVE_BACK_LOST);
    CHECK(kapi_test_was_readable(taken.here) == 0);
    CHECK(error == 0);
    CHECK(kapi_test_take_error(taken.here) == KAPI_ECONNABORTED);
    CHECK(kapi_test_unread(taken.here) <= 0 && kapi_test_read(taken.here, result.data, size) == 0);
    CHECK(kapi_test_read(taken.there, result.data, size) == -KAPI_ECONNRESET);
    return true;
}

// It counts the memory of a queue in an int, which is nearly full.
bool adopt_gives_back_no_more_than_tcp_can_count(Bench& bench)
{
    constexpr int full = 0x7fffffff - 100;
    constexpr kapi_size size = 100;
    Boxed<Taken> box;
    Bytes bytes(size), result(size);
    CHECK(box && bytes.data && result.data);
    Taken& taken = *box;
    CHECK(taken.open(bench));
    CHECK(kapi_test_add_rmem(taken.here, full) == full);
    const int error = taken.give_back(bytes.data, size);
    kapi_test_add_rmem(taken.here, -full);
    CHECK(error == -KAPI_ENOMEM);
    CHECK(kapi_test_add_rmem(taken.here, 0) == 0);
    CHECK(kapi_test_read(taken.there, result.data, size) == -KAPI_ECONNRESET);
    return true;
}

} // namespace test
