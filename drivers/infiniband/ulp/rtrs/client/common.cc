// SPDX-License-Identifier: GPL-2.0
// What both modules compile, for this one: Kbuild lets no object be part of two.
#include "../common/connect.cc"
#include "../common/geometry.cc"
#include "../common/immediate.cc"
#include "../common/info.cc"
#include "../common/path_name.cc"
#include "../common/request.cc"
#include "../common/text.cc"
