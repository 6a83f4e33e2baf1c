// SPDX-License-Identifier: GPL-2.0
// Pages as the simulated network sees them: counted, and either the host's own or pinned from a program.
#pragma once

#include <kapi/pages.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace sim {

struct Page {
    std::vector<unsigned char> own;    // empty when pinned
    unsigned char *pinned = nullptr;   // the program's memory
    std::size_t size = 0;
    unsigned references = 1;
    unsigned mapped = 0;               // of these, mappings for a device

    unsigned char *data() { return pinned ? pinned : own.data(); }
};

/** One reference to a page. */
class PageRef {
public:
    PageRef() = default;
    explicit PageRef(Page *page) : page_(page)
    {
        if (page_)
            page_->references++;
    }
    PageRef(PageRef &&other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
    PageRef &operator=(PageRef &&other) noexcept
    {
        std::swap(page_, other.page_);
        return *this;
    }
    ~PageRef()
    {
        if (page_)
            put(page_);
    }
    Page *operator->() const { return page_; }
    explicit operator bool() const { return page_ != nullptr; }
    static void put(Page *page);

private:
    Page *page_ = nullptr;
};

/** While it exists, small contents lie one behind the other in a page, as those of one processor do in the kernel. */
class SmallPages {
public:
    SmallPages();
    ~SmallPages();
    SmallPages(const SmallPages &) = delete;
};

/** A checksum, to find changed bytes. */
std::uint64_t checksum(const unsigned char *bytes, std::size_t size);

} // namespace sim
