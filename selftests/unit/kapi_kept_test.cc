// SPDX-License-Identifier: GPL-2.0
// What parts of a network buffer pay, against what they hold.
#include <gtest/gtest.h>

#include <kapi/kept.h>

namespace {

// Buffers of the network: of one packet, half empty, and of many, the largest.
TEST(Kept, a_part_pays_for_a_quarter_of_what_it_holds_and_no_more_than_that_too_much)
{
    for (kapi_u64 buffer : {2304u, 4352u, 66'000u, 150'000u}) {
        for (kapi_u64 bytes : {1448u, 4000u, 65'160u}) {
            for (kapi_u64 size = 1; size <= bytes; size += 7) {
                if (bytes > buffer || kapi_part_is_copied(size, buffer))
                    continue;
                kapi_u64 share = buffer * size / bytes, paid = kapi_part_charge(share, buffer);
                EXPECT_GE(paid, buffer / 4) << size << " of " << bytes;
                EXPECT_LE(paid, 4 * share) << size << " of " << bytes;
            }
            EXPECT_EQ(kapi_part_charge(buffer, buffer), buffer); // of the whole
        }
    }
}

} // namespace
