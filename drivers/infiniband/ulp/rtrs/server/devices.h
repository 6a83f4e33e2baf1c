// SPDX-License-Identifier: GPL-2.0
// The devices of the server, which listens on their GIDs.
#pragma once

#include "../common/devices.h"
#include "lock_order.h"

namespace rtrs_srv {

using namespace hw;

class Path;

struct DeviceRules {
    using Path = rtrs_srv::Path;
    using Lock = DevicesLock;
    static constexpr const char* module = "rtrs_server";
    // Requests and answers are writes with immediate data, which iWARP has not.
    static bool suffices(const kapi_rdma_attrs& attrs) { return !(attrs.flags & KAPI_RDMA_IWARP); }
    static void added();
    static void goes(Path& path);
};
using Device = rtrs::Device<DeviceRules>;
using DeviceUser = rtrs::DeviceUser<DeviceRules>;
using Devices = rtrs::Devices<DeviceRules>;

} // namespace rtrs_srv
