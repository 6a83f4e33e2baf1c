// SPDX-License-Identifier: GPL-2.0
// What programs read of RDS over netlink, and are notified of (kapi/report.h).
#pragma once

#include "path.h"

namespace rds {

// A path has gone from one state to another. Any context.
void publish_change(Path& path, PathState from, PathState to, kapi_trace_rds_reason reason);

} // namespace rds
