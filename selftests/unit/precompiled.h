// SPDX-License-Identifier: GPL-2.0
// What nearly all tests include. The host build compiles it once, which halves the time that it takes to compile the tests;
// each test still includes what it needs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "selftests/unit/kapi_sim_test.h"
