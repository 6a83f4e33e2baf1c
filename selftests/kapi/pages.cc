// SPDX-License-Identifier: GPL-2.0
// Pages: allocated, charged, copied in, and what they hold.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/objects.h>
#include <kapi/pages.h>
#include <kapi/socket.h>

#include "kapi_test.h"

namespace test {

namespace {

constexpr kapi_size large = 300'000;

unsigned char pattern(kapi_size i)
{
    return static_cast<unsigned char>(i * 7 + i / 251);
}

void fill_with_pattern(unsigned char* bytes)
{
    for (kapi_size i = 0; i < large; i++)
        bytes[i] = pattern(i);
}

int read_back(kapi_pages* pages, unsigned char* bytes)
{
    kapi_fill(bytes, 0, large);
    struct Where {
        kapi_pages* pages;
        kapi_size offset;
    } where{pages, 1234};
    const int error = kapi_test_with_msg(bytes, large, 1, [](kapi_msg* msg, void* context) {
        auto* where = static_cast<Where*>(context);
        return kapi_pages_to_msg(where->pages, where->offset, large - where->offset, msg);
    }, &where);
    if (error)
        return error;
    for (kapi_size i = where.offset; i < large; i++)
        if (bytes[i - where.offset] != pattern(i))
            return 1;
    return 0;
}

kapi_size sum_of_segments(const kapi_pages* pages, kapi_size offset)
{
    kapi_segment segments[4];
    kapi_size sum = 0;
    while (const unsigned count = kapi_pages_segments(pages, offset + sum, segments, 4))
        for (unsigned i = 0; i < count; i++)
            sum += segments[i].page ? segments[i].length : 0;
    return sum;
}

} // namespace

// Neighbours of each size, full: none has bytes of another. Some sizes are those of the allocator's objects, and of hawser's own.
bool objects(Bench&)
{
    constexpr kapi_size sizes[] = {1, 252, 253, 504, 505, 511, 512, 1016, 1017, 2040, 2048, 2049, 4088, 4089, 8184, 8185, 8193};
    constexpr unsigned count = 40;
    for (kapi_size size : sizes) {
        unsigned char* all[count] = {};
        bool right = kapi_object_true_size(size) >= size;
        for (unsigned i = 0; i < count; i++) {
            all[i] = static_cast<unsigned char*>(kapi_alloc_object(size, i % 2 ? KAPI_ATOMIC : KAPI_SLEEP_CHARGED));
            right = right && all[i] && reinterpret_cast<unsigned long>(all[i]) % 8 == 0;
            if (all[i])
                kapi_fill(all[i], static_cast<int>(i), size);
        }
        for (unsigned i = 0; i < count; i++) {
            for (kapi_size at = 0; all[i] && at < size; at++)
                right = right && all[i][at] == i;
            kapi_free(all[i]);
        }
        CHECK(right);
    }
    return true;
}

bool charges(Bench&)
{
    CHECK(kapi_test_charges() == 0);
    return true;
}

bool pages(Bench&)
{
    auto* bytes = static_cast<unsigned char*>(kapi_alloc(large, KAPI_SLEEP));
    CHECK(bytes);
    fill_with_pattern(bytes);
    kapi_pages* pages = nullptr;
    CHECK(kapi_test_with_msg(bytes, large, 0, [](kapi_msg* msg, void* result) {
        return kapi_pages_from_msg(msg, large, static_cast<kapi_pages**>(result));
    }, &pages) == 0);
    CHECK(kapi_pages_length(pages) == large && kapi_pages_true_size(pages) >= large);
    CHECK(sum_of_segments(pages, 0) == large && sum_of_segments(pages, 40'000) == large - 40'000);
    CHECK(sum_of_segments(pages, large) == 0);
    CHECK(read_back(pages, bytes) == 0);
    // Again, in the same list. The bytes are those that were read back.
    fill_with_pattern(bytes);
    CHECK(kapi_pages_capacity(pages) >= large);
    kapi_pages_clear(pages);
    CHECK(kapi_pages_length(pages) == 0 && sum_of_segments(pages, 0) == 0);
    CHECK(kapi_test_with_msg(bytes, large, 0, [](kapi_msg* msg, void* list) {
        return kapi_pages_refill(static_cast<kapi_pages*>(list), msg, large);
    }, pages) == 0);
    CHECK(read_back(pages, bytes) == 0);
    kapi_pages_clear(pages);
    CHECK(kapi_test_with_msg(bytes, 100, 0, [](kapi_msg* msg, void* list) {
        return kapi_pages_refill(static_cast<kapi_pages*>(list), msg, large);
    }, pages) == -KAPI_EFAULT);
    kapi_pages_free(pages);
    kapi_pages_free(nullptr);

    // More than the message contains.
    CHECK(kapi_test_with_msg(bytes, 100, 0, [](kapi_msg* msg, void* result) {
        return kapi_pages_from_msg(msg, large, static_cast<kapi_pages**>(result));
    }, &pages) == -KAPI_EFAULT);
    // Only user memory can be pinned.
    CHECK(kapi_test_with_msg(bytes, 100, 0, [](kapi_msg* msg, void* result) {
        return kapi_pages_pin_msg(msg, 100, static_cast<kapi_pages**>(result));
    }, &pages) == -KAPI_EFAULT);
    kapi_free(bytes);
    return true;
}

namespace {

struct Copied {
    kapi_size size;
    kapi_pages* pages;
};

int copy_in(kapi_msg* msg, void* context)
{
    auto* copied = static_cast<Copied*>(context);
    return kapi_pages_from_msg(msg, copied->size, &copied->pages);
}

// Of the pages, in all, that its pieces lie in; it has few pieces.
kapi_size held_by(const kapi_pages* pages)
{
    kapi_segment segments[4];
    kapi_size sum = 0;
    const unsigned count = kapi_pages_segments(pages, 0, segments, 4);
    for (unsigned i = 0; i < count; i++)
        sum += kapi_test_page_size(segments[i].page);
    return sum;
}

} // namespace

// What lay around a piece may be gone, and its page is held all the same.
bool pages_count_what_they_hold(Bench&)
{
    constexpr kapi_size sizes[] = {4096, 28'672, 1, 4095, 5000, 27'768};
    auto* bytes = static_cast<unsigned char*>(kapi_zalloc(32'768, KAPI_SLEEP));
    CHECK(bytes);
    bool right = true, has_large = false;
    for (int round = 0; round < 8 && right; round++) {
        Copied copied[sizeof(sizes) / sizeof(sizes[0])];
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            copied[i] = {sizes[i], nullptr};
            right = right && !kapi_test_with_msg(bytes, sizes[i], 0, copy_in, &copied[i]);
        }
        for (const Copied& one : copied) {
            right = right && kapi_pages_true_size(one.pages) >= held_by(one.pages) / 4;
            has_large = has_large || (right && held_by(one.pages) > 4 * one.size);
            kapi_pages_free(one.pages);
        }
    }
    kapi_free(bytes);
    CHECK(right && has_large);
    return true;
}

} // namespace test
