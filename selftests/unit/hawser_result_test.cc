// SPDX-License-Identifier: GPL-2.0
// include/hawser/result.h: errors as values.
#include <gtest/gtest.h>

#include <hawser/result.h>

#include <memory>

namespace {

hw::Result<int> half(int value)
{
    if (value % 2)
        return hw::fail(KAPI_EINVAL);
    return value / 2;
}

hw::Result<int> quarter(int value)
{
    int first = TRY(half(value));
    return TRY(half(first));
}

hw::Result<> quarter_exists(int value)
{
    TRY(quarter(value));
    return {};
}

hw::Result<> nested(int value)
{
    TRY(quarter_exists(value));
    return hw::check(value == 8 ? -KAPI_EIO : 0);
}

TEST(Result, try__returns_the_error_or_the_value)
{
    EXPECT_EQ(quarter(12).value(), 3);
    EXPECT_EQ(quarter(6).error().code(), KAPI_EINVAL);
    EXPECT_EQ(quarter(6).error().to_c(), -KAPI_EINVAL);
    EXPECT_TRUE(quarter_exists(4).has_value());
    EXPECT_EQ(nested(8).error(), hw::Errno(KAPI_EIO));
    EXPECT_TRUE(nested(4).has_value());
    EXPECT_FALSE(nested(3).has_value());
}

TEST(Result, check__takes_only_negative_numbers_for_errors)
{
    EXPECT_TRUE(hw::check(0).has_value());
    EXPECT_TRUE(hw::check(5).has_value());
    EXPECT_EQ(hw::check(-KAPI_EFAULT).error(), hw::Errno(KAPI_EFAULT));
    EXPECT_EQ(hw::Errno::from_c(-KAPI_EFAULT).code(), KAPI_EFAULT);
}

hw::Result<std::unique_ptr<int>> boxed()
{
    return std::make_unique<int>(7);
}

hw::Result<int> unboxed()
{
    std::unique_ptr<int> box = TRY(boxed());
    return *box;
}

TEST(Result, try__moves_what_cannot_be_copied)
{
    EXPECT_EQ(unboxed().value(), 7);
}

} // namespace
