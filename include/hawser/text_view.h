// SPDX-License-Identifier: GPL-2.0
// Text that has another owner. In place of std::string_view, whose header needs the C library's.
#pragma once

#include "base.h"

namespace hw {

class TextView {
public:
    static constexpr usize npos = ~usize{0};

    constexpr TextView() = default;
    constexpr TextView(const char* text) : text_(text), size_(__builtin_strlen(text)) {}
    constexpr TextView(const char* text, usize size) : text_(text), size_(size) {}

    constexpr const char* data() const { return text_; }
    constexpr usize size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr const char* begin() const { return text_; }
    constexpr const char* end() const { return text_ + size_; }
    constexpr char operator[](usize i) const { return text_[i]; }

    // first and n may be beyond the end.
    constexpr TextView substr(usize first, usize n = npos) const
    {
        usize from = first < size_ ? first : size_;
        usize left = size_ - from;
        return {text_ + from, n < left ? n : left};
    }
    constexpr void remove_prefix(usize n) { *this = substr(n); }
    constexpr bool starts_with(TextView other) const { return substr(0, other.size_) == other; }
    constexpr bool starts_with(char c) const { return size_ && text_[0] == c; }
    // npos: there is none.
    constexpr usize find(TextView other) const
    {
        for (usize i = 0; i + other.size_ <= size_; i++)
            if (substr(i, other.size_) == other)
                return i;
        return npos;
    }
    constexpr usize find(char c) const { return find(TextView(&c, 1)); }
    constexpr usize find_first_of(TextView any) const
    {
        for (usize i = 0; i < size_; i++)
            if (any.find(text_[i]) != npos)
                return i;
        return npos;
    }

    friend constexpr bool operator==(TextView a, TextView b)
    {
        if (a.size_ != b.size_)
            return false;
        for (usize i = 0; i < a.size_; i++)
            if (a.text_[i] != b.text_[i])
                return false;
        return true;
    }

private:
    const char* text_ = "";
    usize size_ = 0;
};

} // namespace hw
