// SPDX-License-Identifier: GPL-2.0
#include "pages.h"

#include <kapi/errno.h>
#include <kapi/kept.h>
#include <kapi/socket.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "node.h"
#include "user.h"

struct kapi_pages {
    sim::Node *node;
    kapi_size length = 0, capacity = 0;
    bool pinned = false;
    kapi_size start = 0;            // in the first page, which others may share
    std::vector<sim::Page *> pages; // each full but the last
};

namespace sim {

void PageRef::put(Page *page)
{
    if (--page->references == 0)
        delete page;
}

std::uint64_t checksum(const unsigned char *bytes, std::size_t size)
{
    std::uint64_t sum = 0xcbf29ce484222325ULL;
    std::size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * 0x100000001b3ULL;
        sum ^= sum >> 32;
    }
    for (; i < size; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ULL;
    return sum;
}

namespace {

constexpr std::size_t kPage = 4096, kPinnedMax = 1024; // pieces
constexpr std::size_t kSmall = 64; // contents that share a page

thread_local Page *shared = nullptr; // the one that is being filled
thread_local std::size_t shared_used = 0;

std::set<const kapi_pages *> &live_lists()
{
    static std::set<const kapi_pages *> lists;
    return lists;
}

void drop_pages(void *object)
{
    auto *pages = static_cast<kapi_pages *>(object);
    live_lists().erase(pages);
    for (Page *page : pages->pages)
        PageRef::put(page);
    delete pages;
}

kapi_pages *make_pages(bool pinned)
{
    Node *node = Node::current();
    node->live_pages++;
    auto *pages = new kapi_pages{.node = node, .pages = {}};
    pages->pinned = pinned;
    live_lists().insert(pages);
    node->adopt(pages, drop_pages);
    return pages;
}

Page *new_page(std::size_t size)
{
    auto *page = new Page;
    page->own.resize(size);
    page->size = size;
    return page;
}

/** Room for so many bytes behind those that came before. */
void share_page(kapi_pages &pages, std::size_t size)
{
    if (shared_used + size > kPage) {
        PageRef::put(std::exchange(shared, new_page(kPage)));
        shared_used = 0;
    }
    shared->references++;
    pages.pages.push_back(shared);
    pages.start = shared_used;
    pages.length = size;
    shared_used += size;
}

/** Walks the bytes from offset; use(page, offset in it, length) returns false to stop. */
template <class Use> void walk(const kapi_pages &pages, kapi_size offset, Use use)
{
    kapi_size end = pages.start + pages.length;
    offset += pages.start;
    for (Page *page : pages.pages) {
        if (offset >= end)
            return;
        if (offset < page->size) {
            if (!use(page, offset, std::min<kapi_size>(page->size, end) - offset))
                return;
            offset = page->size;
        }
        offset -= page->size;
        end -= std::min<kapi_size>(page->size, end);
    }
}

} // namespace

SmallPages::SmallPages()
{
    shared = new_page(kPage);
    shared_used = 0;
}

SmallPages::~SmallPages()
{
    PageRef::put(std::exchange(shared, nullptr));
}

} // namespace sim

using namespace sim;

int kapi_pages_refill(struct kapi_pages *pages, struct kapi_msg *msg, kapi_size length) noexcept
{
    enter_task("kapi_pages_refill");
    if (!pages->pages.empty() || length > pages->capacity)
        broken("pages are filled again that are not empty, or with more than fits");
    if (fault("kapi_pages_refill"))
        return -KAPI_ENOMEM;
    if (shared && length <= kSmall) {
        share_page(*pages, length);
        return kapi_msg_copy_in(msg, pages->pages[0]->data() + pages->start, length);
    }
    for (bool ends = false; pages->length < length;) {
        // The kernel gives larger pieces when it has them.
        std::size_t size = std::min<std::size_t>(length - pages->length, kPage << world().host_random().below(4));
        // What is left at the end may lie in two.
        if (size > 1 && size < kPage && !std::exchange(ends, true) && world().host_random().one_in(4))
            size = 1 + world().host_random().below(size - 1);
        Page *page = new_page(size);
        pages->pages.push_back(page);
        pages->length += size;
        if (int err = kapi_msg_copy_in(msg, page->data(), size))
            return err;
    }
    return 0;
}

void kapi_pages_clear(struct kapi_pages *pages) noexcept
{
    enter_any("kapi_pages_clear");
    if (pages->pinned)
        broken("pinned pages are to be used again");
    for (Page *page : pages->pages)
        PageRef::put(page);
    pages->pages.clear();
    pages->length = pages->start = 0;
}

kapi_size kapi_pages_capacity(const struct kapi_pages *pages) noexcept
{
    return pages->capacity;
}

int kapi_pages_from_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **result) noexcept
{
    enter_task("kapi_pages_from_msg");
    if (fault("kapi_pages_from_msg"))
        return -KAPI_ENOMEM;
    kapi_pages *pages = make_pages(false);
    pages->capacity = (length + kPage - 1) / kPage * kPage;
    int err = kapi_pages_refill(pages, msg, length);
    if (err)
        kapi_pages_free(pages);
    else
        *result = pages;
    return err;
}

int kapi_pages_pin_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **result) noexcept
{
    enter_task("kapi_pages_pin_msg");
    if (fault("kapi_pages_pin_msg"))
        return -KAPI_ENOMEM;
    if (length > msg->size - msg->at || (msg->fault_at >= msg->at && msg->fault_at < msg->at + length))
        return -KAPI_EFAULT;
    if (length > kPinnedMax * kPage)
        return -KAPI_EMSGSIZE;
    kapi_pages *pages = make_pages(true);
    while (pages->length < length) {
        auto *page = new Page;
        page->size = std::min<std::size_t>(length - pages->length, kPage);
        page->pinned = msg->memory + msg->at;
        msg->at += page->size;
        pages->pages.push_back(page);
        pages->length += page->size;
    }
    *result = pages;
    return 0;
}

void kapi_pages_free(struct kapi_pages *pages) noexcept
{
    if (!pages)
        return;
    enter_any("kapi_pages_free");
    if (!live_lists().contains(pages))
        broken("a list of pages is freed twice");
    pages->node->live_pages--;
    pages->node->disown(pages);
    drop_pages(pages);
}

kapi_size kapi_pages_length(const struct kapi_pages *pages) noexcept
{
    return pages->length;
}

kapi_size kapi_pages_true_size(const struct kapi_pages *pages) noexcept
{
    // The least that Linux says: a piece of a page or more may be all of its page.
    kapi_size size = sizeof(kapi_pages);
    for (const Page *page : pages->pages)
        size += pages->pinned ? kPage : kapi_part_charge(page->size, kPage);
    return size;
}

unsigned int kapi_pages_segments(const struct kapi_pages *pages, kapi_size offset, struct kapi_segment *segments,
                                 unsigned int count) noexcept
{
    unsigned int filled = 0;
    walk(*pages, offset, [&](Page *page, kapi_size start, kapi_size length) {
        if (filled == count)
            return false;
        segments[filled++] = {nullptr, page, static_cast<kapi_u32>(start), static_cast<kapi_u32>(length)};
        return true;
    });
    return filled;
}

int kapi_pages_to_msg(const struct kapi_pages *pages, kapi_size offset, kapi_size length, struct kapi_msg *msg) noexcept
{
    enter_task("kapi_pages_to_msg");
    if (offset > pages->length || length > pages->length - offset)
        broken("kapi_pages_to_msg beyond the end");
    int err = 0;
    walk(*pages, offset, [&](Page *page, kapi_size start, kapi_size have) {
        kapi_size size = std::min(have, length);
        length -= size;
        err = size ? kapi_msg_copy_out(msg, page->data() + start, size) : 0;
        return !err && length;
    });
    return err;
}
