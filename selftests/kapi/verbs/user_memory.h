// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "verbs_test.h"

namespace test {

// Memory of the program that loads this module.
struct UserMemory {
    kapi_u64 at;
    kapi_size size;

    explicit UserMemory(kapi_size wanted, bool writable = true) : at(verbs_test_mmap(wanted, writable)), size(wanted) {}
    UserMemory(const UserMemory&) = delete;
    ~UserMemory()
    {
        if (at)
            verbs_test_munmap(at, size);
    }
};

} // namespace test
