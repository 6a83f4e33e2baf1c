// SPDX-License-Identifier: GPL-2.0
// What client and server have in common, compiled into this module: Kbuild wants an object in one module only.
#include "../common/connect.cc"
#include "../common/geometry.cc"
#include "../common/immediate.cc"
#include "../common/info.cc"
#include "../common/path_name.cc"
#include "../common/request.cc"
#include "../common/text.cc"
