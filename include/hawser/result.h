// SPDX-License-Identifier: GPL-2.0
// Errors as values: Result<T>, TRY.
#pragma once

#include <hawser/base.h>

#include <expected>

namespace hw {

// An errno; positive inside core, negative at C borders.
class [[nodiscard]] Errno {
public:
    constexpr explicit Errno(int code) : code_(code) {}
    // From a C call's negative return value.
    static constexpr Errno from_c(s64 negative) { return Errno(static_cast<int>(-negative)); }
    constexpr int code() const { return code_; }
    constexpr int to_c() const { return -code_; }
    constexpr bool operator==(const Errno&) const = default;

private:
    int code_;
};

template <class T = void> using Result = std::expected<T, Errno>;

constexpr std::unexpected<Errno> fail(int code) { return std::unexpected(Errno(code)); }
constexpr std::unexpected<Errno> fail(Errno error) { return std::unexpected(error); }

// A C call that returns 0 or a negative errno.
constexpr Result<> check(int returned)
{
    if (returned < 0)
        return fail(Errno::from_c(returned));
    return {};
}

namespace detail {
template <class T> constexpr T take(Result<T>& result) { return std::move(*result); }
constexpr void take(Result<void>&) {}
} // namespace detail

} // namespace hw

// Evaluates to the value of a Result, or returns its error from the calling function.
#define TRY(expression)                                                                                                \
    ({                                                                                                                 \
        auto hw_result = (expression);                                                                                 \
        if (!hw_result.has_value()) [[unlikely]]                                                                       \
            return ::hw::fail(hw_result.error());                                                                      \
        ::hw::detail::take(hw_result);                                                                                 \
    })
