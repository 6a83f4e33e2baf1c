// SPDX-License-Identifier: GPL-2.0
// The devices of the client.
#pragma once

#include "../common/devices.h"
#include "lock_order.h"

namespace rtrs_clt {

using namespace hw;

class Path;

struct DeviceRules {
    using Path = rtrs_clt::Path;
    using Lock = DevicesLock;
    static constexpr const char* module = "rtrs_client";
    static bool suffices(const kapi_rdma_attrs& attrs);
    static void added() {}
    static void goes(Path& path);
};
using Device = rtrs::Device<DeviceRules>;
using DeviceUser = rtrs::DeviceUser<DeviceRules>;
using Devices = rtrs::Devices<DeviceRules>;

} // namespace rtrs_clt
