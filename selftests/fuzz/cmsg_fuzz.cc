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
    (void)rds::parse_controls(exact);
    if (auto endpoint = rds::parse_sockaddr(exact)) {
        unsigned char name[28];
        if (rds::format_sockaddr(*endpoint, name) > 28)
            __builtin_trap();
    }
    return 0;
}
