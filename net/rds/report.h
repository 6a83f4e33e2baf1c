// SPDX-License-Identifier: GPL-2.0
// What programs read of RDS over netlink, and are notified of (kapi/report.h).
#pragma once

#include "path.h"

#include <kapi/report.h>

namespace rds {

// A path has gone from one state to another. Any context.
void publish_change(Path& path, PathState from, PathState to, kapi_trace_rds_reason reason);

// As next of a kapi_report_table: a part of a queue. Of the kind that place chooses, enum hawser_rds_queue_kind; 0: of all.
int next_queue(kapi_net* host, kapi_report_place* place, kapi_report* report);

} // namespace rds
