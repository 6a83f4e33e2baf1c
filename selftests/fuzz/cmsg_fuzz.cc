// SPDX-License-Identifier: GPL-2.0
// Control data and socket names from any program.
#include <cstdint>
#include <vector>

#include "net/rds/address.h"
#include "net/rds/cmsg.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    // An allocation of exactly that size, so that the sanitizer reports one byte too many.
    std::vector<std::byte> exact(size);
    for (std::size_t i = 0; i < size; i++)
        exact[i] = static_cast<std::byte>(data[i]);
    if (auto controls = rds::parse_controls(exact)) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < controls->count(); i++)
            sum += controls->length(i);
        if (controls->count() > RDS_ABI_MOST_LENGTHS || rds::check_lengths(*controls, static_cast<std::size_t>(sum) + 1))
            __builtin_trap();
    }
    if (auto endpoint = rds::parse_sockaddr(exact)) {
        unsigned char name[28];
        if (rds::format_sockaddr(*endpoint, name) > 28)
            __builtin_trap();
    }
    return 0;
}
