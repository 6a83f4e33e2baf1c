// SPDX-License-Identifier: GPL-2.0
// Room for the largest message, used again and again: fresh memory of that size costs a sanitizer most of a test's time.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

class Inbox {
public:
    Inbox() : bytes_(take()) {}
    ~Inbox() { spare().push_back(std::move(bytes_)); }
    Inbox(const Inbox &) = delete;
    Inbox &operator=(const Inbox &) = delete;

    char *data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }
    std::string text(long size) const { return bytes_.substr(0, static_cast<std::size_t>(size)); }

private:
    // A task may wait with one in use, so there are several.
    static std::vector<std::string> &spare()
    {
        static std::vector<std::string> all;
        return all;
    }
    static std::string take()
    {
        if (spare().empty())
            return std::string(1 << 20, '\0');
        std::string last = std::move(spare().back());
        spare().pop_back();
        return last;
    }
    std::string bytes_;
};
