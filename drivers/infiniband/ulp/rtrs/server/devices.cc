// SPDX-License-Identifier: GPL-2.0
#include "devices.h"

#include "context.h"

namespace rtrs_srv {

void DeviceRules::added() { Module::get().device_added(); }
void DeviceRules::goes(Path& path) { path.notify(Path::lost); }

} // namespace rtrs_srv
