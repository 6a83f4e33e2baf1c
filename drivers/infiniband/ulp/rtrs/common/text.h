// SPDX-License-Identifier: GPL-2.0
// Text of files and names: written into memory of a fixed size, beyond which it is cut off, and read.
#pragma once

#include <hawser/result.h>
#include <hawser/text_view.h>

namespace rtrs {

using namespace hw;

class Text {
public:
    Text(char* to, usize room) : to_(to), room_(room) {}
    Text& add(TextView piece)
    {
        usize n = min(piece.size(), room_ - length_);
        kapi_copy(to_ + length_, piece.data(), n);
        length_ += n;
        return *this;
    }
    Text& number(s64 value);
    Text& hex(u32 value, unsigned least_digits); // of which there is at least one; lower case
    usize length() const { return length_; }

private:
    char* const to_;
    const usize room_;
    usize length_ = 0;
};

// What a program has written to a file, without the newline at its end.
TextView line_of(const char* text, usize length);
// A decimal number, with a sign in front or none. EINVAL: it is none, or not between least and most, of at most 18 digits each.
Result<s64> parse_number(TextView text, s64 least, s64 most);

} // namespace rtrs
